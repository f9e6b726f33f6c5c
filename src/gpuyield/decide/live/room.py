"""The GPUs of each flavor on its nodes, and what others than Kueue's work hold of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuyield.decide.live.quotas import resource_of
from gpuyield.model.declaration import InventoryItem
from gpuyield.model.evidence import Gap
from gpuyield.model.job import NodeGroup
from gpuyield.model.kueue import ClusterSnapshot, Flavor, GpuQuota, Node, Toleration, is_gpu_resource, keeps_away


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A node for new work: the GPUs that Kueue's work may have there, and how many of them nobody holds now."""

    node: str
    gpus: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """GPUs for Kueue's work by flavor; `places` are the usable nodes of each flavor (absent: not known).

    `shared` names, by flavor, a further resource that flavors on the same nodes share; `gpus` holds its amount too.
    """

    gpus: Mapping[str, int]
    places: Mapping[str, tuple[Place, ...]]
    shared: Mapping[str, str]
    groups: tuple[NodeGroup, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def resources(self, flavor: str) -> tuple[str, ...]:
        """What a GPU of this flavor takes one of."""
        shared = self.shared.get(flavor)
        return (resource_of(flavor),) if shared is None else (resource_of(flavor), shared)

    def widest(self, flavor: str) -> int | None:
        """The most GPUs that one node has for a pod; None: not known."""
        places = self.places.get(flavor)
        return None if places is None else max((one.gpus for one in places), default=0)


def room_of(seen: ClusterSnapshot, inventory: Iterable[InventoryItem] = ()) -> Room:
    """Where Kueue's work can run; without nodes the quotas are all that is known."""
    names = sorted({one.flavor for one in _all_quotas(seen)})
    flavors = {one.name: one for one in seen.flavors}
    declared = {one.flavor: one.gpus for one in inventory}
    gaps: list[Gap] = []
    nodes: dict[str, list[Node]] = {}
    tolerated = _tolerated(seen)
    for name in names:
        flavor = flavors.get(name)
        if flavor is None:
            gaps.append(Gap(reason="A queue names it, and there is no such ResourceFlavor.", where=f"flavor {name}"))
        if seen.nodes is not None and flavor is not None:
            nodes[name] = [one for one in seen.nodes if _is_of(one, flavor, tolerated)]
    outside, held = Counter[str](), Counter[str]()
    for pod in seen.pods or ():
        held[pod.node] += pod.gpus
        if not pod.through_kueue:
            outside[pod.node] += pod.gpus
    gpus: dict[str, int] = {}
    places: dict[str, tuple[Place, ...]] = {}
    for name in names:
        found = nodes.get(name)
        if found is None or (not found and name in declared):
            gpus[resource_of(name)] = declared.get(name, _nominal(seen, name))
            if name not in declared and name in flavors:
                gaps.append(
                    Gap(reason="Its nodes are not known: its quota counts as what exists.", where=f"flavor {name}")
                )
            continue
        usable = [one for one in found if not one.unusable]
        places[name] = tuple(
            Place(node=one.name, gpus=max(0, one.gpus - outside[one.name]), free=max(0, one.gpus - held[one.name]))
            for one in usable
        )
        gpus[resource_of(name)] = sum(one.gpus for one in places[name])
        if not usable:
            gaps.append(Gap(reason=_none_usable(found, flavors[name]), where=f"flavor {name}"))
    shared = _shared(places)
    for pool in sorted(set(shared.values())):
        together = {one.node: one.gpus for name, its in places.items() if shared.get(name) == pool for one in its}
        gpus[pool] = sum(together.values())
    return Room(gpus=gpus, places=places, shared=shared, groups=_groups(places, shared), gaps=tuple(gaps))


def _is_of(node: Node, flavor: Flavor, tolerated: tuple[Toleration, ...]) -> bool:
    if any(node.labels.get(key) != value for key, value in flavor.node_labels.items()):
        return False
    # GPU nodes are often tainted with the name of their resource, which Kubernetes lets GPU pods tolerate by itself.
    taints = tuple(one for one in node.taints if one not in flavor.taints and not is_gpu_resource(one.key))
    return bool(node.unusable) or keeps_away(taints, (*flavor.tolerations, *tolerated)) is None


def _tolerated(seen: ClusterSnapshot) -> tuple[Toleration, ...]:
    """What any job that is not finished puts up with."""
    return tuple(
        {
            one: None
            for work in seen.work
            if work.finished_ms is None
            for pods in work.pod_sets
            for one in pods.tolerations
        }
    )


def _nominal(seen: ClusterSnapshot, flavor: str) -> int:
    return sum(one.nominal for one in _all_quotas(seen) if one.flavor == flavor)


def _all_quotas(seen: ClusterSnapshot) -> list[GpuQuota]:
    owned = [one for queue in seen.queues for one in queue.quotas]
    return owned + [one for cohort in seen.cohorts for one in cohort.quotas]


def _none_usable(found: list[Node], flavor: Flavor) -> str:
    if not found:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(flavor.node_labels.items()))
        return f"No node with GPUs has its labels ({labels}): nothing can run on it." if labels else "No node has GPUs."
    return f"None of its {len(found)} nodes can take work: {found[0].name} is {found[0].unusable}."


def _shared(places: Mapping[str, tuple[Place, ...]]) -> dict[str, str]:
    """A name for each set of flavors that are linked by common nodes, by flavor."""
    pool = {name: {name} for name in places}
    of_node: dict[str, list[str]] = defaultdict(list)
    for name, its in places.items():
        for one in its:
            of_node[one.node].append(name)
    for names in of_node.values():
        together = set[str]().union(*(pool[name] for name in names))
        for name in together:
            pool[name] = together
    return {name: f"nodes/{min(its)}" for name, its in pool.items() if len(its) > 1}


def _groups(places: Mapping[str, tuple[Place, ...]], shared: Mapping[str, str]) -> tuple[NodeGroup, ...]:
    """Nodes alike of the flavors that have nodes of their own."""
    counts = Counter((name, one.gpus) for name, its in places.items() if name not in shared for one in its if one.gpus)
    return tuple(NodeGroup(flavor=name, gpus=gpus, count=count) for (name, gpus), count in sorted(counts.items()))
