"""Jobs from manifests that nobody has submitted yet."""

from __future__ import annotations

from textwrap import dedent

from gpuyield.collect.kueue.manifests import Manifests, holds_manifests, read_manifests
from gpuyield.errors import Mistake
from gpuyield.units import parse_instant

NOW = parse_instant("2026-12-01T00:00:00Z")
JOB = """
    apiVersion: batch/v1
    kind: Job
    metadata:
      name: train
      labels: {kueue.x-k8s.io/queue-name: main, kueue.x-k8s.io/max-exec-time-seconds: "7200"}
      annotations:
        gpuyield.dev/deadline: within 8h
        kueue.x-k8s.io/admission-gated-by: "other.dev/x, gpuyield.dev/plan"
    spec:
      parallelism: 3
      completions: 2
      template:
        metadata: {annotations: {gpuyield.dev/weight: "2", gpuyield.dev/deadline: within 1h}}
        spec:
          containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]
"""


def read(text: str) -> tuple[Manifests, list[Mistake]]:
    mistakes: list[Mistake] = []
    found = read_manifests(dedent(text).encode(), file="my.yaml", namespace="evals", at_ms=NOW, mistakes=mistakes)
    return found, mistakes


def test_a_job_is_read_as_kueue_would_see_it() -> None:
    found, mistakes = read(JOB)

    (job,) = found.work
    assert not mistakes
    assert (job.id, job.queue, job.gpus, job.max_run_ms) == ("evals/train", "main", 8, 7_200_000)
    assert job.gates == ("other.dev/x", "gpuyield.dev/plan")
    assert (job.annotations["gpuyield.dev/deadline"], job.annotations["gpuyield.dev/weight"]) == ("within 8h", "2")


def test_the_pods_of_all_jobs_of_a_job_set_count() -> None:
    found, mistakes = read(
        """
        apiVersion: jobset.x-k8s.io/v1alpha2
        kind: JobSet
        metadata: {name: pair, namespace: research, labels: {kueue.x-k8s.io/queue-name: main}}
        spec:
          replicatedJobs:
            - name: driver
              template: {spec: {template: {spec: {containers: [{name: a}]}}}}
            - name: workers
              replicas: 2
              template:
                spec:
                  parallelism: 3
                  template: {spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: "1"}}}]}}
        """
    )

    (job,) = found.work
    assert not mistakes
    assert (job.id, job.kind, job.gpus) == ("research/pair", "JobSet", 6)
    assert [(one.name, one.count, one.gpus) for one in job.pod_sets] == [("driver", 1, 0), ("workers", 6, 1)]


def test_a_cron_job_comes_again() -> None:
    found, mistakes = read(
        """
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: nightly}
        spec:
          schedule: "0 22 * * *"
          jobTemplate:
            metadata: {labels: {kueue.x-k8s.io/queue-name: main}}
            spec: {template: {spec: {containers: [{name: a, resources: {limits: {nvidia.com/gpu: "1"}}}]}}}
        """
    )

    (one,) = found.recurring
    assert not mistakes
    assert (one.namespace, one.name, one.queue, one.schedule) == ("evals", "nightly", "main", "0 22 * * *")


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    _, mistakes = read(
        """
        apiVersion: batch/v1
        kind: Job
        metadata: {name: a}
        spec: {parallelism: many, template: {spec: {containers: [{name: a}]}}}
        ---
        apiVersion: batch/v1
        kind: Job
        metadata: {labels: {kueue.x-k8s.io/max-exec-time-seconds: 1h}}
        spec: {template: {spec: {containers: [{name: a}]}}}
        ---
        apiVersion: ray.io/v1
        kind: RayJob
        metadata: {name: b}
        ---
        apiVersion: batch/v1
        kind: CronJob
        metadata: {name: c}
        spec:
          jobTemplate: {spec: {template: {spec: {containers: [{resources: {limits: {nvidia.com/gpu: 0.5}}}]}}}}
        """
    )

    said = [f"{one.where}: {one.what}" for one in mistakes]
    assert said == [
        'my.yaml: Job a: pods of main: parallelism: "many" is no whole number.',
        "my.yaml: Job a: it names no queue.",
        "my.yaml: Job ?: it has no name.",
        "my.yaml: Job ?: it names no queue.",
        "my.yaml: Job ?: it asks for no GPU.",
        'my.yaml: Job ?: "1h" is no number of seconds.',
        "my.yaml: RayJob b: the pods of a RayJob are not told by its manifest.",
        'my.yaml: CronJob c: pods of main: "0.5" is no whole number of GPUs.',
        "my.yaml: CronJob c: spec.jobTemplate: it names no queue.",
        "my.yaml: CronJob c: it has no schedule.",
    ]
    assert all(one.fix for one in mistakes)


def test_what_is_no_job_is_passed_over_and_named() -> None:
    found, mistakes = read(f"{dedent(JOB)}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\n")

    assert not mistakes
    assert (len(found.work), found.passed_over) == (1, ("ConfigMap settings",))


def test_a_file_without_a_job_is_a_mistake() -> None:
    _, mistakes = read("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n")

    assert [one.what for one in mistakes] == ["it holds no job (ConfigMap settings)."]


def test_job_files_of_ours_are_no_manifests() -> None:
    assert not holds_manifests(b"- {id: a, gpus: 2, duration_s: 60}\n")
    assert not holds_manifests(b'{"id": "a", "gpus": 2}\n{"id": "b"}\n')
    assert not holds_manifests(b"id,gpus\na,2\n")
    assert not holds_manifests(b"PAR1\x00\xff")
    assert holds_manifests(dedent(JOB).encode())
