"""What jobs are read against while the controller runs: the declaration, and how long their like took so far."""

from __future__ import annotations

from pathlib import Path

from gpuyield.collect.kueue.finished import Finished, finished_work, read_finished
from gpuyield.decide.live.claims import with_claims
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.ledger import Ledger
from gpuyield.model.kueue import ClusterSnapshot, WorkState
from gpuyield.plan.online.durations import learn
from gpuyield.steps.live import LiveHistory, past_runs
from gpuyield.steps.run_history import RunHistory
from gpuyield.steps.seen import family_name
from gpuyield.steps.setting import read_declaration


class Terms:
    """Read once; run times are learned again whenever a job has ended."""

    def __init__(self, file: Path, ledger_root: Path) -> None:
        self.declaration = read_declaration(file)
        self._remembered: tuple[Finished, ...] = (
            tuple(read_finished(Ledger(ledger_root))) if ledger_root.is_dir() else ()
        )
        self._ledger = RunHistory.in_ledger(file, ledger_root)
        self._ended: frozenset[str] | None = None
        self._history: LiveHistory | None = None

    def __call__(self, seen: ClusterSnapshot) -> LiveTerms:
        """The terms for a snapshot."""
        ended = frozenset(one.uid for one in seen.work if one.state is WorkState.FINISHED)
        if self._history is None or ended != self._ended:
            runs = past_runs((*self._remembered, *finished_work(seen)))
            self._history, self._ended = LiveHistory(learn(runs), self._ledger), ended
        return with_claims(LiveTerms(declaration=self.declaration, history=self._history, stem=family_name), seen)
