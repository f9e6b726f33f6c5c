"""How well run times that were claimed came true: a family that overruns is planned by what it took, not by its word.

A family that ran longer than it said in more than 20 % of its runs, or in more than 20 % of the GPU time that its runs
took (so that many small honest runs hide no long one), is planned at its own 90th percentile and fills no gaps. A
family with too few runs is judged by all runs of its namespace: a new name buys no new credit.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpuyield.plan.online.durations import CAREFUL, LEAST_RUNS, MOST_OVERRUN, WINDOW, quantile

TOLERATED = 1.1
"""A run overran its claim if it took longer by more than a tenth: pods take a while to start."""

_PARTS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run that has ended, how long it was said to take, and how long it took."""

    namespace: str
    family: str
    gpus: int
    claimed_ms: int
    run_ms: int

    @property
    def overran(self) -> bool:
        """Whether it took clearly longer than it was said to."""
        return self.run_ms > TOLERATED * self.claimed_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How the last runs of a family, or of a whole namespace, kept to what was claimed for them.

    `overran` is the share that did not, by runs or by GPU time, whichever is greater. `p90_ms` is what nine of ten runs
    do not exceed, `stretch` the same of how many thousandths of its claim a run took.
    """

    runs: int
    overran: float
    p90_ms: int
    stretch: int

    @property
    def is_trusted(self) -> bool:
        """Whether its claims count as they are."""
        return self.overran <= MOST_OVERRUN


@dataclass(frozen=True, slots=True)
class Claims:
    """The records of families (by namespace and name) and of namespaces that have enough runs."""

    families: Mapping[tuple[str, str], Record] = field(default_factory=dict)
    namespaces: Mapping[str, Record] = field(default_factory=dict)

    def overruns(self, namespace: str, family: str) -> bool:
        """Whether a claim of this family is not believed."""
        found = self.families.get((namespace, family)) or self.namespaces.get(namespace)
        return found is not None and not found.is_trusted

    def planned_ms(self, namespace: str, family: str, claimed_ms: int) -> int:
        """How long a run is planned for that is said to take so long."""
        own = self.families.get((namespace, family))
        if own is not None:
            return claimed_ms if own.is_trusted else max(claimed_ms, own.p90_ms)
        whole = self.namespaces.get(namespace)
        if whole is None or whole.is_trusted:
            return claimed_ms
        return max(claimed_ms, -(-claimed_ms * whole.stretch // _PARTS))


def learn_claims(runs: Iterable[Claim]) -> Claims:
    """What runs say, in the order in which they ended; the last of each family and namespace count."""
    families: dict[tuple[str, str], deque[Claim]] = defaultdict(lambda: deque(maxlen=WINDOW))
    namespaces: dict[str, deque[Claim]] = defaultdict(lambda: deque(maxlen=WINDOW))
    for run in runs:
        families[run.namespace, run.family].append(run)
        namespaces[run.namespace].append(run)
    return Claims(
        {key: _record(its) for key, its in families.items() if len(its) >= LEAST_RUNS},
        {key: _record(its) for key, its in namespaces.items() if len(its) >= LEAST_RUNS},
    )


def _record(runs: Iterable[Claim]) -> Record:
    listed = list(runs)
    over = [one for one in listed if one.overran]
    held = sum(one.gpus * one.run_ms for one in listed)
    by_time = sum(one.gpus * one.run_ms for one in over) / held if held else 0.0
    return Record(
        runs=len(listed),
        overran=max(len(over) / len(listed), by_time),
        p90_ms=quantile(sorted(one.run_ms for one in listed), CAREFUL),
        stretch=quantile(sorted(-(-one.run_ms * _PARTS // max(1, one.claimed_ms)) for one in listed), CAREFUL),
    )
