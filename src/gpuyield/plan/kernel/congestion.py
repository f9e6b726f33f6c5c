"""Jobs negotiate for slots: everybody runs where it costs least, and where too many want to run it gets dearer.

With a ceiling that is the capacity, what would cost a job more than it is worth is given up; the ceiling of a search
for the fewest falls by one each time that nothing is above it any more.

Source: negotiated congestion routing (McMurchie, Ebeling 1995); guided local search (Voudouris, Tsang 1999).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuyield.plan.kernel.search import Answer, Search
from gpuyield.plan.kernel.table import FAR, Floats, Ints, Room, Runs, Table, copy_of, room_of

POWERS = (2, 4, 8, 16, 32, 64, 96, 128, 192, 256)
FEW_POWERS = (2, 8, 32, 128)
"""Enough where negotiation goes on from there."""
SWEEP_CELLS = 4_000_000
"""Slots that the windows of one batch of a sweep hold together."""
BUMP = 0.3
"""How much dearer a slot gets each time that it is wanted by too many."""
LADDER = (20.0, 6.0)
"""What a job is worth at first, in the slots of the median job per weight; less is tried where that does not settle."""
STUBBORN = 40
"""Sweeps after which what is still above the ceiling is given up."""
PATIENCE = 20
"""Sweeps without less above the ceiling after which it is given up to meet every deadline."""
QUIET = {True: 800, False: 40}
"""Sweeps without fewer after which no fewer are looked for: of a thorough search, and of one by the way."""
STEP = 10
"""Sweeps between two looks at whether a search for the fewest still gets anywhere."""
REPAIR_MOVES, REPAIR_PATIENCE = 6_000, 2_000
MOST_LOAD = 1 << 16
"""What there is more of than this is not negotiated for."""


@dataclass(slots=True)
class _Field:
    """Runs of the jobs of an order, the load that they make (by resource, raised by what does not exist), its costs."""

    table: Table
    room: Room
    runs: Runs
    soft: Ints
    load: Ints
    weights: Floats
    order: Ints


class Congestion:
    """Sweeps over the jobs whose window ends; `soft` resources may be wanted by too many for a while."""

    def __init__(self, search: Search, soft: Ints, load: Ints, ceiling: int) -> None:
        self.search, self.ceiling = search, ceiling
        grid, table = search.grid, search.grid.bound_by_tails()
        table = table._replace(limits=np.minimum(table.limits, table.timely))
        free = grid.free[table.limits[grid.free] < FAR]
        first = table.first_mode[:-1][free]
        slack = table.limits[free] - table.heads[free] - table.lengths[first]
        order = free
        if not len(table.before):
            order = free[np.lexsort((-search.areas()[free], slack))]
        room = room_of(np.where(soft[:, None] > 0, FAR >> 1, grid.room.free))
        self.field = _Field(
            table=table,
            room=room,
            runs=grid.runs(),
            soft=soft,
            load=load,
            weights=np.ones(load.shape),
            order=order,
        )
        spans = np.minimum(table.limits[free] - table.heads[free], grid.room.free.shape[1])
        self.batch = max(1, int(SWEEP_CELLS * len(free) // max(1, int(np.maximum(spans, 1).sum()))))
        self.worth = np.full(len(table.heads), np.inf)

    def sweep(self, order: Ints, prices: Floats, above: int, *, whole: bool = False) -> int | None:
        """How many are left out; None once the budget is spent and it need not be `whole` (some were not looked at)."""
        field, left_out = self.field, 0
        for at in range(0, len(order), self.batch):
            part = order[at : at + self.batch]
            if not self.search.spend(len(part)) and not whole:
                return None
            left_out += self.search.lane["sweep"](
                field.table,
                field.room,
                field.runs,
                part,
                field.soft,
                field.load,
                prices,
                field.weights,
                self.worth,
                above,
                bool((field.soft == 0).any()),
                self.search.dice,
            )
        return left_out

    def level(self, target: int, powers: Sequence[int], *, whole: bool = False) -> bool:
        """Spread the load, ever more against its peak; False where the budget did not do for a first place of each.

        `whole`: a first place of each is found all the same.
        """
        best, kept = None, None
        for power in powers:
            height = self._height(target)
            prices = np.minimum(np.arange(height, dtype=np.float64) / max(1, target), 3.0) ** power
            if self.sweep(self.field.order, prices, -1, whole=whole and best is None) is None:
                break
            peak = self.peak()
            if best is None or peak < best:
                best, kept = peak, (copy_of(self.field.runs), self.field.load.copy())
            if peak <= target:
                break
            target = max(target, peak * 3 // 5)
        if kept is None:
            return False
        if self.peak() > (best or 0):
            self.adopt(*kept)
        return True

    def negotiate(self, sweeps: int, *, patience: int | None = None) -> bool:
        """Sweep until nothing is above the ceiling; False where that did not happen."""
        field = self.field
        prices = self._steep()
        least, quiet = None, 0
        for _ in range(sweeps):
            over = field.load > self.ceiling
            over[field.soft == 0] = False
            count = int(over.sum())
            if not count:
                return True
            quiet = 0 if least is None or count < least else quiet + 1
            least = count if least is None else min(least, count)
            if patience is not None and quiet > patience:
                return False
            field.weights[over] += BUMP
            order = self.search.chance.permutation(field.order) if not len(field.table.before) else field.order
            if self.sweep(order, prices, self.ceiling) is None:
                break
        return not bool((field.load[field.soft > 0] > self.ceiling).any())

    def peak(self) -> int:
        """The greatest load of a soft resource."""
        return int(self.field.load[self.field.soft > 0].max(initial=0))

    def adopt(self, runs: Runs, load: Ints) -> None:
        """Go on from other runs with their load."""
        self.field.runs, self.field.load = copy_of(runs), load.copy()
        self.field.weights = np.ones(load.shape)
        self._hold_again()

    def _hold_again(self) -> None:
        field = self.field
        if not (field.soft == 0).any():
            return
        grid = self.search.grid
        field.room = room_of(np.where(field.soft[:, None] > 0, FAR >> 1, grid.room.free))
        self.search.lane["hold_all"](field.table, field.room, field.runs, grid.free)

    @staticmethod
    def _height(target: int) -> int:
        return 4 * max(target, 1) + 1

    def _steep(self) -> Floats:
        load = np.arange(self._height(self.ceiling), dtype=np.float64)
        above = np.maximum(0.0, load - self.ceiling)
        found: Floats = above + 0.05 * above**2 + 0.3 * np.minimum(load / max(1, self.ceiling), 1.0) ** 40
        return found

    def settled(self) -> Answer:
        """The runs on the real capacity: what lacks room is given up, least dense first, and placed last if it fits."""
        search, field = self.search, self.field
        room = search.grid.open_room()
        runs = copy_of(field.runs)
        search.lane["hold_all"](search.table, room, runs, search.grid.free)
        density = search.densities()
        free = search.grid.free
        search.lane["relieve"](search.table, room, runs, free[np.argsort(density[free], kind="stable")])
        if len(search.table.before):
            search.lane["follow"](search.table, room, runs, free)
        answer = Answer(runs, room)
        rest = search.sorted(search.table.timely)
        search.extend(answer, rest[runs.modes[rest] < 0], whole=True)
        return answer


def negotiated(search: Search, known: Answer, *, sure: bool) -> Answer:
    """The best answer for the objective on-time: what the given one has on time, or more.

    Where it is `sure` that not all deadlines can be met, no time is lost on trying.
    """
    congestion = _within_capacity(search)
    best, score = known, search.score(known.runs)
    if congestion is None or not congestion.level(congestion.ceiling, FEW_POWERS):
        return best
    start = (copy_of(congestion.field.runs), congestion.field.load.copy())
    table = search.table
    dense = search.densities()[search.grid.free]
    dense = dense[dense > 0]
    median = 1.0 / float(np.median(dense)) if len(dense) else 1.0
    everything = float(table.weights[table.wanted < FAR].sum())
    for ease in (*(() if sure else (np.inf,)), *LADDER):
        if score.met and score.weight >= everything:
            break
        congestion.adopt(*start)
        worth = table.weights * median * ease if np.isfinite(ease) else np.full(len(table.weights), np.inf)
        congestion.worth = np.where(table.hard > 0, np.inf, worth) if score.met else worth
        settled = congestion.negotiate(STUBBORN, patience=None if np.isfinite(ease) else PATIENCE)
        found = search.repaired(congestion.settled(), REPAIR_MOVES, REPAIR_PATIENCE)
        reached = search.score(found.runs)
        if reached > score:
            best, score = found, reached
        if (settled and np.isfinite(ease)) or search.budget.left <= 0 or search.budget.stopped:
            break
    return best


def all_met(search: Search) -> Answer | None:
    """An answer that meets every hard deadline; None where none was found."""
    congestion = _within_capacity(search)
    if congestion is None or not congestion.level(congestion.ceiling, FEW_POWERS):
        return None
    congestion.worth = np.where(search.table.hard > 0, np.inf, search.table.weights)
    congestion.negotiate(STUBBORN, patience=PATIENCE)
    found = congestion.settled()
    return found if search.score(found.runs).met else None


def _within_capacity(search: Search) -> Congestion | None:
    """Negotiation for what exists; None where that is not countable."""
    there = search.grid.room.free
    soft = (there.max(axis=1, initial=0) <= MOST_LOAD).astype(np.int64)
    if not soft.any() or not len(search.grid.free):
        return None
    ceiling = max(1, int(there[soft > 0].max(initial=0)))
    return Congestion(search, soft, np.where(soft[:, None] > 0, ceiling - there, 0), ceiling)


def levelled(search: Search, resource: int, floor: int, sweeps: int, *, thorough: bool) -> tuple[int, Runs] | None:
    """The fewest of a resource for which runs of all jobs were found, and these; None where no place was found for one.

    There is so much of the resource that it never binds. The load is spread once even where the time is up already.
    """
    there = search.grid.room.free
    soft = np.zeros(there.shape[0], dtype=np.int64)
    soft[resource] = 1
    exists = search.grid.case.steps[resource][-1][1]
    load = np.where(soft[:, None] > 0, exists - there, 0)
    congestion = Congestion(search, soft, load, max(1, floor))
    field = congestion.field
    powers = POWERS if thorough else FEW_POWERS
    if not congestion.level(max(1, floor), powers, whole=True) or (field.runs.modes[field.order] < 0).any():
        return None
    best, kept = congestion.peak(), copy_of(field.runs)
    quiet = 0
    while best > max(1, floor) and sweeps > 0 and quiet < QUIET[thorough]:
        congestion.ceiling = best - 1
        done = congestion.negotiate(min(STEP, sweeps))
        sweeps, quiet = sweeps - STEP, quiet + STEP
        if done:
            quiet = 0
            best, kept = congestion.peak(), copy_of(field.runs)
            field.weights[:] = 1.0
        if search.budget.left <= 0 or search.budget.stopped:
            break
    return best, kept
