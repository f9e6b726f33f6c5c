"""From the objects of a cluster to one snapshot. No I/O here; an object that cannot be read becomes a gap."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar  # What is made of an object depends on its kind.

from gpuyield.collect.kueue import queues
from gpuyield.collect.kueue.reading import Objects
from gpuyield.collect.kueue.shapes import (
    Object,
    asks_for,
    condition,
    controller_of,
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
from gpuyield.model.kueue import ClusterSnapshot, GpuPod, Node, is_gpu_part, is_gpu_resource

_Made = TypeVar("_Made")
_POD_LABELS = ("kueue.x-k8s.io/podset", "kueue.x-k8s.io/managed")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What an object is (None: nothing that counts), and what of it is not known."""

    made: Any = None
    gaps: tuple[Gap, ...] = ()


@dataclass(slots=True)
class Memo:
    """What was made of each object for the last snapshot of a cluster, by its version and what else it was made of."""

    _last: dict[tuple[str, str], tuple[Hashable, _Outcome]] = field(default_factory=dict)
    _next: dict[tuple[str, str], tuple[Hashable, _Outcome]] = field(default_factory=dict)

    def outcome(self, plural: str, of: Object, beside: Hashable, make: Callable[[], _Outcome]) -> _Outcome:
        """What was made of the object as it is, else what is made of it now; without a version it is made anew."""
        meta = mapping(of, "metadata")
        key, version = (plural, text(meta, "uid")), (text(meta, "resourceVersion"), beside)
        known = self._last.get(key)
        if known is None or known[0] != version or not version[0]:
            known = version, make()
        self._next[key] = known
        return known[1]

    def turn(self) -> None:
        """A snapshot is made; what it did not ask for is forgotten."""
        self._last, self._next = self._next, {}


def snapshot(objects: Objects, *, at_ms: int, memo: Memo | None = None) -> ClusterSnapshot:
    """What these objects say, as of one instant; what the memo's last snapshot was made of is not read again."""
    memo = Memo() if memo is None else memo
    gaps = list(objects.gaps)
    lists = objects.lists

    def made(
        plural: str,
        read: Callable[[Object], _Made | None],
        *,
        beside: Callable[[Object], Hashable] = lambda of: None,
        left_out: Callable[[Object], Iterable[Gap]] = lambda of: (),
    ) -> tuple[_Made, ...]:
        found = [
            memo.outcome(plural, one, beside(one), partial(_outcome, one, plural, read, left_out))
            for one in lists.get(plural, ())
        ]
        gaps.extend(gap for one in found for gap in one.gaps)
        return tuple(one.made for one in found if one.made is not None)

    local = made("localqueues", queues.local_queue)
    owners = {text(mapping(one, "metadata"), "uid"): one for one in (*lists.get("jobs", ()), *objects.owners)}
    cluster_queues = {(one.namespace, one.name): one.cluster_queue for one in local}

    def beside_work(of: Object) -> Hashable:
        queue = text(mapping(of, "metadata"), "namespace"), text(mapping(of, "spec"), "queueName")
        owner = owners.get(text(controller_of(of), "uid"), {})
        return text(mapping(owner, "metadata"), "resourceVersion"), cluster_queues.get(queue)

    works = made(
        "workloads", partial(work, owners=owners, cluster_queues=cluster_queues), beside=beside_work, left_out=_parts
    )
    managed = {one.uid for one in works}

    def beside_pod(of: Object) -> Hashable:
        return any(text(one, "uid") in managed for one in items(mapping(of, "metadata"), "ownerReferences"))

    found = ClusterSnapshot(
        at_ms=at_ms,
        api_version=objects.api_version,
        flavors=made("resourceflavors", queues.flavor),
        queues=made("clusterqueues", queues.cluster_queue),
        cohorts=made("cohorts", queues.cohort),
        local_queues=local,
        work=works,
        recurring=made("cronjobs", recurring),
        nodes=made("nodes", _node) if "nodes" in lists else None,
        pods=made("pods", lambda of: _pod(of, managed), beside=beside_pod) if "pods" in lists else None,
        checks=made("admissionchecks", queues.check),
        gaps=tuple(gaps),
    )
    memo.turn()
    return found


def _outcome(
    of: Object,
    plural: str,
    read: Callable[[Object], object | None],
    left_out: Callable[[Object], Iterable[Gap]],
) -> _Outcome:
    """What is made of an object; `left_out` says what of one that counts for nothing is not known."""
    try:
        made = read(of)
    except (DeclarationError, ValueError, TypeError, AttributeError) as err:
        # The shape of an object belongs to the API: what is odd about one hides none of the others.
        why = str(err.mistakes[0]) if isinstance(err, DeclarationError) else f"another shape ({str(err)[:80]})."
        meta = mapping(of, "metadata")
        name = "/".join(part for part in (text(meta, "namespace"), text(meta, "name")) if part)
        return _Outcome(gaps=(Gap(reason=f"It could not be read: {why}", where=f"{plural} {name}"),))
    return _Outcome(gaps=tuple(left_out(of))) if made is None else _Outcome(made=made)


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
