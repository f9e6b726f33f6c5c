"""Times, windows, durations, GPU time and money: parse, add, compare, print.

Inside, time is integer milliseconds since the Unix epoch, a span is a half-open `Window`, GPU time is integer
GPU-milliseconds and money is an exact decimal with its currency. Hours and percent exist only in what people
type and read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpuyield.errors import DeclarationError, InternalError

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000

_FIRST_YEAR, _LAST_YEAR = 1970, 2999
_YEARS = f"{_FIRST_YEAR} to {_LAST_YEAR}"
_YEAR_MS = 31_556_952_000
_LONGEST_WINDOW_MS = 3_660 * DAY_MS

_DURATION_PARTS_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|w|d|h|m|s))+")
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|w|d|h|m|s)")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:?\d\d)")


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """A half-open span `[from_ms, to_ms)` of epoch milliseconds."""

    from_ms: int
    to_ms: int

    def __post_init__(self) -> None:
        if self.to_ms < self.from_ms:
            raise DeclarationError(
                f"window ends ({format_instant(self.to_ms)}) before it starts ({format_instant(self.from_ms)}).",
                fix="Swap --from and --to.",
            )

    @property
    def length_ms(self) -> int:
        """Length in milliseconds."""
        return self.to_ms - self.from_ms

    def cut(self, other: Window) -> Window | None:
        """The part that both cover; None where they do not meet."""
        low, high = max(self.from_ms, other.from_ms), min(self.to_ms, other.to_ms)
        return Window(low, high) if low < high else None

    def days(self) -> list[str]:
        """The UTC days it touches, as `2026-11-30`."""
        if self.from_ms == self.to_ms:
            return []
        first, last = self.from_ms // DAY_MS, (self.to_ms - 1) // DAY_MS
        return [day_name(number * DAY_MS) for number in range(first, last + 1)]

    def __str__(self) -> str:
        return f"{format_instant(self.from_ms)} to {format_instant(self.to_ms)}"


def day_name(at_ms: int) -> str:
    """The UTC day of an instant, as `2026-11-30`."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).date().isoformat()


def day_window(name: str) -> Window:
    """The UTC day with this name."""
    start = int(datetime.fromisoformat(name).replace(tzinfo=UTC).timestamp()) * 1000
    return Window(start, start + DAY_MS)


def format_instant(at_ms: int) -> str:
    """RFC 3339 in UTC with `Z`; milliseconds only where there are any."""
    whole, rest = divmod(at_ms, 1000)
    text = datetime.fromtimestamp(whole, UTC).isoformat()[:19]
    return f"{text}.{rest:03d}Z" if rest else f"{text}Z"


def parse_instant(text: str) -> int:
    """Epoch milliseconds of an RFC 3339 time; a zone is required.

    Raises:
        DeclarationError: No time, or no zone.
    """
    stripped = text.strip()
    if _INSTANT.fullmatch(stripped):
        try:
            moment = datetime.fromisoformat(stripped.upper().replace(" ", "T", 1))
        except ValueError as err:
            raise DeclarationError(f'"{text}" is not a time: {err}.', fix="Write 2026-12-01T06:00:00Z.") from err
        return instant_ms(moment)
    if re.fullmatch(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?", stripped):
        day, clock = stripped[:10], stripped[11:]
        full = clock if len(clock) > 5 else f"{clock}:00"
        raise DeclarationError(f'"{text}" has no time zone.', fix=f"Write {day}T{full}Z, or {clock[:5]} Europe/Berlin.")
    raise DeclarationError(f'"{text}" is not a time.', fix="Write 2026-12-01T06:00:00Z.")


def instant_ms(moment: datetime) -> int:
    """Epoch milliseconds of an aware time, exact (no float in between)."""
    if moment.tzinfo is None:
        raise DeclarationError(f"{moment} has no time zone.", fix="Write 2026-12-01T06:00:00Z.")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


def parse_zone(name: str) -> ZoneInfo:
    """The IANA zone of this name.

    Raises:
        DeclarationError: No such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise DeclarationError(
            f'"{name}" is not a time zone.', fix="Use an IANA name such as Europe/Berlin or UTC."
        ) from err


def local_instant(day: date, clock: time, zone: tzinfo) -> int:
    """Epoch milliseconds of a local clock time on a day.

    A clock time that a night skips is the first instant after the gap; one that a night has twice is the first.
    """
    naive = datetime.combine(day, clock)
    first = naive.replace(tzinfo=zone, fold=0)
    if first.astimezone(UTC).astimezone(zone).replace(tzinfo=None) == naive:
        return instant_ms(first)
    # A skipped time: fold=0 reads it with the offset before the gap, fold=1 with the one after, so the gap's
    # end lies between the two readings; it is where the offset changes.
    low, high = sorted((instant_ms(first), instant_ms(naive.replace(tzinfo=zone, fold=1))))
    before = zone.utcoffset(datetime.fromtimestamp(low // 1000, UTC).astimezone(zone))
    low -= low % 1000
    while high - low > 1000:
        middle = (low + high) // 2000 * 1000
        same = zone.utcoffset(datetime.fromtimestamp(middle // 1000, UTC).astimezone(zone)) == before
        low, high = (middle, high) if same else (low, middle)
    return high


def next_local_clock(after_ms: int, clock: time, zone: tzinfo) -> int:
    """The first instant strictly after `after_ms` at which a clock in `zone` shows `clock`."""
    today = datetime.fromtimestamp(after_ms // 1000, UTC).astimezone(zone).date()
    for step in range(-1, 4):
        at_ms = local_instant(today + timedelta(days=step), clock, zone)
        if at_ms > after_ms:
            return at_ms
    raise InternalError(f"no {clock} within three days after {format_instant(after_ms)}.")


@lru_cache(maxsize=4096)
def parse_duration(text: str) -> int:
    """Milliseconds of a duration such as `800ms`, `2h`, `3h30m`, `14d`, `6w`; a unit is required.

    Raises:
        DeclarationError: Not such a duration.
    """
    squeezed = text.strip().replace(" ", "")
    if not _DURATION.fullmatch(squeezed):
        raise DeclarationError(f'"{text}" is not a duration.', fix=_right_duration(text))
    total = sum(
        (Decimal(number) * _DURATION_PARTS_MS[unit] for number, unit in _DURATION_PART.findall(squeezed)),
        start=Decimal(0),
    )
    return int(total.to_integral_value(ROUND_HALF_EVEN))


def _right_duration(text: str) -> str:
    found = re.fullmatch(
        r"\s*(\d+(?:\.\d+)?)\s*(msec|msecs|milliseconds?|sec|secs|seconds?|min|mins|minutes?|hours?|hrs?|days?|weeks?)\s*",
        text,
    )
    if not found:
        return "Write a number with a unit: 800ms, 90s, 2h, 3h30m, 14d."
    number, word = found.groups()
    short = next(unit for start, unit in _LONG_UNITS if word.startswith(start))
    if short == "ms":
        return f"Write {number}ms or {float(number) / 1000:g}s."
    return f"Write {number}{short}."


_LONG_UNITS = (("mil", "ms"), ("ms", "ms"), ("s", "s"), ("m", "m"), ("h", "h"), ("d", "d"), ("w", "w"))


def format_duration(length_ms: int) -> str:
    """The shortest exact spelling, largest unit first: `14d`, `3h30m`, `800ms`."""
    if length_ms < 0:
        return f"-{format_duration(-length_ms)}"
    parts = []
    for unit, size in (("d", DAY_MS), ("h", HOUR_MS), ("m", MINUTE_MS), ("s", SECOND_MS), ("ms", 1)):
        count, length_ms = divmod(length_ms, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def parse_moment(text: str, *, zone: tzinfo, where: str) -> int:
    """Epoch milliseconds of an RFC 3339 time, or of midnight in `zone` of a pure date; `where` names the option.

    Raises:
        DeclarationError: Neither, or outside the years that are accounted.
    """
    try:
        if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text.strip()):
            day = date.fromisoformat(text.strip())
            if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
                raise DeclarationError(f'"{text}" is outside the years {_YEARS}.', fix="Check the year.")
            return local_instant(day, time(0), zone)
        at_ms = parse_instant(text)
    except ValueError as err:
        raise DeclarationError(f'"{text}" is not a date: {err}.', where=where, fix="Write 2026-12-01.") from err
    except DeclarationError as err:
        one = err.mistakes[0]
        raise DeclarationError(one.what, where=where, fix=one.fix) from err
    if not _FIRST_YEAR <= 1970 + at_ms // _YEAR_MS <= _LAST_YEAR:
        raise DeclarationError(f'"{text}" is outside the years {_YEARS}.', where=where, fix="Check the year.")
    return at_ms


def parse_span(begin: str, end: str, *, zone: tzinfo) -> Window:
    """The window of `--from` and `--to`.

    Raises:
        DeclarationError: One is no time, they are not in order, or more than ten years apart.
    """
    from_ms, to_ms = parse_moment(begin, zone=zone, where="--from"), parse_moment(end, zone=zone, where="--to")
    if to_ms <= from_ms:
        raise DeclarationError("--to is not after --from.", where="--to", fix="The end is not part of the window.")
    if to_ms - from_ms > _LONGEST_WINDOW_MS:
        raise DeclarationError("the window is longer than ten years.", where="--from", fix="Ask for a shorter one.")
    return Window(from_ms, to_ms)


def parse_window(text: str, *, now_ms: int, zone: tzinfo = UTC) -> Window:
    """The window of `14d` (up to now) or `2026-11` (a calendar month in `zone`).

    Raises:
        DeclarationError: Neither, longer than ten years, or outside the years that are accounted.
    """
    month = re.fullmatch(r"(\d{4})-(\d\d)", text.strip())
    if month:
        year, number = int(month[1]), int(month[2])
        if not 1 <= number <= 12:
            raise DeclarationError(f'"{text}" is not a month.', where="--window", fix="Write 2026-11.")
        if not _FIRST_YEAR <= year <= _LAST_YEAR:
            raise DeclarationError(f'"{text}" is outside the years {_YEARS}.', where="--window", fix="Check the year.")
        following = date(year + number // 12, number % 12 + 1, 1)
        midnight = time(0)
        return Window(local_instant(date(year, number, 1), midnight, zone), local_instant(following, midnight, zone))
    try:
        length_ms = parse_duration(text)
    except DeclarationError as err:
        raise DeclarationError(
            f'"{text}" is not a window.', where="--window", fix="Write 14d, 36h, or a month such as 2026-11."
        ) from err
    if not 0 < length_ms <= _LONGEST_WINDOW_MS:
        raise DeclarationError(
            f'"{text}" is {"longer than ten years" if length_ms else "no time at all"}.',
            where="--window",
            fix="Write 14d, 36h, or a month such as 2026-11.",
        )
    return Window(now_ms - length_ms, now_ms)


@dataclass(frozen=True, slots=True)
class Money:
    """An exact amount of one currency (ISO 4217); two currencies never mix."""

    amount: Decimal
    currency: str

    def __add__(self, other: Money) -> Money:
        self._same(other)
        return Money(self.amount + other.amount, self.currency)

    def __sub__(self, other: Money) -> Money:
        self._same(other)
        return Money(self.amount - other.amount, self.currency)

    def __neg__(self) -> Money:
        return Money(-self.amount, self.currency)

    def __str__(self) -> str:
        return f"{self.amount:,.2f} {self.currency}"

    def _same(self, other: Money) -> None:
        if self.currency != other.currency:
            raise DeclarationError(
                f"{other.currency} cannot be added to {self.currency}.",
                fix=f"Add {{pair: {other.currency}/{self.currency}, rate: ..., at: ..., source: ...}} under rates.",
            )


def largest_remainder(shares: Sequence[Fraction | Decimal | int], total: int) -> list[int]:
    """Whole parts of `total` in proportion to `shares`, which sum to exactly `total`.

    Ties go to the earlier share, so the result depends on nothing but the arguments. All shares 0: the total
    goes to the first.
    Source: Hamilton's method of apportionment.
    """
    if not shares:
        if total:
            raise InternalError(f"{total} cannot be split into no parts.")
        return []
    exact = [Fraction(share) for share in shares]
    whole = sum(exact)
    if whole == 0:
        return [total] + [0] * (len(exact) - 1)
    quotas = [share * total / whole for share in exact]
    parts = [quota.numerator // quota.denominator for quota in quotas]
    by_remainder = sorted(range(len(parts)), key=lambda at: (parts[at] - quotas[at], at))
    for at in by_remainder[: total - sum(parts)]:
        parts[at] += 1
    return parts


def round_parts(amounts: Sequence[Decimal], *, places: int = 2) -> list[Decimal]:
    """The amounts rounded to `places` so that they sum to the rounded sum (largest remainder)."""
    unit = Decimal(1).scaleb(-places)
    total = int(sum(amounts, Decimal(0)).quantize(unit, ROUND_HALF_EVEN).scaleb(places))
    floors = [int((amount.scaleb(places)).to_integral_value("ROUND_FLOOR")) for amount in amounts]
    rests = sorted(range(len(amounts)), key=lambda at: (floors[at] - amounts[at].scaleb(places), at))
    for at in rests[: total - sum(floors)]:
        floors[at] += 1
    return [Decimal(part).scaleb(-places) for part in floors]


def hours(window: Window) -> Iterator[Window]:
    """The UTC hours a window touches, cut to it."""
    start = window.from_ms - window.from_ms % HOUR_MS
    for at in range(start, window.to_ms, HOUR_MS):
        piece = Window(at, at + HOUR_MS).cut(window)
        if piece:
            yield piece


def gpu_hours(gpu_ms: int) -> float:
    """GPU-hours of GPU-milliseconds, for people to read."""
    return gpu_ms / HOUR_MS


def merge_windows(windows: Iterable[Window]) -> list[Window]:
    """The same time as disjoint windows in order; those that touch become one."""
    merged: list[Window] = []
    for one in sorted(windows):
        if merged and one.from_ms <= merged[-1].to_ms:
            merged[-1] = Window(merged[-1].from_ms, max(merged[-1].to_ms, one.to_ms))
        elif one.length_ms:
            merged.append(one)
    return merged
