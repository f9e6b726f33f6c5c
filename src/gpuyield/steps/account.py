"""Where every GPU-hour of a window went."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuyield.account import summarise
from gpuyield.model.waterfall import Account
from gpuyield.report.answer import Answer
from gpuyield.report.screens.account import account_answer as answer_of
from gpuyield.steps.evidence import Evidence, gather
from gpuyield.steps.setting import chosen_window, read_setting


def account_answer(
    *, file: Path, ledger_root: Path, window: str | None, begin: str | None, end: str | None, by: str | None
) -> Answer:
    """The answer of `gpuyield account`."""
    setting = read_setting(file, ledger_root)
    evidence = gather(setting, chosen_window(setting, window=window, begin=begin, end=end))
    return answer_of(accounted(evidence, by=keys(by)), zone=setting.zone, judged=evidence.judged is not None)


def accounted(evidence: Evidence, *, by: tuple[str, ...] = ()) -> Account:
    """The account of the evidence, with all its gaps."""
    return replace(summarise(evidence.accounting, by=by), gaps=evidence.gaps)


def keys(by: str | None) -> tuple[str, ...]:
    """`team,hour` as keys."""
    return tuple(part.strip() for part in by.split(",") if part.strip()) if by else ()
