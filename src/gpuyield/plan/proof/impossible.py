"""Jobs that cannot meet their deadline even alone: too long, too wide, no such flavor, or behind a long chain."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from gpuyield.plan.instance.board import Board, Mode, Steps, Task, holds
from gpuyield.plan.instance.profile import NEVER, Profile
from gpuyield.plan.instance.windows import Windows


class Reason(StrEnum):
    """Why a job cannot meet its deadline even alone."""

    TOO_LONG = "too-long"
    TOO_WIDE = "too-wide"
    NO_FLAVOR = "no-flavor"
    CHAIN = "chain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Impossible:
    """A job, the reason, and its two figures: ms for time, an amount for width, names for flavors.

    A chain with a name in `need` waits for that job, which is itself impossible; no certificate lists it. A fixed job
    behind a chain: the earliest end of what it waits for, and its fixed start. With `lacks_room` the time there is
    not what is left until the deadline, but the longest that capacity has room for it.
    """

    task: int
    reason: Reason
    need: int | tuple[str, ...]
    have: int | tuple[str, ...]
    resource: str | None = None
    lacks_room: bool = False

    @property
    def is_behind(self) -> bool:
        """It is impossible only because one that it waits for is."""
        return self.reason is Reason.CHAIN and not isinstance(self.need, int)


def impossible_jobs(board: Board, steps: Sequence[Steps], windows: Windows) -> list[Impossible]:
    """Every job that cannot be run in time even on an empty cluster, in the order of ids."""
    empty = Profile(steps)
    always = [empty.lowest(resource) for resource in range(len(steps))]
    chains = chain_heads(board, windows)
    found: dict[int, Impossible] = {}
    unusable: set[int] = set()
    for at in board.topological:
        task = board.tasks[at]
        one = None
        if not _fits_at_its_head(always, windows, task):
            one = _impossible(board, empty, windows, task, chains[at])
        stuck = next((before for before in task.before if before in unusable), None)
        if stuck is not None and (one is None or one.lacks_room):
            behind = board.tasks[stuck].job.id
            one = Impossible(task=at, reason=Reason.CHAIN, need=(behind,), have=())
        if one is not None:
            found[at] = one
        if stuck is not None or not _usable(windows, task):
            unusable.add(at)
    return sorted(found.values(), key=lambda one: board.tasks[one.task].job.id)


def _fits_at_its_head(always: Sequence[int], windows: Windows, task: Task) -> bool:
    """Whether it can start at its head on what there always is of each resource."""
    if task.fixed_ms is not None:
        return False
    room = NEVER if task.deadline_ms is None else task.deadline_ms - windows.heads[task.index]
    return any(mode.duration_ms <= room and holds(always, mode) for mode in task.modes)


def chain_heads(board: Board, windows: Windows) -> list[int]:
    """Heads where every predecessor takes its shortest shape and a fixed job has its fixed start, whatever fits."""
    heads = [0] * len(board.tasks)
    for at in board.topological:
        task = board.tasks[at]
        if task.fixed_ms is not None:
            heads[at] = task.fixed_ms
            continue
        behind = [heads[one] + _shortest(board.tasks[one], windows) for one in task.before]
        heads[at] = max([task.release_ms, *behind])
    return heads


def _usable(windows: Windows, task: Task) -> bool:
    """Whether some shape is held by the capacity and long enough before its own deadline, as early as it may start."""
    head = windows.heads[task.index]
    if task.fixed_ms is not None and head > task.fixed_ms:
        return False
    return any(
        task.deadline_ms is None or head + mode.duration_ms <= task.deadline_ms for mode in windows.held[task.index]
    )


def _shortest(task: Task, windows: Windows) -> int:
    held = [mode.duration_ms for mode in windows.held[task.index]]
    return min(held or [shape.duration_ms for shape in task.job.shapes])


def _impossible(board: Board, empty: Profile, windows: Windows, task: Task, chain_head: int) -> Impossible | None:
    if not task.modes:
        named = tuple(sorted({name for shape in task.job.shapes for name in shape.demand}))
        return Impossible(task=task.index, reason=Reason.NO_FLAVOR, need=named, have=board.resources[: board.named])
    shortest = min(mode.duration_ms for mode in task.modes)
    release = task.release_ms if task.fixed_ms is None else task.fixed_ms
    head = windows.heads[task.index]
    deadline = task.deadline_ms
    if deadline is not None and release + shortest > deadline:
        have = max(0, deadline - release)
        return Impossible(task=task.index, reason=Reason.TOO_LONG, need=shortest, have=have)
    if any(_fits_alone(empty, task, mode, head, deadline) for mode in task.modes):
        return None
    if task.fixed_ms is not None and head > task.fixed_ms:
        return Impossible(task=task.index, reason=Reason.CHAIN, need=head, have=task.fixed_ms)
    chain_end = chain_head + _shortest(task, windows)
    if deadline is not None and chain_end > deadline and task.before:
        return Impossible(task=task.index, reason=Reason.CHAIN, need=chain_end, have=deadline)
    wide = _too_wide(board, empty, task)
    if _lack(wide) >= 0 or any(_fits_alone(empty, task, mode, release, deadline) for mode in task.modes):
        return _too_little_room(empty, task, head)
    return wide


def _fits_alone(empty: Profile, task: Task, mode: Mode, head: int, deadline: int | None) -> bool:
    if task.fixed_ms is not None:
        if head > task.fixed_ms:
            return False
        end = task.fixed_ms + mode.duration_ms
        start = max(task.fixed_ms, 0)
        if deadline is not None and end > deadline:
            return False
        if task.job.restart_ms is None:
            return end <= start or empty.fits(mode.demand, start, end)
    if task.job.restart_ms is not None:
        return _fits_in_parts(empty, mode, head, deadline, task.job.restart_ms)
    last = NEVER if deadline is None else deadline - mode.duration_ms
    return empty.earliest(mode, head, last) is not None


def _fits_in_parts(empty: Profile, mode: Mode, head: int, deadline: int | None, restart_ms: int) -> bool:
    """Whether the spans in which the demand is there suffice; before the origin it is taken to have run."""
    return _in_parts_ms(empty, mode, head, deadline, restart_ms) >= mode.duration_ms + min(0, head)


def _in_parts_ms(empty: Profile, mode: Mode, head: int, deadline: int | None, restart_ms: int) -> int:
    """The time from the origin on in which the demand is there: longest span first, each further one less a restart."""
    end = NEVER if deadline is None else deadline
    parts = [min(high, end) - max(low, head) for low, high in empty.spans(mode.demand, 0, NEVER)]
    got = 0
    for number, part in enumerate(sorted((one for one in parts if one > 0), reverse=True)):
        got = max(got, got + part - (restart_ms if number else 0))
    return got


def _too_little_room(empty: Profile, task: Task, head: int) -> Impossible:
    """The shape that lacks least of its time, against the longest that there is room for it."""
    there = {mode: _room_ms(empty, task, mode, head) for mode in task.modes}
    mode = min(there, key=lambda one: (one.duration_ms - there[one], one.shape))
    need = mode.duration_ms
    return Impossible(task=task.index, reason=Reason.TOO_LONG, need=need, have=there[mode], lacks_room=True)


def _room_ms(empty: Profile, task: Task, mode: Mode, head: int) -> int:
    """The most of its duration that a mode gets between head and deadline with all capacity to itself."""
    if task.job.restart_ms is not None:
        return max(0, -head) + _in_parts_ms(empty, mode, head, task.deadline_ms, task.job.restart_ms)
    end = NEVER if task.deadline_ms is None else task.deadline_ms
    spans = [(max(low, head) if low else head, min(high, end)) for low, high in empty.spans(mode.demand, 0, NEVER)]
    if task.fixed_ms is not None:
        spans = [(low, high) for low, high in spans if low == task.fixed_ms]
    return max([0, *(high - low for low, high in spans if high > 0)])


def on_time_alone(board: Board, steps: Sequence[Steps], windows: Windows) -> list[bool]:
    """Per task: whether it could end by the earlier of deadline and due time if nothing else bound anything."""
    empty = Profile(steps)
    stuck: set[int] = set()
    found = [False] * len(board.tasks)
    for at in board.topological:
        task = board.tasks[at]
        head = windows.heads[at]
        blocked = any(one in stuck or not _startable(windows, board.tasks[one]) for one in task.before)
        if blocked:
            stuck.add(at)
        wanted = min((end for end in (task.deadline_ms, task.due_ms) if end is not None), default=None)
        found[at] = not blocked and any(_fits_alone(empty, task, mode, head, wanted) for mode in task.modes)
    return found


def _startable(windows: Windows, task: Task) -> bool:
    late = task.fixed_ms is not None and windows.heads[task.index] > task.fixed_ms
    return bool(windows.held[task.index]) and not late


def _too_wide(board: Board, empty: Profile, task: Task) -> Impossible:
    """The narrowest shape against the most of its scarcest resource that lasts long enough."""
    mode = min(task.modes, key=lambda one: (one.gpus, one.duration_ms, one.shape))
    worst: Impossible | None = None
    for resource, amount in mode.demand:
        have = _lasting(empty, task, mode, resource)
        if worst is None or have - amount < _lack(worst):
            worst = Impossible(
                task=task.index,
                reason=Reason.TOO_WIDE,
                need=amount,
                have=have,
                resource=board.resources[resource],
            )
    assert worst is not None
    return worst


def _lack(one: Impossible) -> int:
    assert isinstance(one.need, int)
    assert isinstance(one.have, int)
    return one.have - one.need


def _lasting(empty: Profile, task: Task, mode: Mode, resource: int) -> int:
    """The most of one resource that is there for the mode's duration without a break, inside the job's own window.

    A fixed job's window is its run.
    """
    start = max(0, task.release_ms if task.fixed_ms is None else task.fixed_ms)
    if task.fixed_ms is not None:
        low, high = bisect_right(empty.times, start) - 1, bisect_left(empty.times, task.fixed_ms + mode.duration_ms)
        return min(empty.free[resource][low:high], default=0)
    last = NEVER if task.deadline_ms is None else task.deadline_ms - mode.duration_ms
    for amount in sorted({have for have in empty.free[resource] if have > 0}, reverse=True):
        trial = Mode(mode.shape, ((resource, amount),), mode.duration_ms, amount)
        if empty.earliest(trial, start, last) is not None:
            return amount
    return 0


def impossible_certificate(board: Board, listed: Sequence[Impossible]) -> dict[str, object] | None:
    """The certificate of kind `impossible`: seconds for time, amounts for width, lists for flavors.

    None where no job can be shown by two figures, as a chain into a hole of the capacity cannot.
    """
    exact = [one for one in listed if _sayable(one, board.tasks[one.task])]
    if not exact:
        return None
    rows: list[dict[str, object]] = []
    for one in exact:
        need: object = one.need
        have: object = one.have
        if one.reason in (Reason.TOO_LONG, Reason.CHAIN):
            assert isinstance(one.need, int)
            assert isinstance(one.have, int)
            need, have = seconds(one.need), seconds(one.have)
        if one.reason is Reason.NO_FLAVOR:
            assert not isinstance(one.need, int)
            assert not isinstance(one.have, int)
            need, have = list(one.need), list(one.have)
        rows.append({"id": board.tasks[one.task].job.id, "reason": str(one.reason), "need": need, "have": have})
    return {"kind": "impossible", "jobs": rows}


def _sayable(one: Impossible, task: Task) -> bool:
    """Whether the two figures show it: a width that lacks nothing by itself does not, nor does a name."""
    if one.reason is Reason.CHAIN and task.fixed_ms is not None:
        return False
    if one.reason is Reason.TOO_WIDE:
        return _lack(one) < 0
    if one.reason is Reason.NO_FLAVOR:
        return True
    return isinstance(one.need, int) and isinstance(one.have, int)


def seconds(length_ms: int) -> int | float:
    """Seconds of milliseconds: whole where they are."""
    whole, rest = divmod(length_ms, 1000)
    return length_ms / 1000 if rest else whole
