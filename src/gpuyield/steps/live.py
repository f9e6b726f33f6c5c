"""The live cluster with Kueue: read once, planned, and told why each job waits."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuyield.collect.kubeconfig import ACCOUNT_FOLDER
from gpuyield.collect.kueue.finished import Finished, finished_work, read_finished, write_finished
from gpuyield.collect.kueue.reading import OF_RUNS, read_objects, serves_kueue
from gpuyield.collect.kueue.snapshot import snapshot
from gpuyield.collect.kueue.starts import read_starts, started_work, write_starts
from gpuyield.collect.probe import ApiServer, api_server
from gpuyield.decide.live.claims import with_claims
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import LiveProblem, live_problem
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import STARTS
from gpuyield.model.declaration import Declaration
from gpuyield.model.duration import DurationBasis, FamilyDuration
from gpuyield.model.evidence import Gap
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.model.starts import Started
from gpuyield.plan.online.durations import Durations, PastRun, learn
from gpuyield.steps.run_history import RunHistory
from gpuyield.steps.seen import family_name
from gpuyield.steps.setting import Setting, read_declaration, wall_clock_ms, was_collected
from gpuyield.units import Window, day_name


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """A cluster as it is now, and the declaration that it was read with."""

    declaration: Declaration
    live: LiveProblem
    terms: LiveTerms
    history: Callable[[str], FamilyDuration | None]


def is_live(declared: Declaration, ledger_root: Path, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a question without a job file is about the live cluster.

    It is where sources.kubernetes is declared; without a declaration of sources, and where nothing was ever
    collected, it is where KUBECONFIG is set or this is a pod.
    """
    if declared.sources.kubernetes is not None:
        return True
    if declared.sources.prometheus is not None or was_collected(ledger_root):
        return False
    return bool(environment.get("KUBECONFIG")) or (ACCOUNT_FOLDER / "token").is_file()


def live_cluster(*, file: Path, ledger_root: Path) -> LiveCluster | None:
    """The live cluster; None where the question is not about it, or Kueue is not installed there.

    Raises:
        DeclarationError: No way to the cluster.
        SourceError: It is out of reach, or does not let us read what is needed.
    """
    declared = read_declaration(file)
    if not is_live(declared, ledger_root):
        return None
    seen = _seen(declared)
    if seen is None:
        return None
    history = _history(seen, file, ledger_root)
    terms = with_claims(LiveTerms(declaration=declared, history=history, stem=family_name), seen)
    return LiveCluster(declaration=declared, live=live_problem(seen, terms), history=history, terms=terms)


def live_server(declared: Declaration) -> ApiServer:
    """The API server of the declared context, else of the current one, else of the pod that we run in.

    Raises:
        DeclarationError: No way to the cluster.
    """
    return api_server(declared.sources.context, environment=os.environ, home=Path.home())


def live_namespace(declared: Declaration) -> str:
    """The namespace that the context is for.

    Raises:
        DeclarationError: No way to the cluster.
    """
    return live_server(declared).namespace


def _seen(declared: Declaration, *, only: Collection[str] = ()) -> ClusterSnapshot | None:
    """What the declared cluster shows now, or `only` of these plurals; None where Kueue is not installed."""
    server = live_server(declared)
    version = serves_kueue(server)
    return None if version is None else snapshot(read_objects(server, version, only=only), at_ms=wall_clock_ms())


class LiveHistory:
    """How long a family ran (`NAMESPACE/FAMILY`): by the Workloads that ended, else by the pods that the ledger shows.

    Where neither knows enough runs of the family, what all runs of the one that knows any say.
    """

    def __init__(self, ended: Durations, ledger: RunHistory) -> None:
        self._ended = ended
        self._ledger = ledger

    def __call__(self, family: str) -> FamilyDuration | None:
        """How long a run of the family takes; None where none has ended."""
        ended = self._ended.of(family)
        if ended is not None and ended.basis is DurationBasis.FAMILY:
            return ended
        ledger = self._ledger(family.rpartition("/")[2])
        return ledger if ended is None or (ledger is not None and ledger.basis is DurationBasis.FAMILY) else ended


def _history(seen: ClusterSnapshot, file: Path, ledger_root: Path) -> LiveHistory:
    remembered = read_finished(Ledger(ledger_root)) if ledger_root.is_dir() else ()
    return LiveHistory(learn(past_runs((*remembered, *finished_work(seen)))), RunHistory.in_ledger(file, ledger_root))


def past_runs(finished: Iterable[Finished]) -> list[PastRun]:
    """The runs that ended well, each once, in the order of their end."""
    runs = {one.uid: one for one in finished if one.succeeded and one.run_ms is not None}
    return [
        PastRun(family=name, run_ms=one.run_ms)
        for one in sorted(runs.values(), key=lambda one: (one.finished_ms, one.uid))
        for stem in sorted({family_name(one.name), *([one.owner] if one.owner else [])})
        for name in (stem, f"{one.namespace}/{stem}")
        if one.run_ms is not None
    ]


def starts_in(setting: Setting, window: Window) -> tuple[Started, ...] | None:
    """The jobs of planned queues that began in a window; None where none ever did."""
    days = setting.ledger.days(STARTS)
    inside = [day for day in days if day_name(window.from_ms) <= day <= day_name(window.to_ms)]
    if not days:
        return None
    found = read_starts(setting.ledger, days=inside)
    return tuple(one for one in found if window.from_ms <= one.started_ms < window.to_ms)


def remember_finished(declared: Declaration, ledger: Ledger) -> tuple[Gap, ...]:
    """Write the Workloads that have begun or finished into the ledger; what could not be read is a gap."""
    if declared.sources.kubernetes is None:
        return ()
    try:
        seen = _seen(declared, only=OF_RUNS)
    except (DeclarationError, SourceError) as err:
        reason = " ".join(f"{one.what} {one.fix}".strip() for one in err.mistakes)
        return (Gap(reason=f"Finished Workloads are not remembered: {reason}", where="Kueue"),)
    if seen is None:
        return ()
    write_finished(ledger, finished_work(seen))
    write_starts(ledger, started_work(seen))
    return tuple(one for one in seen.gaps if one.where.startswith("workloads "))
