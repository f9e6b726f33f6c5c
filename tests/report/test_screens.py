"""Answers of commands as people read them."""

from __future__ import annotations

import pytest

from gpuyield.report.page import Figure
from gpuyield.report.screens.account import rows_table
from gpuyield.report.screens.decide import decide_answer
from gpuyield.report.screens.doctor import LEDGER, Check, Diagnosis, State, doctor_answer
from gpuyield.report.screens.report import figure_line
from gpuyield.report.sections.plan import Bar, peak, peaks
from report.samples import BERLIN, account, decision


def test_the_columns_of_a_team_add_up_to_what_it_held() -> None:
    table = rows_table(account(("team",)), judged=True, zone=BERLIN)

    parts = ("starting_gpu_ms", "idle_held_gpu_ms", "underused_gpu_ms", "unobserved_gpu_ms", "busy_gpu_ms")
    for row in table.rows:
        cells = dict(zip((column.key for column in table.columns), row, strict=True))
        assert sum(int(cells[part] or 0) for part in parts) == cells["allocated_gpu_ms"]


@pytest.mark.parametrize(
    ("figure", "line"),
    [
        (Figure(label="Busy", value="23 %", note="of capacity"), "Busy: 23 % of capacity"),
        (Figure(label="Held idle", value="9 GPU-hours", note="1 GPU now"), "Held idle: 9 GPU-hours (1 GPU now)"),
        (Figure(label="Cost", value="11.35 EUR", note="(10.32-11.35)"), "Cost: 11.35 EUR (10.32-11.35)"),
        (Figure(label="Cost", value="not known"), "Cost: not known"),
    ],
)
def test_a_figure_and_the_word_on_it_are_told_apart(figure: Figure, line: str) -> None:
    assert figure_line(figure) == line


def test_what_starting_at_once_takes_is_the_same_in_the_headline_and_in_the_figures() -> None:
    def bar(flavor: str, from_ms: int, gpus: int) -> Bar:
        return Bar(job=flavor, from_ms=from_ms, to_ms=from_ms + 10, resource=f"gpu/{flavor}", gpus=gpus)

    bars = [bar("a100", 0, 4), bar("h100", 20, 8), bar("h100", 25, 8)]

    assert (peaks(bars), peak(bars)) == (4 + 16, 16)


def test_what_the_decision_lacks_comes_before_what_nodes_lack() -> None:
    span = {"from": "2026-11-27T20:34:00Z", "to": "2026-11-27T20:46:00Z"}
    silent = [{"reason": "silent", "where": f"node-{at}", "window": span, "gpu_ms": 3_600_000} for at in range(9)]
    own = {"reason": "No job file is named.", "where": "jobs", "window": None, "gpu_ms": None}

    notes = decide_answer({**decision(), "gaps": [*silent, own]}, zone=BERLIN, path=None).notes

    told = [note for note in notes if note.startswith("gap: ")]
    assert told == [
        "gap: jobs: No job file is named.",
        *(f"gap: node-{at}: silent (27 Nov 21:34 to 27 Nov 21:46, 12 m), 1.0 GPU-hours" for at in range(3)),
        "gap: 6 more gaps: -o json lists all.",
    ]


def test_after_a_collected_ledger_the_doctor_sends_nobody_to_collect() -> None:
    collected = doctor_answer(Diagnosis(checks=[Check(what=LEDGER, found="10 d")]))
    empty = doctor_answer(Diagnosis(checks=[Check(what=LEDGER, state=State.MISSING, found="nothing")]))

    assert collected.next[0].command == "gpuyield account --by team"
    assert empty.next[0].command.startswith("gpuyield collect ")
