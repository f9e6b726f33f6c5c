"""Reads one job with rights on its namespace alone: itself, its Workload, its queue, and what was said about it.

What may not be read is named; nothing outside of the namespace is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuyield.collect.kueue.shapes import (
    Object,
    condition,
    controller_of,
    instant,
    items,
    mapping,
    plural_of,
    text,
    texts,
)
from gpuyield.collect.kueue.work import QUEUE_LABEL, work
from gpuyield.collect.probe import KUEUE, ApiServer, Forbidden
from gpuyield.model.kueue import Work
from gpuyield.model.one_job import OneJob, QueueSeen, Said

_JOBS = ("job", "jobs", "jobs.batch", "job.batch")


def read_one_job(server: ApiServer, version: str, *, namespace: str, kind: str, name: str, at_ms: int) -> OneJob:
    """The job `KIND/NAME` of a namespace; `version` is that of Kueue's API.

    Raises:
        SourceError: Out of reach.
    """
    reader = _Reader(server, namespace)
    root = f"/apis/{KUEUE}/{version}/namespaces/{namespace}"
    workloads = reader.all(f"{root}/workloads", f"workloads.{KUEUE}")
    own = _workload_of(workloads, kind, name)
    job = reader.one(_path(own, kind, namespace, name), _resource(own, kind))
    # Kueue leaves the queue of a Workload as it was while quota is held; the job's label is what was asked for.
    label = texts(mapping(job or {}, "metadata"), "labels").get(QUEUE_LABEL, "")
    asked = label or text(mapping(own or {}, "spec"), "queueName")
    queue = reader.one(f"{root}/localqueues/{asked}", f"localqueues.{KUEUE}") if asked else None
    seen = None if queue is None else _queue(queue)
    return OneJob(
        namespace=namespace,
        kind=kind,
        name=name,
        at_ms=at_ms,
        is_there=job is not None or (own is not None) or (None if _resource(own, kind) in reader.lacking else False),
        in_queue=asked,
        work=None if own is None else _work(own, job, seen),
        queue=seen,
        said=_said(reader.events([name, *([] if own is None else [text(mapping(own, "metadata"), "name")])])),
        lacking=tuple(reader.lacking),
    )


class _Reader:
    """Remembers what may not be read."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server, self._namespace = server, namespace
        self.lacking: list[str] = []

    def all(self, path: str, what: str, query: Mapping[str, str] | None = None) -> list[Object]:
        try:
            return self._server.objects(path, what, query=query)
        except Forbidden as err:
            self._note(what, err)
            return []

    def one(self, path: str, what: str) -> Object | None:
        try:
            return self._server.object(path, what)
        except Forbidden as err:
            self._note(what, err)
            return None

    def events(self, names: list[str]) -> list[Object]:
        path = f"/api/v1/namespaces/{self._namespace}/events"
        found: list[Object] = []
        for name in dict.fromkeys(names):
            if "events" not in self.lacking:
                found += self.all(path, "events", {"fieldSelector": f"involvedObject.name={name}"})
        return found

    def _note(self, what: str, err: Forbidden) -> None:
        if "(401)" in err.mistakes[0].what:
            raise err
        if what not in self.lacking:
            self.lacking.append(what)


def _workload_of(workloads: list[Object], kind: str, name: str) -> Object | None:
    """The Workload of a job, the youngest if it was made again; of `workload/NAME` that one."""
    found = [one for one in workloads if _is_of(one, kind, name)]
    return max(found, key=lambda one: text(mapping(one, "metadata"), "creationTimestamp"), default=None)


def _is_of(one: Object, kind: str, name: str) -> bool:
    meta = mapping(one, "metadata")
    if kind in ("workload", "workloads"):
        return text(meta, "name") == name
    return any(
        text(owner, "name") == name and text(owner, "kind").lower() in (_singular(kind), kind)
        for owner in items(meta, "ownerReferences")
    )


def _singular(kind: str) -> str:
    return kind.partition(".")[0].removesuffix("s")


def _resource(own: Object | None, kind: str) -> str:
    owner = controller_of(own or {})
    if kind in _JOBS or not owner:
        return "jobs.batch" if kind in _JOBS else f"workloads.{KUEUE}"
    return f"{plural_of(text(owner, 'kind'))}.{text(owner, 'apiVersion').partition('/')[0]}"


def _path(own: Object | None, kind: str, namespace: str, name: str) -> str:
    """Where the object behind a Workload is."""
    owner = controller_of(own or {})
    if kind in _JOBS or not owner:
        return f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"
    plural = plural_of(text(owner, "kind"))
    return f"/apis/{text(owner, 'apiVersion')}/namespaces/{namespace}/{plural}/{text(owner, 'name')}"


def _work(own: Object, job: Object | None, queue: QueueSeen | None) -> Work | None:
    owners = {} if job is None else {text(mapping(job, "metadata"), "uid"): job}
    meta, spec = mapping(own, "metadata"), mapping(own, "spec")
    queues = {} if queue is None else {(text(meta, "namespace"), text(spec, "queueName")): queue.cluster_queue}
    return work(own, owners=owners, cluster_queues=queues)


def _queue(of: Object) -> QueueSeen:
    status, active = mapping(of, "status"), condition(of, "Active")
    stopped = text(mapping(of, "spec"), "stopPolicy")
    return QueueSeen(
        name=text(mapping(of, "metadata"), "name"),
        cluster_queue=text(mapping(of, "spec"), "clusterQueue"),
        pending=_count(status, "pendingWorkloads"),
        reserving=_count(status, "reservingWorkloads"),
        admitted=_count(status, "admittedWorkloads"),
        stopped="" if stopped == "None" else stopped,
        inactive=text(active, "message") if active.get("status") == "False" else "",
    )


def _count(status: Object, key: str) -> int | None:
    return int(status[key]) if key in status else None


def _said(events: list[Object]) -> tuple[Said, ...]:
    """What was said, in order; the same on a job and on its Workload counts once."""
    found: dict[tuple[str, str], Said] = {}
    for one in events:
        times = (one.get(key) for key in ("lastTimestamp", "eventTime", "firstTimestamp"))
        at_ms = next((known for each in times if (known := instant(each)) is not None), None)
        if at_ms is None:
            continue
        by = text(mapping(one, "source"), "component") or text(one, "reportingComponent")
        said = Said(
            at_ms=at_ms,
            reason=text(one, "reason"),
            message=text(one, "message"),
            by=by,
            is_warning=text(one, "type") == "Warning",
        )
        key = (said.reason, said.message)
        if key not in found or found[key].at_ms < at_ms:
            found[key] = said
    return tuple(sorted(found.values(), key=lambda one: (one.at_ms, one.reason)))
