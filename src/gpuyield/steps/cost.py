"""What the GPU time of a window cost, and what a verified outcome costs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuyield.cost.compute import compute_cost
from gpuyield.model.cost import Cost
from gpuyield.model.declaration import PriceBasis
from gpuyield.report.answer import Answer
from gpuyield.report.screens.cost import cost_answer as answer_of
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.setting import chosen_window, keys, read_setting

GATE_FAILED = 10


def cost_answer(
    *,
    file: Path,
    ledger_root: Path,
    window: str | None,
    begin: str | None,
    end: str | None,
    by: str | None,
    basis: str | None,
    gate: bool,
) -> Answer:
    """The answer of `gpuyield cost`."""
    setting = read_setting(file, ledger_root)
    span = chosen_window(setting, window=window, begin=begin, end=end)
    evidence = gather_chosen(setting, span, basis=PriceBasis(basis) if basis else None)
    found = costed(evidence, by=keys(by) or ("team",))
    found = replace(found, gaps=(*evidence.lacks, *found.gaps))
    failed = gate and found.bill.is_reconciled is False
    unknown = gate and found.bill.is_reconciled is None
    return answer_of(found, zone=setting.zone, exit_code=GATE_FAILED if failed else 4 if unknown else 0)


def costed(evidence: Evidence, *, by: tuple[str, ...]) -> Cost:
    """The money of the evidence."""
    return compute_cost(
        evidence.accounting.cells,
        window=evidence.window,
        by=by,
        book=evidence.book,
        declaration=evidence.setting.declaration,
        results=evidence.judged.results if evidence.judged else None,
        charges=evidence.charges,
    )
