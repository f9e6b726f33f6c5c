"""GPU-hours and prices of a live OpenCost against our own integration of the same window, each difference named.

Nothing is corrected: hours are ours, and OpenCost's stand beside them with the reason. One rule gives every row of
OpenCost: a pod is seen only at multiples of the resolution, from the first such instant at which it runs to the last;
gaps between are not seen, and pods of one name are one pod. Where this rule, applied to our spans, gives its figure,
the difference is explained; else it is called unexplained, with its size.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpuyield.account.lives import Ending
from gpuyield.account.nodes import Nodes
from gpuyield.account.pods import Holding
from gpuyield.collect.opencost import AllocationRow, NodeAsset
from gpuyield.model.gpu import SLICES_PER_CARD, DeviceKind, mig_slices
from gpuyield.units import HOUR_MS, MINUTE_MS, Window, merge_windows

DEFAULT_RESOLUTION_MS = 5 * MINUTE_MS

_SAME_H = 0.005
"""Figures come rounded to 5 decimals; what is nearer than this is equal."""

_PodName = tuple[str, str]


class Cause(StrEnum):
    """Why OpenCost's hours differ from ours."""

    RESOLUTION = "resolution"
    MERGED_NAMES = "merged names"
    SHARED_DEVICES = "shared devices"
    NOT_STARTED = "not started"
    SILENCE = "gaps in the samples"
    UNEXPLAINED = "unexplained"


WORDS: Mapping[Cause, str] = {
    Cause.RESOLUTION: "OpenCost looks every {resolution} and counts from the first look to the last: ends are cut,"
    " short pods vanish or grow.",
    Cause.MERGED_NAMES: "Pods of one name in one namespace are one pod to OpenCost, from the first start to the last"
    " end (INGEST_POD_UID=true tells them apart).",
    Cause.SHARED_DEVICES: "MIG slices and shared cards are no GPUs to OpenCost, or each pays a whole one; ours are"
    " shares of a card.",
    Cause.NOT_STARTED: "OpenCost counts running containers only; a GPU is held from the moment its pod is placed.",
    Cause.SILENCE: "OpenCost fills gaps in the samples where a name is there before and after; ours is unknown there.",
    Cause.UNEXPLAINED: "Not explained by any of these: see both for this pod or node.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodHours:
    """GPU-hours of the pods of one name: OpenCost's (None: it has no row), ours held, and the parts between.

    `opencost` = `held` + the sum of `differences`, where a missing row counts as 0.
    """

    namespace: str
    pod: str
    opencost: float | None
    held: float
    differences: Mapping[Cause, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHours:
    """GPU-hours of a node, by OpenCost and by our own integration; None: it does not know the node."""

    node: str
    opencost: float | None
    ours: float | None
    cause: Cause | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crosscheck:
    """All of a window: pods and nodes, and the resolution that OpenCost's minutes show."""

    window: Window
    resolution_ms: int
    pods: tuple[PodHours, ...]
    nodes: tuple[NodeHours, ...]

    @property
    def differing(self) -> tuple[PodHours, ...]:
        """Pods whose hours are not the same, the largest difference first."""
        found = [one for one in self.pods if one.differences]
        return tuple(sorted(found, key=lambda one: -sum(abs(part) for part in one.differences.values())))

    def by_cause(self) -> dict[Cause, tuple[int, float]]:
        """How many pods differ by each cause, and by how many GPU-hours in sum."""
        return {
            cause: (len(parts), sum(parts))
            for cause in Cause
            if (parts := [one.differences[cause] for one in self.pods if cause in one.differences])
        }


def crosscheck(
    *,
    window: Window,
    rows: Iterable[AllocationRow],
    assets: Iterable[NodeAsset],
    holdings: Iterable[Holding],
    nodes: Nodes,
    silent: Sequence[Window] = (),
) -> Crosscheck:
    """Compare; `rows` are OpenCost's of single pods, `silent` is when kube-state-metrics said nothing."""
    theirs: dict[_PodName, float] = defaultdict(float)
    minutes = []
    for row in rows:
        if row.pod and not row.name.startswith("__"):
            theirs[row.namespace, row.pod.split(" ")[0]] += float(row.gpu_hours or 0)
            minutes += [float(row.minutes)] if row.minutes else []
    ours: dict[_PodName, list[Holding]] = defaultdict(list)
    for one in holdings:
        if one.from_ms < window.to_ms and one.to_ms > window.from_ms:
            ours[one.namespace, one.pod].append(one)
    step_ms = resolution(minutes)
    compared = [
        _pod(name, theirs.get(name), ours.get(name, []), nodes=nodes, window=window, step_ms=step_ms, silent=silent)
        for name in sorted({*ours, *(name for name, hours in theirs.items() if hours)})
    ]
    return Crosscheck(
        window=window,
        resolution_ms=step_ms,
        pods=tuple(compared),
        nodes=tuple(_nodes(list(assets), nodes, window, step_ms)),
    )


def resolution(minutes: Iterable[float]) -> int:
    """The step at which OpenCost looks: 5 minutes if all its minutes are multiples of that, else 1."""
    return DEFAULT_RESOLUTION_MS if all(one % 5 == 0 for one in minutes) else MINUTE_MS


def seen_on_grid(runs: Sequence[Window], window: Window, step_ms: int) -> int | None:
    """How long OpenCost takes a pod with these runs to have run, in milliseconds; None: it gets no row.

    Source: the grid rule of recorded answers, checked on all of them: instants at multiples of the step, both edges
    of the window included; a pod that is seen at one instant gets one step, cut to the window.
    """
    first = math.ceil(window.from_ms / step_ms) * step_ms
    looks = [
        at
        for run in runs
        for at in (_first_look(run, first, step_ms), _last_look(run, window, step_ms))
        if at is not None and window.from_ms <= at <= window.to_ms
    ]
    if not looks:
        return None
    begin, end = min(looks), max(looks)
    return min(end if end > begin else begin + step_ms, window.to_ms) - begin


def _first_look(run: Window, first_ms: int, step_ms: int) -> int | None:
    at = max(math.ceil(run.from_ms / step_ms) * step_ms, first_ms)
    return at if at < run.to_ms else None


def _last_look(run: Window, window: Window, step_ms: int) -> int | None:
    # The end itself is no longer run; the window's end is looked at.
    at = min((run.to_ms - 1) // step_ms * step_ms, window.to_ms // step_ms * step_ms)
    return at if at >= run.from_ms else None


def _pod(
    name: _PodName,
    theirs: float | None,
    held: Sequence[Holding],
    *,
    nodes: Nodes,
    window: Window,
    step_ms: int,
    silent: Sequence[Window],
) -> PodHours:
    ours = sum(_hours(one, Window(one.from_ms, one.to_ms), nodes, window) for one in held)
    running = sum(_hours(one, run, nodes, window) for one in held if (run := _run(one)) is not None)
    differences: dict[Cause, float] = {}
    if not held:
        differences[Cause.UNEXPLAINED] = theirs or 0.0
    elif any(_card_share(one, nodes) != 1 for one in held):
        differences[Cause.SHARED_DEVICES] = (theirs or 0.0) - ours
    else:
        differences[Cause.NOT_STARTED] = running - ours
        cause = _cause(theirs or 0.0, held, window, step_ms, silent)
        differences[cause] = differences.get(cause, 0.0) + (theirs or 0.0) - running
    return PodHours(
        namespace=name[0],
        pod=name[1],
        opencost=theirs,
        held=ours,
        differences={cause: part for cause, part in differences.items() if abs(part) > _SAME_H},
    )


def _cause(theirs: float, held: Sequence[Holding], window: Window, step_ms: int, silent: Sequence[Window]) -> Cause:
    """Why OpenCost's hours are not the time that these pods ran."""
    runs = [run for one in held if (run := _looked_at(one)) is not None]
    if not runs:
        return Cause.NOT_STARTED
    uids = len({one.pod_key for one in held})
    gpus = max(sum(one.devices for one in held if one.pod_key == key) for key in {one.pod_key for one in held})
    seen_ms = seen_on_grid(runs, window, step_ms) or 0
    if abs(theirs - gpus * seen_ms / HOUR_MS) <= _SAME_H:
        return Cause.MERGED_NAMES if uids > 1 else Cause.RESOLUTION
    whole_ms = Window(min(one.from_ms for one in runs), max(one.to_ms for one in runs))
    if any(gap.cut(whole_ms) for gap in silent) or any(run.cut(gap) for run in runs for gap in silent):
        return Cause.SILENCE
    inside = [cut for one in runs if (cut := one.cut(window)) is not None]
    ran_ms = sum(run.length_ms for run in merge_windows(inside))
    within_ms = 2 * step_ms * len(runs)
    if uids == 1 and abs(theirs * HOUR_MS - gpus * ran_ms) <= gpus * within_ms:
        return Cause.RESOLUTION
    return Cause.UNEXPLAINED


def _run(one: Holding) -> Window | None:
    if one.running_ms is None or one.running_ms >= one.to_ms:
        return None
    return Window(one.running_ms, one.to_ms)


def _looked_at(one: Holding) -> Window | None:
    """The run as a look at it shows: one that has not ended is still there at the end of what was read."""
    run = _run(one)
    return Window(run.from_ms, run.to_ms + 1) if run and one.ending is Ending.OPEN else run


def _hours(one: Holding, span: Window, nodes: Nodes, window: Window) -> float:
    cut = span.cut(window)
    return 0.0 if cut is None else one.devices * _card_share(one, nodes) * cut.length_ms / HOUR_MS


def _card_share(one: Holding, nodes: Nodes) -> float:
    """What part of a card one device of this hold is, as the accounting takes it."""
    states = nodes.states.get(one.node, ())
    state = next((found for found in reversed(states) if found.from_ms <= one.from_ms), states[0] if states else None)
    if one.kind is DeviceKind.MIG:
        return (mig_slices(one.resource) or 1) / (state.slices if state else SLICES_PER_CARD)
    if state and state.replicas:
        return 1 / state.replicas
    return state.single_slices / state.slices if state and state.single_slices else 1.0


def _nodes(assets: Sequence[NodeAsset], nodes: Nodes, window: Window, step_ms: int) -> list[NodeHours]:
    theirs: dict[str, float] = defaultdict(float)
    for asset in assets:
        theirs[asset.node] += float(asset.gpu_hours or 0)
    compared = []
    for node in sorted({*theirs, *nodes.states}):
        states = [
            (state, cut)
            for state in nodes.states.get(node, ())
            if (cut := Window(state.from_ms, state.to_ms).cut(window))
        ]
        ours = sum(state.cards * cut.length_ms for state, cut in states) / HOUR_MS if states else None
        stated = theirs.get(node)
        if not ours and not stated:
            continue
        difference = abs((stated or 0.0) - (ours or 0.0))
        cards = max((state.cards for state, _ in states), default=0)
        cause = None
        if difference > _SAME_H:
            is_shared = any(state.replicas or state.single_slices or state.bounded for state, _ in states)
            is_cut = stated == 0 and bool(ours)
            cause = Cause.UNEXPLAINED
            if is_shared or is_cut:
                cause = Cause.SHARED_DEVICES
            elif stated is not None and difference <= cards * 2 * step_ms / HOUR_MS:
                cause = Cause.RESOLUTION
        compared.append(NodeHours(node=node, opencost=stated, ours=ours, cause=cause))
    return compared
