"""Where every GPU-hour of a window went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

from gpuyield.account import summarise
from gpuyield.cost.document import printed_money
from gpuyield.model.waterfall import Account, GpuClass, Waterfall
from gpuyield.report.answer import Answer
from gpuyield.report.screens.account import account_answer as answer_of
from gpuyield.steps.cost import costed
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.setting import chosen_window, keys, read_setting
from gpuyield.units import Money


def account_answer(
    *, file: Path, ledger_root: Path, window: str | None, begin: str | None, end: str | None, by: str | None
) -> Answer:
    """The answer of `gpuyield account`."""
    setting = read_setting(file, ledger_root)
    evidence = gather_chosen(setting, chosen_window(setting, window=window, begin=begin, end=end))
    return answer_of(accounted(evidence, by=keys(by)), zone=setting.zone, judged=evidence.judged is not None)


def accounted(evidence: Evidence, *, by: tuple[str, ...] = ()) -> Account:
    """The account of the evidence, with all its gaps and, where prices are known, the money of each leaf."""
    found = summarise(evidence.accounting, by=by)
    cost = costed(evidence, by=by)
    currency = cost.currency
    if currency is None:
        return replace(found, gaps=evidence.gaps)
    (_, total), *rows = printed_money(cost)
    money = {tuple(key.get(name) for name in by): by_class for key, by_class in rows}
    return replace(
        found,
        waterfall=_priced(found.waterfall, total, currency),
        rows=tuple(
            replace(row, waterfall=_priced(row.waterfall, money.get(tuple(row.key[name] for name in by), {}), currency))
            for row in found.rows
        ),
        gaps=evidence.gaps,
    )


def _priced(waterfall: Waterfall, money: Mapping[GpuClass, Decimal | None], currency: str) -> Waterfall:
    """The waterfall with its money; a class without GPU time costs nothing, one without a price stays unknown."""
    leaves = []
    for leaf in waterfall.leaves:
        amount = money.get(leaf.gpu_class, None if leaf.gpu_ms else Decimal("0.00"))
        leaves.append(leaf if amount is None else replace(leaf, money=Money(amount, currency)))
    return Waterfall(leaves=tuple(leaves))
