"""Day by day without a look ahead: which jobs run now, on one pool of GPUs, of those that are known now.

Least slack first: slack is the time to the deadline less the run time that is left. A running job that may be paused
keeps its place until another has clearly less slack, so that a pause gains many times what the restart costs; one that
may not be paused is never touched. Jobs that can no longer end in time are given up at once.

Where a job may not be paused, starting it is for good: a large one takes GPUs from many small ones that are not
submitted yet. So some GPUs are kept free of large jobs, as many as small jobs were lately given up for want of them.

Source: least laxity first (Mok 1983).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gpuyield.units import DAY_MS

Column: TypeAlias = NDArray[np.int64]

NOT_PAUSED = -1
"""The restart cost of a job that may not be paused."""

GAIN = 10
"""A pause has to gain so many times the restart cost in slack."""

KEPT_PER_LOST = 0.5
"""GPUs kept free of large jobs per GPU of a small job that was given up."""

FORGOTTEN_BY_HALF_MS = DAY_MS
MOST_KEPT = 0.25
"""The greatest part of a pool that is kept free of large jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """The jobs of one pool that wait or run at one instant, as columns of the same length.

    `left_ms` is the run time that is left, `deadline_ms` the deadline (`NEVER`: none), `restart_ms` what a pause costs
    (`NOT_PAUSED`: none is allowed), `run_ms` the whole run time.
    """

    gpus: Column
    run_ms: Column
    left_ms: Column
    deadline_ms: Column
    restart_ms: Column
    running: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.gpus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What happens now, as places in the columns: jobs that start (or go on), are paused, or are given up."""

    start: tuple[int, ...] = ()
    pause: tuple[int, ...] = ()
    give_up: tuple[int, ...] = ()


class Policy(Protocol):
    """Decides from instant to instant; it may remember."""

    def submitted(self, gpus: int, run_ms: int) -> None:
        """A job was submitted."""

    def decide(self, now_ms: int, pool: int, active: Active) -> Decision:
        """What happens now on a pool of so many GPUs."""


@dataclass(slots=True)
class LeastSlack:
    """Least slack first, with pauses where they are allowed and GPUs kept for small jobs where they are not."""

    kept_gpus: float = field(default=0.0, init=False)
    _kept_at_ms: int = field(default=0, init=False)
    _submitted: int = field(default=0, init=False)
    _submitted_gpu_ms: int = field(default=0, init=False)

    def submitted(self, gpus: int, run_ms: int) -> None:
        """Learn how large jobs are."""
        self._submitted += 1
        self._submitted_gpu_ms += gpus * run_ms

    def decide(self, now_ms: int, pool: int, active: Active) -> Decision:
        """What happens now; `pool` may have shrunk below what runs."""
        slack = active.deadline_ms - now_ms - active.left_ms
        stays = active.running & (active.restart_ms == NOT_PAUSED)
        hopeless = (slack < 0) & ~stays
        large = active.gpus * active.run_ms * max(1, self._submitted) > self._submitted_gpu_ms
        self._remember(now_ms, pool, int(active.gpus[hopeless & ~large].sum()))
        kept = np.where(large & (active.restart_ms == NOT_PAUSED), int(self.kept_gpus), 0)
        free = pool - int(active.gpus[stays].sum())
        chosen = _chosen(active, slack, np.flatnonzero(~hopeless & ~stays), free, kept)
        return Decision(
            start=tuple(np.flatnonzero(chosen & ~active.running).tolist()),
            pause=tuple(np.flatnonzero(active.running & ~stays & ~chosen & ~hopeless).tolist()),
            give_up=tuple(np.flatnonzero(hopeless).tolist()),
        )

    def _remember(self, now_ms: int, pool: int, lost_gpus: int) -> None:
        self.kept_gpus *= 0.5 ** ((now_ms - self._kept_at_ms) / FORGOTTEN_BY_HALF_MS)
        self._kept_at_ms = now_ms
        self.kept_gpus = min(self.kept_gpus + KEPT_PER_LOST * lost_gpus, MOST_KEPT * pool)


def _chosen(active: Active, slack: Column, able: Column, free: int, kept: Column) -> NDArray[np.bool_]:
    """Who runs: in order of slack, less what a pause has to gain for those that run; each that fits."""
    gained = np.where(active.running, GAIN * active.restart_ms, 0)
    order = able[np.argsort((slack - gained)[able], kind="stable")]
    chosen = np.zeros(len(active), dtype=np.bool_)
    least = int(active.gpus[able].min()) if len(able) else 0
    for at, gpus, spare in zip(
        order.tolist(), active.gpus[order].tolist(), np.where(active.running, 0, kept)[order].tolist(), strict=True
    ):
        if free < least:
            break
        if gpus <= free - spare:
            chosen[at] = True
            free -= gpus
    return chosen


@dataclass(slots=True)
class FirstCome:
    """Each job that fits starts, in order of submission, whatever its deadline: what most queues do."""

    def submitted(self, gpus: int, run_ms: int) -> None:
        """Nothing to learn."""

    def decide(self, now_ms: int, pool: int, active: Active) -> Decision:
        """Every waiting job that fits."""
        order = np.flatnonzero(~active.running)
        return Decision(start=_in_order(active, order, pool))


@dataclass(slots=True)
class EarliestDeadline:
    """Earliest deadline first without pauses; what can no longer end in time is given up."""

    def submitted(self, gpus: int, run_ms: int) -> None:
        """Nothing to learn."""

    def decide(self, now_ms: int, pool: int, active: Active) -> Decision:
        """Every waiting job that fits, the most urgent first."""
        hopeless = (active.deadline_ms - now_ms < active.left_ms) & ~active.running
        waiting = np.flatnonzero(~active.running & ~hopeless)
        order = waiting[np.argsort(active.deadline_ms[waiting], kind="stable")]
        return Decision(start=_in_order(active, order, pool), give_up=tuple(np.flatnonzero(hopeless).tolist()))


def _in_order(active: Active, order: Column, pool: int) -> tuple[int, ...]:
    free = pool - int(active.gpus[active.running].sum())
    started = []
    widths = active.gpus[order]
    at = 0
    while at < len(order):
        fits = np.flatnonzero(widths[at:] <= free)
        if not len(fits):
            break
        at += int(fits[0])
        started.append(int(order[at]))
        free -= int(widths[at])
        at += 1
    return tuple(started)
