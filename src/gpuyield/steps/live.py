"""The live cluster with Kueue: read once, planned, and told why each job waits."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuyield.collect.kubeconfig import ACCOUNT_FOLDER
from gpuyield.collect.kueue.reading import read_objects, serves_kueue
from gpuyield.collect.kueue.snapshot import snapshot
from gpuyield.collect.probe import api_server
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.decide.live.problem import LiveProblem, live_problem
from gpuyield.model.declaration import Declaration
from gpuyield.model.duration import FamilyDuration
from gpuyield.model.kueue import ClusterSnapshot, WorkState
from gpuyield.plan.online.durations import Durations, PastRun, learn
from gpuyield.steps.run_history import RunHistory
from gpuyield.steps.seen import family_name
from gpuyield.steps.setting import read_declaration, wall_clock_ms, was_collected


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCluster:
    """A cluster as it is now, and the declaration that it was read with."""

    declaration: Declaration
    live: LiveProblem
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
    context = declared.sources.kubernetes.context if declared.sources.kubernetes else None
    server = api_server(context, environment=os.environ, home=Path.home())
    version = serves_kueue(server)
    if version is None:
        return None
    seen = snapshot(read_objects(server, version), at_ms=wall_clock_ms())
    history = _history(seen, file, ledger_root)
    terms = LiveTerms(declaration=declared, history=history, stem=family_name)
    return LiveCluster(declaration=declared, live=live_problem(seen, terms), history=history)


class _History:
    """How long a family ran: by the Workloads that ended, else by the pods that the ledger shows."""

    def __init__(self, ended: Durations, ledger: RunHistory) -> None:
        self._ended = ended
        self._ledger = ledger

    def __call__(self, family: str) -> FamilyDuration | None:
        return self._ended.of(family) or self._ledger(family)


def _history(seen: ClusterSnapshot, file: Path, ledger_root: Path) -> _History:
    return _History(learn(past_runs(seen)), RunHistory.in_ledger(file, ledger_root))


def past_runs(seen: ClusterSnapshot) -> list[PastRun]:
    """The runs of Workloads that ended well, in the order of their end."""
    ended = sorted(
        (one.finished_ms, one.id, one)
        for one in seen.work
        if one.state is WorkState.FINISHED and one.succeeded and one.finished_ms and one.admitted_ms
    )
    return [
        PastRun(family=name, run_ms=max(1, finished_ms - (one.admitted_ms or finished_ms) + one.past_run_ms))
        for finished_ms, _, one in ended
        for name in sorted({family_name(one.name), *([one.owner] if one.owner else [])})
    ]
