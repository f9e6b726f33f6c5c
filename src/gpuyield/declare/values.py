"""Single values as people write them: numbers, shares, durations, times, names. One grammar for all files.

Each function takes the text and a `label` for the message, and raises a DeclarationError that offers the right
spelling; the caller knows where the text stands.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, tzinfo
from decimal import Decimal
from functools import lru_cache
from urllib.parse import urlsplit

from gpuyield.declare.tree import shown
from gpuyield.errors import DeclarationError
from gpuyield.units import DAY_MS, instant_ms, local_instant, parse_duration, parse_instant, parse_zone

NUMBER = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,2})?"
CURRENCY = r"[A-Z]{3}"
_NUMBER = re.compile(NUMBER, re.ASCII)
_ANY_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
"""A number of any size; `NUMBER` is one whose exponent has two digits at most."""
_OCTAL = re.compile(r"[+-]?0\d+", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LONGEST = 64
_LONGEST_TEXT = 1024
_LONGEST_MS = 100 * 366 * DAY_MS
_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "EURO": "EUR", "EUROS": "EUR", "DOLLAR": "USD"}


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`Did you mean "..."?`, or all that is known where nothing is near."""
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(word.lower(), [name.lower() for name in names], n=1, cutoff=0.6)
    if near:
        return f'Did you mean "{next(name for name in names if name.lower() == near[0])}"?'
    if not names:
        return "There is none."
    return f"Known: {', '.join(names[:12])}{f' and {len(names) - 12:,} more' if len(names) > 12 else ''}."


def parse_text(text: str, *, label: str) -> str:
    """A name or path: not empty, one line."""
    if not text.strip():
        raise DeclarationError(f"{label} is empty.", fix="Write a name, or leave the key out.")
    if len(text) > _LONGEST_TEXT:
        raise DeclarationError(f"{label} has {len(text)} characters.", fix=f"At most {_LONGEST_TEXT}.")
    if not text.isprintable():
        raise DeclarationError(f"{label} has a line break or control character in it.", fix="Write it on one line.")
    return text


def parse_number(
    text: str,
    *,
    label: str,
    at_least: int | None = None,
    above: int | None = None,
    at_most: int | None = None,
) -> Decimal:
    """An exact decimal between these bounds."""
    stripped = text.strip()
    if len(stripped) > _LONGEST or not _NUMBER.fullmatch(stripped):
        if _ANY_NUMBER.fullmatch(stripped):
            low = at_least if at_least is not None else above if above is not None else "-1e99"
            fix = f"Write a number from {low} to {'1e99' if at_most is None else at_most}, its exponent from -99 to 99."
            raise DeclarationError(f"{label} {shown(stripped)} is out of range.", fix=fix)
        raise DeclarationError(f'{label} "{shown(text)}" is not a number.', fix=_right_number(stripped))
    if _OCTAL.fullmatch(stripped):
        raise DeclarationError(
            f"{label} {stripped} starts with 0, which some read as octal.", fix=f"Write {int(stripped)}."
        )
    number = Decimal(stripped)
    if at_least is not None and number < at_least:
        raise DeclarationError(f"{label} {stripped} is below {at_least}.", fix=f"Write {at_least} or more.")
    if above is not None and number <= above:
        raise DeclarationError(f"{label} {stripped} is not above {above}.", fix=f"Write a number above {above}.")
    if at_most is not None and number > at_most:
        raise DeclarationError(f"{label} {stripped} is above {at_most:,}.", fix=f"Write {at_most} or less.")
    return number


def parse_count(text: str, *, label: str, at_least: int = 0, at_most: int = 1_000_000_000, of_parts: str = "") -> int:
    """A whole number between these bounds; `of_parts` is more advice for one that is not whole."""
    number = parse_number(text, label=label, at_least=at_least, at_most=at_most)
    if number != number.to_integral_value():
        below = math.floor(number)
        fix = f"Write {below} or {below + 1}." if at_least <= below else f"Write {below + 1}."
        raise DeclarationError(f"{label} {shown(text)} is not a whole number.", fix=f"{fix} {of_parts}".rstrip())
    return int(number)


def parse_ratio(text: str, *, label: str) -> Decimal:
    """A ratio 0..1; a percentage is refused with the ratio it means."""
    percent = re.fullmatch(rf"\s*({NUMBER})\s*%\s*", text, re.ASCII) if len(text) <= _LONGEST else None
    if percent:
        raise DeclarationError(f'{label} "{text}" is not a ratio.', fix=f"Write {_as_ratio(Decimal(percent[1]))}.")
    number = parse_number(text, label=label, at_least=0)
    if number > 1:
        fix = f"Write {_as_ratio(number)}." if number <= 100 else "Write a ratio from 0 to 1."
        raise DeclarationError(f"{label} {text.strip()} is above 1.", fix=fix)
    return number


def parse_length(text: str, *, label: str, zero: bool = False) -> int:
    """Milliseconds of a duration with its unit, above 0 (or from 0 on), at most a century."""
    exact = _exact_ms(text, label=label, zero=zero)
    rounded = parse_duration(text)
    if exact != rounded:
        raise DeclarationError(f'{label} "{text}" is finer than a millisecond.', fix=f"Write {rounded or 1}ms.")
    return rounded


def parse_latency_us(text: str, *, label: str) -> int:
    """Microseconds of a latency limit such as `800ms` or `12.5ms`, above 0."""
    exact_us = _exact_ms(text, label=label, zero=False) * 1000
    if exact_us != exact_us.to_integral_value():
        raise DeclarationError(f'{label} "{text}" is finer than a microsecond.', fix="Write at most 3 decimals of ms.")
    return int(exact_us)


def parse_time(text: str, *, label: str, zone: tzinfo) -> int:
    """Epoch milliseconds of an RFC 3339 time, or of a pure date's midnight in `zone`."""
    stripped = text.strip()
    if len(stripped) > _LONGEST:
        raise DeclarationError(f'{label} "{shown(text)}" is not a time.', fix="Write 2026-12-01T06:00:00Z.")
    if _DATE.fullmatch(stripped):
        try:
            day = date.fromisoformat(stripped)
        except ValueError as err:
            raise DeclarationError(f'{label} "{stripped}" is not a date.', fix="Write 2026-12-01.") from err
        _check_year(day.year, text, label)
        return local_instant(day, time(0), zone)
    try:
        at_ms = parse_instant(stripped)
    except DeclarationError as err:
        mistake = err.mistakes[0]
        raise DeclarationError(f"{label} {mistake.what}", fix=mistake.fix) from err
    _check_year(int(stripped[:4]), text, label)
    return at_ms


def parse_zone_name(text: str) -> str:
    """The name of an IANA zone."""
    if len(text) > _LONGEST or not re.fullmatch(r"[A-Za-z0-9_+\-]+(/[A-Za-z0-9_+\-]+)*", text, re.ASCII):
        raise DeclarationError(
            f'"{shown(text)}" is not a time zone.', fix="Use an IANA name such as Europe/Berlin or UTC."
        )
    parse_zone(text)
    return text


def parse_currency(text: str, *, label: str) -> str:
    """A currency code in the shape of ISO 4217."""
    if re.fullmatch(CURRENCY, text, re.ASCII):
        return text
    upper = text.strip().upper()
    code = _SYMBOLS.get(upper, upper)
    fix = f"Write {code}." if re.fullmatch(CURRENCY, code, re.ASCII) else "Write an ISO 4217 code such as EUR."
    raise DeclarationError(f'{label} "{shown(text)}" is not a currency code.', fix=fix)


def parse_url(text: str, *, label: str) -> str:
    """An http or https URL without credentials, query or fragment; a secret in it is never repeated."""
    example = "Write http://host:port or https://host."
    try:
        parts = urlsplit(text)
        host, _port = parts.hostname, parts.port
    except ValueError as err:
        raise DeclarationError(f"{label} is not a URL.", fix=example) from err
    if "@" in parts.netloc:
        raise DeclarationError(f"{label} has a user name or password in it.", fix="Write token_file or headers_file.")
    if parts.query or parts.fragment:
        raise DeclarationError(f"{label} has a query or fragment in it.", fix="Write the base address only.")
    if parts.scheme not in ("http", "https") or not host or not text.isascii() or re.search(r"\s", text):
        raise DeclarationError(f'{label} "{shown(text)}" is not an http URL.', fix=example)
    return text.rstrip("/")


def parse_service(text: str, *, label: str) -> str:
    """`namespace/name:port` of a Kubernetes service."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*:[a-z0-9-]{1,15}", text, re.ASCII):
        raise DeclarationError(
            f'{label} "{shown(text)}" is not namespace/name:port.', fix="Write monitoring/prometheus-operated:9090."
        )
    return text


def parse_choice(text: str, *, label: str, choices: Iterable[str]) -> str:
    """One of these words."""
    known = list(choices)
    if text not in known:
        raise DeclarationError(f'{label} "{shown(text)}" is not known.', fix=did_you_mean(text, known))
    return text


@lru_cache(maxsize=1024)
def _exact_ms(text: str, *, label: str, zero: bool) -> Decimal:
    if len(text) > _LONGEST:
        raise DeclarationError(f'{label} "{shown(text)}" is not a duration.', fix="Write 800ms, 90s, 2h, 3h30m or 14d.")
    if re.fullmatch(r"\s*\d+(\.\d+)?\s*", text, re.ASCII):
        bare = text.strip()
        raise DeclarationError(f'{label} "{bare}" has no unit.', fix=f"Write {bare}ms, {bare}s, {bare}m or {bare}h.")
    parse_duration(text)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|w|d|h|m|s)", text.replace(" ", ""), re.ASCII)
    total = sum((Decimal(number) * parse_duration(f"1{unit}") for number, unit in parts), Decimal(0))
    if re.search(r"\d\s+[\d.]", text):
        raise DeclarationError(f'{label} "{shown(text)}" is not a duration.', fix="Write no blank within a number.")
    if total > _LONGEST_MS:
        raise DeclarationError(f'{label} "{shown(text)}" is longer than a century.', fix="Write a shorter one.")
    if total == 0 and not zero:
        raise DeclarationError(f"{label} is 0.", fix="Write a duration above 0, such as 5m.")
    return total


def _check_year(year: int, text: str, label: str) -> None:
    if not 1970 <= year <= 2999:
        raise DeclarationError(f'{label} "{shown(text)}" is outside the years 1970 to 2999.', fix="Check the year.")


def _as_ratio(percent: Decimal) -> str:
    return f"{(percent / 100).normalize():f}"


def _right_number(text: str) -> str:
    without = text.replace("_", "").replace(",", "")
    if len(text) <= _LONGEST and without != text and _NUMBER.fullmatch(without):
        return f"Write {without}."
    return "Write a plain number such as 8."


def rfc3339(moment: datetime) -> str:
    """An aware datetime as text in UTC."""
    instant_ms(moment)
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
