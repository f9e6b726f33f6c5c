"""Read decoded JSON without trust: every value is asked for by type and range, and refused with its place.

A boolean is not a number, NaN and infinities are not numbers, and integers stay below 10^15 unless said otherwise, so
that no input can make the arithmetic slow.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .report import Refused

LARGEST = 10**15
_ROUNDING = 1e-6
_DECIMAL = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,2})?", re.ASCII)
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode(data: bytes, *, with_floats: bool = True) -> Any:
    """The value of JSON text; NaN, infinities, twice the same key and what is no UTF-8 are refused."""
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_constant,
            parse_float=_finite if with_floats else _no_float,
        )
    except RecursionError as err:
        raise Refused("It is nested too deeply.") from err
    except ValueError as err:
        # What Python advises against a number of thousands of digits is nothing for a reader.
        raise Refused(f"It is not JSON: {str(err).partition(';')[0]}.") from err


def record(value: Any, where: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        raise Refused(f"{where} is {_kind(value)}, not an object.")
    return value


def items(value: Any, where: str) -> list[Any]:
    """A list."""
    if not isinstance(value, list | tuple):
        raise Refused(f"{where} is {_kind(value)}, not a list.")
    return list(value)


def field(holder: dict[str, Any], name: str, where: str) -> Any:
    """A field that must be there."""
    if name not in holder:
        raise Refused(f"{where} has no `{name}`.")
    return holder[name]


def text(value: Any, where: str) -> str:
    """A string without lone surrogates."""
    if not isinstance(value, str):
        raise Refused(f"{where} is {_kind(value)}, not a string.")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as err:
            raise Refused(f"{where} is not Unicode text.") from err
    return value


def whole(value: Any, where: str, *, low: int = -LARGEST, high: int = LARGEST) -> int:
    """An integer from `low` to `high`."""
    if type(value) is not int:
        raise Refused(f"{where} is {_kind(value)}, not an integer.")
    if not low <= value <= high:
        raise Refused(f"{where} is out of range ({_short(value)}).")
    return value


def number(value: Any, where: str) -> Fraction:
    """A finite number, exactly."""
    if type(value) is int:
        return Fraction(whole(value, where))
    if type(value) is float and math.isfinite(value) and abs(value) <= LARGEST:
        return Fraction(value)
    raise Refused(f"{where} is {_kind(value)}, not a number in range.")


def decimal(value: Any, where: str) -> Fraction:
    """A decimal string, exactly."""
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise Refused(f"{where} is {_kind(value)}, not a decimal string.")
    return Fraction(int(value)) if value.isdecimal() else Fraction(value)


def choice(value: Any, where: str, choices: tuple[str, ...]) -> str:
    """One of several words."""
    if not isinstance(value, str) or value not in choices:
        raise Refused(f"{where} is none of {', '.join(choices)}.")
    return value


def instant(value: Any, where: str) -> int:
    """Epoch milliseconds of an RFC 3339 time in UTC with `Z`."""
    found = _INSTANT.fullmatch(text(value, where))
    if not found:
        raise Refused(f"{where} is not a time such as 2026-12-01T06:00:00Z.")
    try:
        since = datetime.fromisoformat(found[1]).replace(tzinfo=UTC) - _EPOCH
    except ValueError as err:
        raise Refused(f"{where} is not a time: {err}.") from err
    fraction = (found[2] or "").ljust(9, "0")
    if fraction[3:].strip("0"):
        raise Refused(f"{where} is finer than a millisecond.")
    return (since.days * 86_400 + since.seconds) * 1000 + int(fraction[:3])


def seconds_ms(value: Any, where: str) -> int:
    """Milliseconds of a number of seconds; it must be a whole number of them."""
    if type(value) is int:
        return whole(value, where) * 1000
    exact = number(value, where) * 1000
    nearest = round(exact)
    if abs(exact - nearest) > Fraction(1, 1000) and nearest / 1000 != value:
        raise Refused(f"{where} is finer than a millisecond.")
    return nearest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has the same key twice")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number")


def _no_float(digits: str) -> float:
    raise ValueError(f"{digits[:40]} is no integer")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number is out of range")
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return f"the number {_short(value)}"
    if isinstance(value, str):
        return f'the string "{value[:40]}"'.encode(errors="replace").decode()
    return "a list" if isinstance(value, list | tuple) else "an object" if isinstance(value, dict) else "something else"


def _short(value: float) -> str:
    if isinstance(value, int) and value.bit_length() > 100:
        return f"about 2^{value.bit_length()}"
    return str(value)


def check_near(holder: dict[str, Any], name: str, right: float | None, where: str) -> None:
    """Refuse a number of a document that is not this one but for rounding; None: it must be null."""
    stated = field(holder, name, where)
    if right is None:
        if stated is not None:
            raise Refused(f"{name} is not null, and cannot be known.")
    elif stated is None or abs(float(number(stated, name)) - right) > _ROUNDING * max(1.0, abs(right)):
        raise Refused(f"{name} is not {right:.9g}.")
