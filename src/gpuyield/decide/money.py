"""Money of GPUs by the month, and the names of resources and flavors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from gpuyield.model.decision import HOURS_PER_MONTH, DecideInputs, GpuRate, Offer
from gpuyield.units import Money

GPU_PREFIX = "gpu/"


def flavor_of_resource(resource: str) -> str:
    """`gpu/h100` is h100; `gpu` stays `gpu`."""
    return resource.removeprefix(GPU_PREFIX)


def is_gpu(resource: str) -> bool:
    """Whether a resource counts as GPUs."""
    return resource == "gpu" or resource.startswith(GPU_PREFIX)


def rate_of(inputs: DecideInputs, flavor: str | None) -> GpuRate | None:
    """The price of a GPU-hour of a flavor; of `gpu`, the only price there is."""
    if flavor is None:
        return None
    named = inputs.prices.get(f"{GPU_PREFIX}{flavor}") or inputs.prices.get(flavor)
    if named is not None:
        return named
    return next(iter(inputs.prices.values())) if flavor == "gpu" and len(inputs.prices) == 1 else None


def offer_of(inputs: DecideInputs, resource: str) -> Offer | None:
    """The cheapest offer for a resource, else today's price as one; None where there is no figure."""
    offers = inputs.offers.get(resource, ())
    if not offers and resource == "gpu" and len(inputs.offers) == 1:
        offers = next(iter(inputs.offers.values()))
    if offers:
        return min(offers, key=lambda one: (one.gpu_hour.amount, one.lead_time_ms, one.kind))
    rate = rate_of(inputs, flavor_of_resource(resource))
    return Offer(kind="at today's price", gpu_hour=rate.gpu_hour) if rate else None


def by_month(gpus: Decimal | int, gpu_hour: Money) -> Money:
    """Money of so many GPUs held for a month of 730 hours."""
    return Money(gpus * gpu_hour.amount * HOURS_PER_MONTH, gpu_hour.currency)


def monthly(inputs: DecideInputs, gpus: Mapping[str | None, Decimal]) -> Money | None:
    """Money of GPUs by flavor for a month; None where a flavor has no price or there is nothing."""
    return total(
        [
            by_month(number, rate.gpu_hour) if (rate := rate_of(inputs, flavor)) else None
            for flavor, number in gpus.items()
            if number
        ]
    )


def total(parts: Iterable[Money | None]) -> Money | None:
    """The sum; None where a part is not known, the currencies differ, or there is nothing."""
    listed = list(parts)
    known = [one for one in listed if one is not None]
    if not known or len(known) < len(listed) or len({one.currency for one in known}) > 1:
        return None
    return sum(known[1:], known[0])
