"""The fields of an outcome or verdict line: each reader takes a JSON value and returns what may be stored.

An allow-list: what is not named here is never looked at, let alone stored. A reader raises `Unfit` with what is
wrong and how to write it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar  # a JSON value has no narrower type than Any

from gpuyield.errors import DeclarationError
from gpuyield.units import parse_instant

Reader = Callable[[Any], Any]
Word = TypeVar("Word", bound=StrEnum)

NAME_LENGTH = 256
_INT64 = 2**63 - 1
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_WORD = re.compile(r"[\w.-]{1,40}")
_TIME_LIKE = re.compile(r"[0-9TtZz:.,+/ -]{1,40}")
_LABEL = re.compile(r"[\w.:/+@-]{1,64}")
# 2000-01-01 to 2200-01-01: a time outside is another unit of the same number.
_FIRST_US, _LAST_US = 946_684_800_000_000, 7_258_118_400_000_000


class Unfit(Exception):
    """A value that a field cannot take: what is wrong, and how to write it."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


def identity(value: Any) -> str:
    """An opaque id, or a name that is a key: whole, or refused (a cut id could be another's)."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    text = name(value)
    if not text:
        raise Unfit("is empty", "Give the stable id of the unit of work.")
    if isinstance(value, str) and len(_CONTROL.sub("", value).strip()) > NAME_LENGTH:
        raise Unfit(f"is longer than {NAME_LENGTH} characters", "Use a short opaque id, never the content itself.")
    return text


def name(value: Any) -> str:
    """A name without control characters, cut to 256 characters."""
    if not isinstance(value, str):
        raise Unfit(f"is {_kind(value)}", "Write it as a string.")
    # A lone surrogate cannot be stored as UTF-8.
    return _CONTROL.sub("", value).strip()[:NAME_LENGTH].encode("utf-8", "replace").decode()


def label(value: Any) -> str:
    """A word of few kinds; what reads like free text becomes `other`, so that no text is ever stored."""
    text = str(value).lower() if isinstance(value, bool) else name(value)
    return text if not text or _LABEL.fullmatch(text) else "other"


def instant_us(value: Any) -> int:
    """Epoch microseconds of an RFC 3339 time, or of integer epoch microseconds."""
    if isinstance(value, str):
        try:
            parse_instant(value)
        except DeclarationError as err:
            # Only what can be a time is shown: anything else may be content.
            reason = f": {err.mistakes[0].what.removesuffix('.')}" if _TIME_LIKE.fullmatch(value) else ""
            raise Unfit(
                f"is no time{reason}", err.mistakes[0].fix if reason else "Write 2026-12-01T06:00:00Z."
            ) from err
        moment = datetime.fromisoformat(value.strip().upper().replace(" ", "T", 1))
        found = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    else:
        found = whole(value)
    if not _FIRST_US <= found < _LAST_US:
        raise Unfit(f"{found} is not in the years 2000 to 2199 as epoch microseconds", _right_unit(found))
    return found


def _right_unit(found: int) -> str:
    for factor, word in ((1_000, "milliseconds"), (1_000_000, "seconds")):
        if _FIRST_US <= found * factor < _LAST_US:
            return f"That looks like {word}: write {found * factor}, or 2026-12-01T06:00:00Z."
    if _FIRST_US <= found // 1_000 < _LAST_US:
        return f"That looks like nanoseconds: write {found // 1_000}, or 2026-12-01T06:00:00Z."
    return "Write 2026-12-01T06:00:00Z, or integer microseconds since 1970."


def whole(value: Any) -> int:
    """An integer that fits in 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise Unfit(f"is {_kind(value)}", "Write a whole number.")
    if abs(value) > _INT64:
        raise Unfit("does not fit in 64 bits", "Write a smaller number.")
    return value


def count(value: Any) -> int:
    """A whole number >= 0."""
    found = whole(value)
    if found < 0:
        raise Unfit(f"{found} is negative", "Write a number >= 0, or leave it out when it is not known.")
    return found


def ordinal(value: Any) -> int:
    """A whole number >= 1."""
    found = whole(value)
    if found < 1:
        raise Unfit(f"{found} is below 1", "Attempts count from 1.")
    return found


def real(value: Any) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit(f"is {_kind(value)}", "Write a number.")
    try:
        found = float(value)
    except OverflowError as err:
        raise Unfit("is too large", "Write a finite number.") from err
    if not math.isfinite(found):
        raise Unfit("is not finite", "Write a finite number, or leave it out when it is not known.")
    return found


def positive(value: Any) -> float:
    """A finite number > 0."""
    found = real(value)
    if found <= 0:
        raise Unfit(f"{found:g} is not positive", "A weight is a number > 0.")
    return found


def claim(value: Any) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        raise Unfit(f"is {_kind(value)}", "Write true or false.")
    return value


def word_of(words: type[Word]) -> Callable[[Any], Word]:
    """A reader of one of these words."""

    def read(value: Any) -> Word:
        listed = ", ".join(words)
        if not isinstance(value, str):
            raise Unfit(f"is {_kind(value)}", f"Write one of {listed}.")
        try:
            return words(value)
        except ValueError as err:
            # Only what can be a word is shown: anything else may be content.
            shown = f'"{value}"' if _WORD.fullmatch(value) else "holds a text that"
            raise Unfit(f"{shown} is not known", f"Write one of {listed}.") from err

    return read


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a boolean", int: "a number", float: "a number with a fraction", str: "a string", list: "a list"}
    return kinds.get(type(value), "an object")
