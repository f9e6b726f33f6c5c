"""Contract experiments about failures, and about what Kueue tells: JobSets, metrics, crashes."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2
from kube import JOB_SET, NODE, WORKLOAD, Client, condition, is_true, wait_for
from scenario import (
    GATES,
    OUR_GATE,
    QUEUE_LABEL,
    Scenario,
    brief,
    expect,
    pod_spec,
    refusal,
    scenario,
    seconds_until,
)

from controlplane import ControlPlane

RUNNING_S = "fake-kubelet/run-seconds"


def failing_pods(stack: ControlPlane) -> str:
    """A failed job gives its quota back; one whose pod never starts keeps it."""
    with scenario(stack.client(), "failing", checked=False) as stage:
        stage.submit("fails", seconds=1, annotations={"fake-kubelet/exit-code": "1"})
        stage.submit("stuck", annotations={"fake-kubelet/never-start": "true"})
        wait_for("the failure", lambda: is_true(stage.job("fails"), "Failed"))
        wait_for("the end", lambda: stage.has("fails", "Finished"))
        wait_for("the count", lambda: stage.gpus() == 2)
        ready = condition(stage.workload("stuck"), "PodsReady").get("status", "no condition")
        return (
            f"failed job: Finished ({stage.why('fails', 'Finished')}); stuck job: admitted, "
            f"PodsReady {ready}, {stage.gpus()} GPUs reserved"
        )


def lost_nodes(stack: ControlPlane) -> str:
    """A node that reports NotReady, or falls silent, is seen as such; Kueue keeps the quota."""
    client = stack.client()
    with scenario(client, "lost", checked=False) as stage:
        stage.submit("j")
        wait_for("a pod", lambda: stage.is_running("j"))
        not_ready_s = _seconds_to_status(client, "not-ready", "False")
        silent_s = _seconds_to_status(client, "silent", "Unknown")
        kept = stage.has("j", "QuotaReserved")
        wait_for("no taint", lambda: not client.get(NODE, "node-0")["spec"].get("taints"))
        return expect(
            kept,
            f"Ready=False {not_ready_s:.1f} s after the node says so, Ready=Unknown "
            f"{silent_s:.1f} s after its last word; quota kept: {kept}",
        )


def gated_job_set(stack: ControlPlane) -> str:
    """A JobSet is gated, released and checked as a whole, like a job."""
    if "jobset" not in stack.supervisor.components:
        return "skipped: JobSet is not built"
    with scenario(stack.client(), "jobset") as stage:
        stage.client.create(_job_set("js", stage.name))
        stage.workload("js")
        time.sleep(1)
        gated = stage.why("js")
        expect(not stage.has("js", "QuotaReserved"), f"gate ignored: {gated}")
        change = {"metadata": {"annotations": {GATES: None}}}
        stage.client.merge(JOB_SET, "js", change, stage.name)
        reserved_s = stage.wait_checked("js")
        stage.answer("js", "Ready")
        done_s = seconds_until("the JobSet", lambda: is_true(stage.client.get(JOB_SET, "js", stage.name), "Completed"))
        pods = stage.workload("js")["spec"]["podSets"][0]["count"]
        seen = (
            f"gated ({gated}); quota {reserved_s:.2f} s after release for {pods} pods in one "
            f"Workload; completed {done_s:.1f} s after Ready (pods run 2 s)"
        )
        stage.client.delete(JOB_SET, "js", stage.name)
        return seen


def metrics_tell_quota(stack: ControlPlane) -> str:
    """Kueue's metrics give quota, reservation and usage per queue, to an authorised account."""
    client = stack.client()
    with scenario(client, "metrics", checked=False) as stage:
        stage.submit("j")
        stage.wait_reserved("j")
        url = stack.layout.url("kueue-metrics", "/metrics")
        headers = {"authorization": f"Bearer {metrics_token(client)}"}
        # The metrics server has a certificate that it made itself.
        with httpx2.Client(verify=False, trust_env=False) as http:
            anonymous = http.get(url).status_code
            values = wait_for(
                "the reservation",
                lambda: _reserved(_gpu_metrics(http.get(url, headers=headers).text, stage.name)),
            )
        return f"without a token: {anonymous}; with one: {values}"


def gate_without_the_feature(stack: ControlPlane) -> str:
    """With AdmissionGatedBy off (the default in 0.17) the annotation is silently ignored."""
    with scenario(stack.client(), "gate-off") as stage, _feature_off(stack, "AdmissionGatedBy"):
        created = refusal(lambda: stage.submit("j", gated=True))
        seconds = stage.wait_reserved("j")
        seen = f"creation: {created or 'accepted'}; quota after {seconds:.2f} s despite the gate"
        return expect(not created, seen)


def kueue_crash(stack: ControlPlane) -> str:
    """While Kueue is down jobs in its queues can't be made or released; then all goes on."""
    with scenario(stack.client(), "kueue-down") as stage:
        stage.submit("running", 2, seconds=4)
        stage.admit("running")
        stage.submit("reserved", 2)
        stage.wait_checked("reserved")
        stage.submit("gated", 2, gated=True)
        stage.workload("gated")
        stack.kill("kueue")
        create = refusal(lambda: stage.submit("late"))
        release = refusal(lambda: stage.ungate("gated"))
        answer = refusal(lambda: stage.answer("reserved", "Ready"))
        done_s = seconds_until("the running job", lambda: stage.is_complete("running"))
        back_s = stack.start("kueue")
        wait_for("the end", lambda: stage.has("running", "Finished"))
        kept = stage.has("reserved", "QuotaReserved"), stage.has("gated", "QuotaReserved")
        stage.ungate("gated")
        seconds = stage.wait_reserved("gated")
        return expect(
            kept == (True, False) and bool(create),
            f"down: create {brief(create)}, release {brief(release)}, answer {brief(answer)}, "
            f"running job done after {done_s:.1f} s; back in {back_s:.1f} s: reserved kept, "
            f"gated still held, released in {seconds:.2f} s, evictions {stage.evictions()}",
        )


def apiserver_crash(stack: ControlPlane) -> str:
    """After a crash of the API server Kueue and our watch come back by themselves."""
    with scenario(stack.client(), "api-down") as stage:
        stage.submit("running", 2, seconds=4)
        stage.admit("running")
        stage.submit("gated", 2, gated=True)
        stage.workload("gated")
        seen_names = _watched_names(stack, stage)
        wait_for("the watch", lambda: len(seen_names) == 2)
        stack.kill("kube-apiserver")
        time.sleep(2)
        back_s = stack.start("kube-apiserver")
        began = time.monotonic()
        stage.submit("late", 2, gated=True)
        stage.workload("late")
        late_s = time.monotonic() - began
        watch_s = seconds_until("the watch", lambda: len(seen_names) == 3, timeout_s=60)
        stage.ungate("gated")
        release_s = stage.wait_reserved("gated")
        done_s = seconds_until("the running job", lambda: stage.is_complete("running"), 60)
        alive = all(each.is_running() for each in stack.supervisor.components.values())
        return expect(
            alive and stage.evictions() == 0,
            f"back in {back_s:.1f} s; new job has a Workload {late_s:.1f} s later, our watch saw "
            f"it {watch_s:.1f} s after that; release {release_s:.2f} s; running job done "
            f"{done_s:.1f} s later; all other components lived on: {alive}; "
            f"evictions {stage.evictions()}",
        )


@contextmanager
def _feature_off(stack: ControlPlane, gate: str) -> Iterator[None]:
    """Run Kueue with one of its feature gates off for a while."""
    before = dict(stack.gates)
    try:
        stack.gates[gate] = False
        stack.kill("kueue")
        stack.start("kueue")
        yield
    finally:
        stack.gates = before
        stack.kill("kueue")
        stack.start("kueue")


def _watched_names(stack: ControlPlane, stage: Scenario) -> set[str]:
    """The names of the scenario's Workloads, as a watch in the background comes to know them."""
    names: set[str] = set()
    client = Client(stack.kubeconfig())

    def listen() -> None:
        for _, workload in client.watch(WORKLOAD, stage.name):
            names.add(workload["metadata"]["name"])

    threading.Thread(target=listen, daemon=True).start()
    return names


def _job_set(name: str, namespace: str) -> dict[str, object]:
    pod = {"metadata": {"annotations": {RUNNING_S: "2"}}, "spec": pod_spec(1)}
    job = {"spec": {"parallelism": 2, "completions": 2, "backoffLimit": 0, "template": pod}}
    return {
        "apiVersion": JOB_SET.api_version,
        "kind": "JobSet",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {QUEUE_LABEL: "main"},
            "annotations": {GATES: OUR_GATE},
        },
        "spec": {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": job}]},
    }


def metrics_token(client: Client) -> str:
    """A token of a service account that may read Kueue's metrics."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    metadata = {"name": "metrics-reader", "namespace": "kueue-system"}
    client.apply({**account, "metadata": metadata})
    client.apply(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "metrics-reader"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "kueue-metrics-reader",
            },
            "subjects": [{"kind": "ServiceAccount", **metadata}],
        }
    )
    path = "/api/v1/namespaces/kueue-system/serviceaccounts/metrics-reader/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str(client.raw("POST", path, request)["status"]["token"])


def _gpu_metrics(text: str, queue: str) -> dict[str, float]:
    """The quota gauges of a ClusterQueue in Prometheus text."""
    pattern = rf'^kueue_cluster_queue_(\w+)\{{[^}}]*cluster_queue="{queue}"[^}}]*gpu"[^}}]*\}} (\S+)'
    return {name: float(value) for name, value in re.findall(pattern, text, re.MULTILINE)}


def _reserved(values: dict[str, float]) -> dict[str, float] | None:
    return values if values.get("resource_reservation") == 2 else None


def _seconds_to_status(client: Client, wish: str, status: str) -> float:
    """Let the node fail in one way; returns when that is seen, and after its recovery."""

    def annotate(value: str | None) -> None:
        change = {"metadata": {"annotations": {f"fake-kubelet/{wish}": value}}}
        client.merge(NODE, "node-0", change)

    annotate("true")
    seconds = seconds_until(wish, lambda: _ready_status(client) == status, timeout_s=90)
    annotate(None)
    wait_for("recovery", lambda: _ready_status(client) == "True", timeout_s=60)
    return seconds


def _ready_status(client: Client) -> str:
    return str(condition(client.get(NODE, "node-0"), "Ready").get("status"))


EXPERIMENTS = (
    failing_pods,
    lost_nodes,
    gated_job_set,
    metrics_tell_quota,
    gate_without_the_feature,
    kueue_crash,
    apiserver_crash,
)
