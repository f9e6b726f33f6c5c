"""An import that is killed at any point and run again loses nothing and doubles nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import OUTCOMES, VERDICTS
from gpuyield.outcomes.store import read_outcomes
from gpuyield.steps.outcomes import import_outcomes
from gpuyield.units import Window, day_window

DAYS = ("2026-11-27", "2026-11-28", "2026-11-29", "2026-11-30")
WINDOW = Window(day_window(DAYS[0]).from_ms, day_window(DAYS[-1]).to_ms)
KILLS_OF_ALL = (1, 2, 3, 5, 7, 9, 11, 13)


def outcome(number: int) -> dict[str, object]:
    day = DAYS[1 + number % 2]
    return {
        "outcome_id": f"job-{number}",
        "kind": "job",
        "started_at": f"{day}T01:00:00Z",
        "ended_at": f"{day}T02:00:00Z",
        "namespace": "evals",
        "workload": "nightly",
        "exec_status": "succeeded",
        "units": 1,
    }


def verdict(number: int) -> dict[str, object]:
    """Decided days after its outcome ended, or (by a clock that is wrong) before, so that it moves either way."""
    return {
        "verdict_id": f"v-{number}",
        "outcome_id": f"job-{number}",
        "check": "schema_valid",
        "evaluator_kind": "code",
        "result": "pass",
        "decided_at": f"{DAYS[0] if number % 3 else DAYS[3]}T08:00:00Z",
    }


def written(path: Path, rows: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Verdicts, and the outcomes that they wait for."""
    return (
        written(tmp_path / "verdicts.jsonl", [verdict(number) for number in range(12)]),
        written(tmp_path / "outcomes.jsonl", [outcome(number) for number in range(12)]),
    )


CHILD = """
import sys
from pathlib import Path
from gpuyield.steps.outcomes import import_outcomes
import_outcomes(paths=[Path(one) for one in sys.argv[2:]], format="jsonl", ledger_root=Path(sys.argv[1]))
"""


def _killed_after(root: Path, paths: tuple[Path, ...], files: int) -> int:
    """Kill an import as soon as its ledger has so many files more; its return code."""
    before = _files(root)
    victim = subprocess.Popen([sys.executable, "-c", CHILD, str(root), *map(str, paths)])
    while victim.poll() is None:
        if _files(root) - before >= files:
            victim.send_signal(signal.SIGKILL)
            break
    return victim.wait()


def _files(root: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(root))


def _rows(ledger: Ledger) -> tuple[int, int]:
    """Rows of outcomes and of verdicts, wherever they lie."""
    return len(ledger.read(OUTCOMES)["attempt"]), len(ledger.read(VERDICTS)["attempt"])


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(KILLS_OF_ALL[::3], id="some"),
        pytest.param(tuple(range(1, 25)), id="many", marks=pytest.mark.slow_laws),
    ],
)
def test_an_import_killed_anywhere_and_run_again_gives_the_same_ledger(
    kills: tuple[int, ...], tmp_path: Path, files: tuple[Path, Path]
) -> None:
    verdicts, outcomes = files
    whole = tmp_path / "whole"
    import_outcomes(paths=[verdicts], format="jsonl", ledger_root=whole)
    waiting = shutil.copytree(whole, tmp_path / "waiting")
    import_outcomes(paths=[outcomes], format="jsonl", ledger_root=whole)
    codes = []
    digests = set()
    rows = set()
    for number in kills:
        struck = shutil.copytree(waiting, tmp_path / f"struck-{number}")

        codes.append(_killed_after(struck, (outcomes,), number))
        import_outcomes(paths=[outcomes], format="jsonl", ledger_root=struck)

        digests.add(Ledger.existing(struck).digest())
        rows.add(_rows(Ledger.existing(struck)))

    assert -signal.SIGKILL in codes
    assert rows == {(12, 12)}
    assert digests == {Ledger.existing(whole).digest()}


def test_what_an_interrupted_import_left_is_readable_and_counts_once(tmp_path: Path, files: tuple[Path, Path]) -> None:
    verdicts, outcomes = files
    root = tmp_path / "ledger"
    import_outcomes(paths=[verdicts], format="jsonl", ledger_root=root)

    for number in (2, 6):
        _killed_after(root, (outcomes,), number)
        found, said = read_outcomes(Ledger.existing(root), WINDOW)

        assert len({one.outcome_id for one in found}) == len(found)
        assert len({(one.verdict_id, one.revision) for one in said}) == len(said)
