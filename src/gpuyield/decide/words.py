"""Small pieces of the sentences: counts, money, GPUs, lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuyield.decide.money import flavor_of_resource
from gpuyield.units import Money

LISTED = 3


def counted(number: int, noun: str) -> str:
    """`1 job`, `4 jobs`, `1,204 jobs`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def gpus(number: int, resource: str) -> str:
    """`1 GPU`, `4 h100 GPUs`."""
    flavor = flavor_of_resource(resource)
    return counted(number, "GPU" if flavor == "gpu" else f"{flavor} GPU")


def gpus_by_flavor(found: Mapping[str, int]) -> str:
    """`4 h100 and 2 a100 GPUs`; `no GPU`."""
    listed = [(flavor, number) for flavor, number in sorted(found.items()) if number]
    if not listed:
        return "no GPU"
    return " and ".join(gpus(number, flavor) for flavor, number in listed)


def named(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c and 9 more`."""
    shown = list(names[:LISTED])
    if len(names) > LISTED:
        return f"{', '.join(shown)} and {len(names) - LISTED} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def money(amount: Money) -> str:
    """`7,270.80 EUR`, without a sign."""
    return str(Money(abs(amount.amount), amount.currency))


def rate(gpu_hour: Money) -> str:
    """`2.49`, `0.873251`, `100.00`: two decimals at least, no zeros beyond them."""
    whole, _, rest = format(gpu_hour.amount.normalize(), "f").partition(".")
    return f"{whole}.{rest.ljust(2, '0')}"


def clause(text: str) -> str:
    """A sentence whose first letter is large."""
    return text[:1].upper() + text[1:]
