"""Workloads and CronJobs from the API server's objects, with what the jobs behind them declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuyield.collect.kueue.shapes import (
    Object,
    controller_of,
    instant,
    items,
    listed,
    mapping,
    pod_set,
    quantity,
    text,
    texts,
)
from gpuyield.errors import DeclarationError
from gpuyield.model.kueue import (
    CheckEntry,
    CheckState,
    JobRef,
    PodSet,
    Recurring,
    Work,
    WorkState,
    is_gpu_resource,
)
from gpuyield.model.marks import PREFIX

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATES = "kueue.x-k8s.io/admission-gated-by"
MAX_RUN_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"


def work(of: Object, *, owners: Mapping[str, Object], cluster_queues: Mapping[tuple[str, str], str]) -> Work | None:
    """A Workload; None where it asks for no whole GPU.

    `owners` are the objects behind Workloads by uid, `cluster_queues` the ClusterQueues by namespace and LocalQueue.

    Raises:
        DeclarationError: A time or an amount in it cannot be read.
    """
    meta, spec, status = mapping(of, "metadata"), mapping(of, "spec"), mapping(of, "status")
    pod_sets = tuple(
        pod_set(text(one, "name"), int(one.get("count", 1)), mapping(one, "template")) for one in items(spec, "podSets")
    )
    if not any(one.gpus * one.count for one in pod_sets):
        return None
    namespace = text(meta, "namespace")
    reference = controller_of(of)
    owner = owners.get(text(reference, "uid"), {})
    owner_meta = mapping(owner, "metadata")
    conditions = {text(one, "type"): one for one in reversed(items(status, "conditions"))}
    waits, finished = conditions.get("QuotaReserved", {}), conditions.get("Finished", {})
    admission = mapping(status, "admission")
    queue = text(spec, "queueName")
    annotations = {**_templates(spec, "annotations"), **texts(owner_meta, "annotations")}
    state = _state(conditions, admission)
    return Work(
        namespace=namespace,
        name=text(reference, "name") or text(meta, "name"),
        workload=text(meta, "name"),
        kind=text(reference, "kind") or "Workload",
        uid=text(reference, "uid") or text(meta, "uid"),
        workload_uid=text(meta, "uid"),
        created_ms=_created_ms(owner_meta, meta),
        queue=queue,
        cluster_queue=text(admission, "clusterQueue") or cluster_queues.get((namespace, queue)),
        pod_sets=pod_sets,
        state=state,
        active=spec.get("active") is not False,
        held=_held(admission, status, pod_sets) if state in (WorkState.RESERVED, WorkState.ADMITTED) else {},
        ran_on=tuple(
            sorted({given for one in items(admission, "podSetAssignments") for given in _gpu_flavors(one).values()})
        ),
        reserved_ms=_since(conditions, "QuotaReserved"),
        admitted_ms=_since(conditions, "Admitted"),
        finished_ms=instant(finished.get("lastTransitionTime")) if state is WorkState.FINISHED else None,
        # v1beta1 spells it wrong.
        past_run_ms=1000
        * int(
            status.get("accumulatedPastExecutionTimeSeconds") or status.get("accumulatedPastExexcutionTimeSeconds") or 0
        ),
        max_run_ms=_seconds(spec.get("maximumExecutionTimeSeconds")),
        succeeded={"Succeeded": True, "Failed": False}.get(text(finished, "reason")),
        evictions=sum(int(one.get("count", 0)) for one in items(mapping(status, "schedulingStats"), "evictions")),
        gates=listed(annotations.get(GATES, "")),
        reason=text(waits, "reason"),
        said=text(waits, "message"),
        owner=_controller(owner_meta),
        annotations=annotations,
        labels={**_templates(spec, "labels"), **texts(owner_meta, "labels")},
        checks=_checks(status),
        evicted=_is_true(conditions, "Evicted"),
        version=text(meta, "resourceVersion"),
        marks={key: value for key, value in texts(meta, "annotations").items() if key.startswith(PREFIX)},
        job=_job(reference, owner, of),
    )


def recurring(of: Object) -> Recurring | None:
    """A CronJob whose jobs go to a queue and ask for GPUs; None for any other.

    Raises:
        DeclarationError: An amount in it cannot be read.
    """
    meta, spec = mapping(of, "metadata"), mapping(of, "spec")
    template = mapping(spec, "jobTemplate")
    job, job_meta = mapping(template, "spec"), mapping(template, "metadata")
    pods = mapping(job, "template")
    pods_meta = mapping(pods, "metadata")
    labels = {**texts(pods_meta, "labels"), **texts(job_meta, "labels")}
    queue = texts(job_meta, "labels").get(QUEUE_LABEL, "")
    count = int(job.get("parallelism", 1) or 0)
    found = pod_set("main", min(count, int(job["completions"])) if job.get("completions") else count, pods)
    if not queue or not found.gpus * found.count:
        return None
    return Recurring(
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        schedule=text(spec, "schedule"),
        zone=text(spec, "timeZone") or None,
        suspended=spec.get("suspend") is True,
        queue=queue,
        pod_sets=(found,),
        annotations={**texts(pods_meta, "annotations"), **texts(job_meta, "annotations")},
        labels=labels,
        max_run_ms=_seconds(labels.get(MAX_RUN_LABEL)),
    )


def _checks(status: Object) -> tuple[CheckEntry, ...]:
    known = set(CheckState)
    return tuple(
        CheckEntry(name=text(one, "name"), state=CheckState(text(one, "state")), message=text(one, "message"))
        for one in items(status, "admissionChecks")
        if text(one, "state") in known
    )


def _job(reference: Object, owner: Object, of: Object) -> JobRef:
    """What owns a Workload, else the Workload itself."""
    if not reference:
        meta = mapping(of, "metadata")
        api_version, kind, name, uid = text(of, "apiVersion"), "Workload", text(meta, "name"), text(meta, "uid")
        return JobRef(api_version=api_version, kind=kind, name=name, uid=uid, version=text(meta, "resourceVersion"))
    return JobRef(
        api_version=text(reference, "apiVersion"),
        kind=text(reference, "kind"),
        name=text(reference, "name"),
        uid=text(reference, "uid"),
        version=text(mapping(owner, "metadata"), "resourceVersion"),
    )


def _state(conditions: Mapping[str, Object], admission: Object) -> WorkState:
    if _is_true(conditions, "Finished"):
        return WorkState.FINISHED
    if _is_true(conditions, "Admitted"):
        return WorkState.ADMITTED
    return WorkState.RESERVED if admission and _is_true(conditions, "QuotaReserved") else WorkState.WAITING


def _is_true(conditions: Mapping[str, Object], kind: str) -> bool:
    return conditions.get(kind, {}).get("status") == "True"


def _created_ms(*metas: Object) -> int:
    """When the first of these objects that tells it was made."""
    told = next((found for one in metas if (found := instant(one.get("creationTimestamp"))) is not None), None)
    if told is None:
        raise DeclarationError("it has no creationTimestamp.")
    return told


def _since(conditions: Mapping[str, Object], kind: str) -> int | None:
    """Since when a condition is True; None where it is not."""
    return instant(conditions[kind].get("lastTransitionTime")) if _is_true(conditions, kind) else None


def _held(admission: Object, status: Object, pod_sets: Sequence[PodSet]) -> dict[str, int]:
    """GPUs by flavor that count in the quota, without those of pods that have ended."""
    ended = {text(one, "name"): int(one.get("count", 0)) for one in items(status, "reclaimablePods")}
    each = {one.name: one.gpus for one in pod_sets}
    held: dict[str, int] = {}
    for one in items(admission, "podSetAssignments"):
        name = text(one, "name")
        usage = mapping(one, "resourceUsage")
        for resource, given in _gpu_flavors(one).items():
            gpus = quantity(usage[resource]) if resource in usage else int(one.get("count", 0)) * each.get(name, 0)
            held[given] = held.get(given, 0) + max(0, gpus - ended.get(name, 0) * each.get(name, 0))
    return {name: gpus for name, gpus in held.items() if gpus}


def _gpu_flavors(assignment: Object) -> dict[str, str]:
    """The flavors of an assignment's GPU resources."""
    return {name: given for name, given in texts(assignment, "flavors").items() if is_gpu_resource(name)}


def _templates(spec: Object, key: str) -> dict[str, str]:
    """Labels or annotations of all pod templates; the first one that has a key counts."""
    found: dict[str, str] = {}
    for one in reversed(items(spec, "podSets")):
        found.update(texts(mapping(one, "template", "metadata"), key))
    return found


def _controller(owner_meta: Object) -> str:
    """What made the job, such as its CronJob; "" where nothing did."""
    references = items(owner_meta, "ownerReferences")
    return next((text(one, "name") for one in references if one.get("controller")), "")


def _seconds(value: object) -> int | None:
    return quantity(value) * 1000 if value is not None else None
