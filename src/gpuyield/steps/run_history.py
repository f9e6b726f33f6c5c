"""Answers how long a family runs, and keeps what was answered; past runs are read when first asked, and only then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpuyield.model.duration import FamilyDuration
from gpuyield.plan.online.durations import Durations


class RunHistory:
    """How long a run of a family takes."""

    def __init__(self, read: Callable[[], Durations]) -> None:
        self._read = read
        self._known: Durations | None = None
        self._used: dict[str, FamilyDuration] = {}

    @staticmethod
    def in_ledger(file: Path, ledger_root: Path) -> RunHistory:
        """That of the ledger's default window."""

        def read() -> Durations:
            from gpuyield.steps.past_runs import durations_in

            return durations_in(file, ledger_root)

        return RunHistory(read)

    def __call__(self, family: str) -> FamilyDuration | None:
        """How long a run of the family takes; None where none has ended."""
        if self._known is None:
            self._known = self._read()
        found = self._known.of(family)
        if found is not None:
            self._used[family] = found
        return found

    def families(self) -> tuple[FamilyDuration, ...]:
        """What was answered, by name."""
        return tuple(self._used[name] for name in sorted(self._used))
