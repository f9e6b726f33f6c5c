"""Charges out of a bill in FOCUS, as CSV: one charge a row, an amount for each price basis.

Every charge of the files counts, whatever it is for: whoever names a bill decides what of it is about GPUs. A file is
taken whole or not at all. Only the columns listed here are read.

Source: FOCUS 1.0 to 1.3 (`BilledCost`, `EffectiveCost`, `ListCost`, `ContractedCost`, `ChargePeriodStart`,
`ChargePeriodEnd`, `BillingCurrency`).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from fractions import Fraction

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.cost import Charge
from gpuyield.model.declaration import PriceBasis
from gpuyield.units import Window, parse_instant

AMOUNTS: Mapping[PriceBasis, str] = {
    PriceBasis.LIST: "ListCost",
    PriceBasis.CONTRACTED: "ContractedCost",
    PriceBasis.EFFECTIVE: "EffectiveCost",
    PriceBasis.BILLED: "BilledCost",
}
_BEGIN, _END, _CURRENCY = "ChargePeriodStart", "ChargePeriodEnd", "BillingCurrency"
_NEEDED = (*AMOUNTS.values(), _BEGIN, _END, _CURRENCY)
_MOST_MISTAKES = 100
_LONGEST = 40
_LARGEST = 15
_FINEST = 30


def read_charges(lines: Iterable[str], *, file: str) -> tuple[Charge, ...]:
    """The charges of a CSV file with a header.

    Raises:
        DeclarationError: It is no such file, or rows of it are wrong; all mistakes at once, up to 100.
    """
    rows = csv.reader(lines, strict=True)
    found: list[Charge] = []
    mistakes: list[Mistake] = []
    try:
        columns = _header(next(rows, []), file)
        for cells in rows:
            if not cells:
                continue
            try:
                found.append(_charge(cells, columns))
            except DeclarationError as err:
                one = err.mistakes[0]
                mistakes.append(Mistake(what=one.what, where=f"{file}:{rows.line_num}", fix=one.fix))
                if len(mistakes) == _MOST_MISTAKES:
                    break
    except (csv.Error, UnicodeError) as err:
        raise DeclarationError(
            f"not CSV: {err}.", where=f"{file}:{rows.line_num}", fix="Export the bill as FOCUS CSV in UTF-8."
        ) from err
    if mistakes:
        raise DeclarationError.of(mistakes)
    return tuple(found)


def charged_in(charges: Iterable[Charge], window: Window, basis: PriceBasis) -> Iterator[tuple[Charge, Fraction]]:
    """Charges that meet a window, and what of their amount falls into it: spread evenly over their period."""
    for one in charges:
        here = one.window.cut(window)
        if here:
            yield one, one.amounts[basis] * Fraction(here.length_ms, one.window.length_ms)


def _header(names: list[str], file: str) -> dict[str, int]:
    columns = {name.strip().removeprefix("\ufeff"): at for at, name in enumerate(names)}
    missing = [name for name in _NEEDED if name not in columns]
    if missing:
        raise DeclarationError(
            f"no FOCUS bill: column {', '.join(missing)} is missing.",
            where=f"{file}:1",
            fix="Export the bill as FOCUS CSV, with its header.",
        )
    return {name: columns[name] for name in _NEEDED}


def _charge(cells: list[str], columns: Mapping[str, int]) -> Charge:
    if len(cells) <= max(columns.values()):
        raise DeclarationError("the row is cut off.", fix="Export the file again.")
    begin, end = (parse_instant(cells[columns[name]]) for name in (_BEGIN, _END))
    if end <= begin:
        raise DeclarationError(f"{_END} is not after {_BEGIN}.", fix="Export the file again.")
    currency = cells[columns[_CURRENCY]].strip().upper()
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha()):
        raise DeclarationError(f'{_CURRENCY} "{currency[:_LONGEST]}" is no currency.', fix="Write a code such as EUR.")
    amounts = {basis: _amount(cells[columns[name]], name) for basis, name in AMOUNTS.items()}
    return Charge(window=Window(begin, end), amounts=amounts, currency=currency)


def _amount(text: str, name: str) -> Fraction:
    try:
        amount = Decimal(text.strip())
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite():
        raise DeclarationError(f'{name} "{text[:_LONGEST]}" is no amount.', fix="Write a number such as 12.34.")
    if amount and not -_FINEST <= amount.adjusted() < _LARGEST:
        raise DeclarationError(f'{name} "{text[:_LONGEST]}" is no amount of a bill.', fix="Check its exponent.")
    return Fraction(amount)
