"""Do we need to buy, for a job file and a capacity alone: what can be said where nothing was collected yet."""

from __future__ import annotations

from decimal import Decimal
from typing import TypeVar

from gpuyield.cost.prices import PriceBook, price_book
from gpuyield.model.decision import DecideInputs, GpuRate, Offer
from gpuyield.model.declaration import Declaration
from gpuyield.model.evidence import Gap
from gpuyield.model.job import Problem, SourceFile
from gpuyield.units import Money, Window

_SIX_PLACES = Decimal("0.000001")
PLAIN = "gpu"

Listed = TypeVar("Listed")


def inputs_of_files(declared: Declaration, problem: Problem, horizon_ms: int) -> DecideInputs:
    """What a decision on a problem rests on when there is no ledger: the declaration's prices and offers."""
    at_ms = problem.origin_ms
    book = price_book(
        declared.prices, currency=declared.currency, rates=declared.rates, window=Window(at_ms, at_ms + 1)
    )
    reason = "Nothing was collected: what services hold, and which GPUs are held idle, is not known."
    return DecideInputs(
        now_ms=at_ms,
        cluster=declared.name,
        zone=declared.reporting_zone,
        horizon_ms=horizon_ms,
        problem=problem,
        prices=rates_of(book, {one.flavor for one in book.prices}, at_ms),
        offers=offers_of(declared),
        sources=sources_of(declared, problem),
        gaps=(Gap(reason=reason, where="ledger"),),
    )


def rates_of(book: PriceBook, flavors: set[str], at_ms: int) -> dict[str, GpuRate]:
    """What a GPU-hour of each flavor costs at an instant, by resource; flavors without a price are left out.

    Where one flavor alone has a price, GPUs of no stated flavor cost that.
    """
    found = {}
    for flavor in sorted(flavors):
        price = book.flavor_price(flavor, at_ms)
        if price is not None and book.currency is not None:
            amount = (Decimal(price.numerator) / Decimal(price.denominator)).quantize(_SIX_PLACES)
            named = book.price(flavor, None, at_ms)
            found[f"gpu/{flavor}"] = GpuRate(
                gpu_hour=Money(amount.normalize(), book.currency), source=named.source if named else "opencost"
            )
    return _also_plain(found)


def _also_plain(found: dict[str, Listed]) -> dict[str, Listed]:
    """With the resource `gpu` too, where there is only one flavor that it can be."""
    if len(found) == 1 and PLAIN not in found:
        return {**found, PLAIN: next(iter(found.values()))}
    return found


def offers_of(declared: Declaration) -> dict[str, tuple[Offer, ...]]:
    """What can be bought, by resource."""
    found: dict[str, tuple[Offer, ...]] = {}
    for one in declared.purchase:
        offer = Offer(kind=str(one.kind), gpu_hour=one.price, min_gpus=one.min_gpus, lead_time_ms=one.lead_time_ms)
        resource = f"gpu/{one.flavor}"
        found[resource] = (*found.get(resource, ()), offer)
    return _also_plain(found)


def sources_of(declared: Declaration, problem: Problem | None) -> tuple[SourceFile, ...]:
    """The files that a decision rests on."""
    listed = problem.sources if problem is not None else ()
    if declared.path is None or declared.sha256 is None:
        return listed
    return (*listed, SourceFile(path=declared.path, sha256=declared.sha256, rows=1))
