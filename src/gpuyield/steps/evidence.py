"""What the ledger says of a window, judged and priced: the ground that account, queue, cost and decide share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuyield.account import Accounting, observe, sort_out
from gpuyield.cost.prices import PriceBook, price_book
from gpuyield.cost.sources import node_costs
from gpuyield.ledger.tables import COVERAGE, OUTCOMES, PRICES, RUNS
from gpuyield.model.cost import Charge
from gpuyield.model.declaration import PriceBasis
from gpuyield.model.evidence import Gap
from gpuyield.outcomes.derive import Judged, judge
from gpuyield.outcomes.policy import judging_of
from gpuyield.outcomes.store import read_outcomes
from gpuyield.report.tables import format_span
from gpuyield.steps.belonging import Labels
from gpuyield.steps.bill import declared_charges
from gpuyield.steps.promises import Promises, read_promises
from gpuyield.steps.setting import Chosen, Setting
from gpuyield.units import DAY_MS, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A window accounted. `judged` is None where no outcome was ever imported.

    `charges` are those of the declared bill (None: none is declared). `lacks` says what the ledger lacks of the window
    that was asked for; `gaps` has that too.
    """

    setting: Setting
    window: Window
    accounting: Accounting
    promises: Promises
    labels: Labels
    judged: Judged | None
    book: PriceBook
    gaps: tuple[Gap, ...]
    charges: tuple[Charge, ...] | None = None
    lacks: tuple[Gap, ...] = ()


def gather_chosen(setting: Setting, chosen: Chosen, *, basis: PriceBasis | None = None) -> Evidence:
    """The evidence of a window asked for; what the ledger lacks of it is a gap."""
    found = gather(setting, chosen.window, basis=basis)
    missing = chosen.asked.length_ms - chosen.window.length_ms
    if missing <= setting.declaration.rules.gap_limit_ms:
        return found
    reason = (
        f"Asked for {format_span(chosen.asked.length_ms)}, and the ledger holds {format_span(chosen.window.length_ms)} "
        "of it: every figure is of what it holds."
    )
    gap = Gap(reason=reason, where="window", window=chosen.asked)
    return replace(found, gaps=(gap, *found.gaps), lacks=(gap,))


def gather(setting: Setting, window: Window, *, basis: PriceBasis | None = None) -> Evidence:
    """Read and judge the whole window once."""
    declared = setting.declaration
    charges = declared_charges(declared, folder=setting.folder)
    book = _book(setting, window, basis, charges or ())
    seen = observe(setting.ledger, window=window, rules=declared.rules, teams=declared.teams)
    around = set(Window(window.from_ms - DAY_MS, window.to_ms).days())
    labels = Labels.read(setting.ledger, [day for day in setting.ledger.days(RUNS) if day in around])
    # Deadlines of jobs decide whether an outcome is late, and come from the same ledger.
    promises = read_promises(seen, declared, labels)
    judged = _judged(setting, window, promises)
    accounting = sort_out(seen, judged=judged.spans() if judged else (), cuts=book.edges(window))
    accounting = with_families(accounting, promises)
    gaps = (
        *_source_gaps(setting, window),
        *accounting.gaps,
        *promises.gaps,
        *(judged.gaps() if judged else ()),
    )
    return Evidence(
        setting=setting,
        window=window,
        accounting=accounting,
        promises=promises,
        labels=labels,
        judged=judged,
        book=book,
        gaps=gaps,
        charges=charges,
    )


def with_families(accounting: Accounting, promises: Promises) -> Accounting:
    """The same, with the declared batch family of each workload that belongs to one."""
    families = {(namespace, one.workload): one.family for (namespace, _), one in promises.jobs.items() if one.family}
    owners = tuple(
        replace(owner, family=families.get((owner.namespace, owner.workload))) for owner in accounting.cells.owners
    )
    return replace(accounting, cells=replace(accounting.cells, owners=owners))


def _judged(setting: Setting, window: Window, promises: Promises) -> Judged | None:
    if not setting.ledger.days(OUTCOMES):
        return None
    outcomes, verdicts = read_outcomes(setting.ledger, window)
    deadlines: dict[tuple[str, str], int] = {}
    for key, one in promises.jobs.items():
        if one.deadline_ms is not None:
            deadlines[key] = one.deadline_ms
    return judge(outcomes, verdicts, judging_of(setting.declaration, deadlines))


def _book(setting: Setting, window: Window, basis: PriceBasis | None, charges: Sequence[Charge]) -> PriceBook:
    declared = setting.declaration
    days = set(Window(window.from_ms - DAY_MS, window.to_ms).days())
    rows = setting.ledger.read(PRICES, days=[day for day in setting.ledger.days(PRICES) if day in days])
    book = price_book(
        declared.prices,
        node_costs({name: values.tolist() for name, values in rows.items()}),
        currency=declared.currency,
        rates=declared.rates,
        rate=declared.sharing.rate,
        basis=basis,
        window=window,
    )
    billed = {one.currency for one in charges}
    return replace(book, currency=billed.pop()) if book.currency is None and len(billed) == 1 else book


def _source_gaps(setting: Setting, window: Window) -> tuple[Gap, ...]:
    from gpuyield.collect.days import coverage
    from gpuyield.collect.gaps import gaps_of

    days = [day for day in setting.ledger.days(COVERAGE) if day in set(window.days())]
    read = coverage(setting.ledger, "prometheus", days)
    end = max((one.window.to_ms for one in read), default=window.to_ms)
    return tuple(gaps_of(window, read, end_ms=end))
