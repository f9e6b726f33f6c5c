"""One reporting currency: amounts of another enter only by a rate with a date."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from gpuyield.errors import DeclarationError
from gpuyield.model.cost import GpuPrice
from gpuyield.model.declaration import ExchangeRate, Price
from gpuyield.units import Window, day_name


@dataclass(frozen=True, slots=True)
class Converter:
    """Turns amounts into `currency` by `rates`; a rate holds from its date until the next one of its pair."""

    currency: str | None
    rates: tuple[ExchangeRate, ...] = ()

    def factor(self, currency: str, at_ms: int, what: str) -> Fraction:
        """What one unit of a currency is worth at an instant. An amount without a currency is in ours.

        Raises:
            DeclarationError: There is no rate at that instant.
        """
        if not currency or currency == self.currency:
            return Fraction(1)
        held = [one for one in self._steps(currency) if one[0] <= at_ms]
        if not held:
            raise self._missing(currency, at_ms, what)
        return held[-1][1]

    def pieces(self, price: Price, window: Window) -> list[GpuPrice]:
        """A declared price in our currency, cut where the rate changes.

        Raises:
            DeclarationError: A part of the window has no rate.
        """
        money = price.gpu_hour
        what = f"The price of {price.flavor}"
        if not money.currency or money.currency == self.currency:
            return [_piece(price, price.from_ms, price.to_ms, Fraction(1))]
        begin = window.from_ms if price.from_ms is None else max(price.from_ms, window.from_ms)
        end = window.to_ms if price.to_ms is None else min(price.to_ms, window.to_ms)
        if begin >= end:
            return []
        changes = [at for at, _ in self._steps(money.currency) if begin < at < end]
        starts = [begin, *changes]
        return [
            _piece(price, low, high, self.factor(money.currency, low, what))
            for low, high in zip(starts, [*changes, end], strict=True)
        ]

    def _steps(self, currency: str) -> list[tuple[int, Fraction]]:
        direct = [(one.at_ms, Fraction(one.rate)) for one in self.rates if self._is(one, currency, self.currency)]
        turned = [
            (one.at_ms, 1 / Fraction(one.rate))
            for one in self.rates
            if one.rate and self._is(one, self.currency, currency)
        ]
        return sorted(direct or turned)

    @staticmethod
    def _is(rate: ExchangeRate, base: str | None, quote: str | None) -> bool:
        return rate.base == base and rate.quote == quote

    def _missing(self, currency: str, at_ms: int, what: str) -> DeclarationError:
        pair = f"{currency}/{self.currency or '...'}"
        day = day_name(at_ms)
        return DeclarationError(
            f"{what} is in {currency}, the ledger is in {self.currency or 'no currency'}, and rates has no {pair} "
            f"for {day[:7]}.",
            where="rates",
            fix=f"Add {{pair: {pair}, rate: ..., at: {day[:7]}-01, source: ...}}.",
        )


def _piece(price: Price, from_ms: int | None, to_ms: int | None, factor: Fraction) -> GpuPrice:
    return GpuPrice(
        flavor=price.flavor,
        from_ms=from_ms,
        to_ms=to_ms,
        gpu_hour=Fraction(price.gpu_hour.amount) * factor,
        source="declared",
    )
