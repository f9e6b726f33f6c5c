"""Jobs from manifests that nobody has submitted yet: a Job, a JobSet or a CronJob as kubectl would apply it.

Nothing is sent anywhere. Every mistake is found before anything is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # A manifest is YAML of no fixed shape.

import yaml

from gpuyield.collect.kueue.shapes import Object, items, listed, mapping, pod_set, text, texts
from gpuyield.collect.kueue.work import GATES, MAX_RUN_LABEL, QUEUE_LABEL, recurring
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.kueue import PodSet, Recurring, Work, WorkState
from gpuyield.units import SECOND_MS

_WORK = {"Job": "batch", "JobSet": "jobset.x-k8s.io", "CronJob": "batch"}
_OTHER_WORK = ("RayJob", "RayCluster", "TrainJob", "PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "Pod", "Deployment")
_SUBMIT = (
    f"Submit it with the annotation {GATES}: gpuyield.dev/plan; then it waits without GPUs, and gpuyield explain tells."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """The jobs of a file; `passed_over` are objects in it that are no jobs."""

    work: tuple[Work, ...]
    recurring: tuple[Recurring, ...]
    passed_over: tuple[str, ...] = ()

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that the jobs are for."""
        return frozenset((*(one.namespace for one in self.work), *(one.namespace for one in self.recurring)))


def holds_manifests(data: bytes) -> bool:
    """Whether a file is of Kubernetes objects, and not a list of jobs of ours."""
    try:
        return any(_is_object(one) for one in yaml.safe_load_all(data))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError):
        return False


def read_manifests(data: bytes, *, file: str, namespace: str, at_ms: int, mistakes: list[Mistake]) -> Manifests:
    """The jobs of a file, as if they were submitted at `at_ms`; those that name no namespace are for this one.

    What is wrong is added to `mistakes`; jobs with mistakes are among those found, to look for more in them.
    """
    found: list[Work] = []
    again: list[Recurring] = []
    others: list[str] = []
    for one in _objects(data):
        kind, name = text(one, "kind"), text(mapping(one, "metadata"), "name")
        where = f"{file}: {kind or 'object'} {name or '?'}"
        if kind in _OTHER_WORK:
            mistakes.append(
                Mistake(what=f"the pods of a {kind} are not told by its manifest.", where=where, fix=_SUBMIT)
            )
        elif text(one, "apiVersion").partition("/")[0] != _WORK.get(kind):
            others.append(f"{kind} {name}")
        elif kind == "CronJob":
            again += _recurring(one, where, namespace, mistakes)
        else:
            found += _work(one, where, namespace, at_ms, mistakes)
    if not found and not again and not mistakes:
        kinds = ", ".join(others) or "nothing"
        fix = f"Name a file with a {', '.join(list(_WORK)[:-1])} or {list(_WORK)[-1]}."
        mistakes.append(Mistake(what=f"it holds no job ({kinds}).", where=file, fix=fix))
    return Manifests(work=tuple(found), recurring=tuple(again), passed_over=tuple(others))


def _is_object(one: object) -> bool:
    return isinstance(one, dict) and {"apiVersion", "kind"} <= set(one)


def _objects(data: bytes) -> list[Object]:
    """All objects of a file, those of lists too."""
    found: list[Object] = []
    for one in yaml.safe_load_all(data):
        if isinstance(one, dict):
            found += items(one, "items") if text(one, "kind") == "List" else [one]
    return found


def _work(of: Object, where: str, namespace: str, at_ms: int, mistakes: list[Mistake]) -> list[Work]:
    meta = mapping(of, "metadata")
    labels = texts(meta, "labels")
    pod_sets, templates = _pod_sets(of, where, mistakes)
    name = text(meta, "name") or (f"{text(meta, 'generateName')}new" if text(meta, "generateName") else "")
    _say_missing(name, labels, _gpus(pod_sets), where, mistakes)
    max_run_ms = _max_run_ms(labels, where, mistakes)
    if not name:
        return []
    pods = [mapping(one, "metadata") for one in templates]
    annotations = {**_merged(pods, "annotations"), **texts(meta, "annotations")}
    place = text(meta, "namespace") or namespace
    return [
        Work(
            namespace=place,
            name=name,
            workload=name,
            kind=text(of, "kind"),
            uid=f"not submitted {place}/{name}",
            created_ms=at_ms,
            queue=labels.get(QUEUE_LABEL, ""),
            cluster_queue=None,
            pod_sets=pod_sets or (),
            state=WorkState.WAITING,
            max_run_ms=max_run_ms,
            gates=listed(annotations.get(GATES, "")),
            annotations=annotations,
            labels={**_merged(pods, "labels"), **labels},
        )
    ]


def _recurring(of: Object, where: str, namespace: str, mistakes: list[Mistake]) -> list[Recurring]:
    meta, before = mapping(of, "metadata"), len(mistakes)
    template = mapping(of, "spec", "jobTemplate")
    pod_sets, _ = _pod_sets({**template, "kind": "Job"}, where, mistakes)
    labels = texts(mapping(template, "metadata"), "labels")
    _say_missing(text(meta, "name"), labels, _gpus(pod_sets), f"{where}: spec.jobTemplate", mistakes)
    _max_run_ms(labels, where, mistakes)
    if not text(mapping(of, "spec"), "schedule"):
        mistakes.append(Mistake(what="it has no schedule.", where=where, fix='Write spec.schedule: "0 22 * * *".'))
    place = text(meta, "namespace") or namespace
    if len(mistakes) == before:
        found = recurring({**of, "metadata": {**meta, "namespace": place}})
        return [] if found is None else [found]
    # What else is wrong with it is looked for all the same.
    return [
        Recurring(
            namespace=place,
            name=text(meta, "name"),
            schedule=text(mapping(of, "spec"), "schedule"),
            zone=None,
            suspended=False,
            queue=labels.get(QUEUE_LABEL, ""),
            pod_sets=pod_sets or (),
            annotations=texts(mapping(template, "metadata"), "annotations"),
            labels=labels,
        )
    ]


def _gpus(pod_sets: Sequence[PodSet] | None) -> int | None:
    return None if pod_sets is None else sum(one.count * one.gpus for one in pod_sets)


def _pod_sets(of: Object, where: str, mistakes: list[Mistake]) -> tuple[tuple[PodSet, ...] | None, list[Object]]:
    """The pods of a Job or JobSet (None: they cannot be read), and their templates."""
    before = len(mistakes)
    spec = mapping(of, "spec")
    if text(of, "kind") == "JobSet":
        parts = [
            (text(one, "name") or f"job {at}", one.get("replicas", 1), mapping(one, "template", "spec"))
            for at, one in enumerate(items(spec, "replicatedJobs"))
        ]
    else:
        parts = [("main", 1, spec)]
    found: list[PodSet] = []
    templates: list[Object] = []
    for name, replicas, job in parts:
        template = mapping(job, "template")
        try:
            found.append(pod_set(name, _whole(replicas, "replicas") * _pods(job), template))
        except DeclarationError as err:
            mistakes.append(
                Mistake(what=err.mistakes[0].what, where=f"{where}: pods of {name}", fix=err.mistakes[0].fix)
            )
        templates.append(template)
    return (tuple(found) if len(mistakes) == before else None), templates


def _pods(job: Object) -> int:
    """How many pods of a Job run at once."""
    at_once = _whole(job.get("parallelism", 1), "parallelism")
    return min(at_once, _whole(job["completions"], "completions")) if job.get("completions") is not None else at_once


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DeclarationError(f'{name}: "{str(value)[:40]}" is no whole number.', fix=f"Write {name}: 1.")
    return value


def _say_missing(name: str, labels: Mapping[str, str], gpus: int | None, where: str, mistakes: list[Mistake]) -> None:
    """`gpus` None: its pods could not be read."""
    if not name:
        mistakes.append(Mistake(what="it has no name.", where=where, fix="Write metadata.name."))
    if not labels.get(QUEUE_LABEL):
        fix = f"Write the label {QUEUE_LABEL}: LOCALQUEUE."
        mistakes.append(Mistake(what="it names no queue.", where=where, fix=fix))
    if gpus == 0:
        fix = 'Write resources: {limits: {nvidia.com/gpu: "1"}} in a container.'
        mistakes.append(Mistake(what="it asks for no GPU.", where=where, fix=fix))


def _max_run_ms(labels: Mapping[str, str], where: str, mistakes: list[Mistake]) -> int | None:
    given = labels.get(MAX_RUN_LABEL)
    if given is None:
        return None
    if not given.isascii() or not given.isdigit():
        mistakes.append(
            Mistake(what=f'"{given[:40]}" is no number of seconds.', where=where, fix=f'{MAX_RUN_LABEL}: "3600".')
        )
        return None
    return int(given) * SECOND_MS


def _merged(metas: Sequence[Mapping[str, Any]], key: str) -> dict[str, str]:
    """Labels or annotations of all pod templates; the first one that has a key counts."""
    found: dict[str, str] = {}
    for one in reversed(metas):
        found.update(texts(one, key))
    return found
