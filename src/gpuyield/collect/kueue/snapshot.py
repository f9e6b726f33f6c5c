"""From the objects of a cluster to one snapshot. No I/O here; an object that cannot be read becomes a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from gpuyield.collect.kueue import queues
from gpuyield.collect.kueue.reading import Objects
from gpuyield.collect.kueue.shapes import (
    Object,
    asks_for,
    condition,
    is_true,
    items,
    mapping,
    pod_gpus,
    quantity,
    taints,
    text,
    texts,
)
from gpuyield.collect.kueue.work import recurring, work
from gpuyield.errors import DeclarationError
from gpuyield.model.evidence import Gap
from gpuyield.model.kueue import ClusterSnapshot, GpuPod, Node, Work, is_gpu_part, is_gpu_resource

_Made = TypeVar("_Made")
_POD_LABELS = ("kueue.x-k8s.io/podset", "kueue.x-k8s.io/managed")


def snapshot(objects: Objects, *, at_ms: int) -> ClusterSnapshot:
    """What these objects say, as of one instant."""
    gaps = list(objects.gaps)
    lists = objects.lists

    def made(plural: str, read: Callable[[Object], _Made | None]) -> tuple[_Made, ...]:
        return tuple(_each(lists.get(plural, ()), plural, read, gaps))

    local = made("localqueues", queues.local_queue)
    owners = {text(mapping(one, "metadata"), "uid"): one for one in (*lists.get("jobs", ()), *objects.owners)}
    cluster_queues = {(one.namespace, one.name): one.cluster_queue for one in local}

    def read_work(of: Object) -> Work | None:
        found = work(of, owners=owners, cluster_queues=cluster_queues)
        if found is None:
            gaps.extend(_parts(of))
        return found

    works = made("workloads", read_work)
    managed = {one.uid for one in works}
    return ClusterSnapshot(
        at_ms=at_ms,
        api_version=objects.api_version,
        flavors=made("resourceflavors", queues.flavor),
        queues=made("clusterqueues", queues.cluster_queue),
        cohorts=made("cohorts", queues.cohort),
        local_queues=local,
        work=works,
        recurring=made("cronjobs", recurring),
        nodes=made("nodes", _node) if "nodes" in lists else None,
        pods=made("pods", lambda of: _pod(of, managed)) if "pods" in lists else None,
        checks=made("admissionchecks", queues.check),
        gaps=tuple(gaps),
    )


def _each(
    found: Iterable[Object], plural: str, read: Callable[[Object], _Made | None], gaps: list[Gap]
) -> Iterable[_Made]:
    for one in found:
        try:
            made = read(one)
        except (DeclarationError, ValueError, TypeError, AttributeError) as err:
            # The shape of an object belongs to the API: what is odd about one hides none of the others.
            why = str(err.mistakes[0]) if isinstance(err, DeclarationError) else f"another shape ({str(err)[:80]})."
            meta = mapping(one, "metadata")
            name = "/".join(part for part in (text(meta, "namespace"), text(meta, "name")) if part)
            gaps.append(Gap(reason=f"It could not be read: {why}", where=f"{plural} {name}"))
            continue
        if made is not None:
            yield made


def _parts(of: Object) -> Iterable[Gap]:
    """A gap for a Workload that asks for slices or shares of GPUs and is not finished."""
    names = {
        name
        for one in items(mapping(of, "spec"), "podSets")
        for name in asks_for(mapping(one, "template", "spec"))
        if is_gpu_part(name)
    }
    if names and not is_true(of, "Finished"):
        meta = mapping(of, "metadata")
        reason = f"It asks for {', '.join(sorted(names))}: parts of GPUs are not planned."
        yield Gap(reason=reason, where=f"{text(meta, 'namespace')}/{text(meta, 'name')}")


def _node(of: Object) -> Node | None:
    meta, spec = mapping(of, "metadata"), mapping(of, "spec")
    amounts = mapping(of, "status", "allocatable")
    gpus = sum(quantity(amount) for name, amount in amounts.items() if is_gpu_resource(name))
    if not gpus:
        return None
    ready = condition(of, "Ready")
    why = "cordoned" if spec.get("unschedulable") is True else ""
    if ready.get("status") != "True":
        why = f"not ready ({text(ready, 'reason') or 'it says nothing'})"
    return Node(
        name=text(meta, "name"),
        gpus=gpus,
        labels=texts(meta, "labels"),
        taints=taints(items(spec, "taints")),
        unusable=why,
    )


def _pod(of: Object, managed: set[str]) -> GpuPod | None:
    meta, spec = mapping(of, "metadata"), mapping(of, "spec")
    node, gpus = text(spec, "nodeName"), pod_gpus(spec)
    if not node or not gpus or mapping(of, "status").get("phase") in ("Succeeded", "Failed"):
        return None
    labels = texts(meta, "labels")
    owned = any(text(one, "uid") in managed for one in items(meta, "ownerReferences"))
    return GpuPod(
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        node=node,
        gpus=gpus,
        through_kueue=owned or any(name in labels for name in _POD_LABELS),
    )
