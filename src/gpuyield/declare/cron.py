"""Schedules of CronJobs: five fields, in a zone. No I/O here.

As Kubernetes does it: where both day of month and day of week are restricted (also by a step such as `*/2`), either
will do. A local time that a change of the clock leaves out does not come, one that it doubles comes twice.

Source: github.com/robfig/cron/v3 3.0.1, with which Kubernetes reads schedules; its `@every` is no schedule here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from gpuyield.errors import DeclarationError
from gpuyield.units import Window, instant_ms

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART = re.compile(r"(\*|\?|\w+)(?:-(\w+))?(?:/([0-9]+))?")
_FREE = re.compile(r"[*?](/0*1)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """The minutes at which something comes again; `any_day` and `any_weekday` say which of the two are free."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def falls_on(self, day: datetime) -> bool:
        """Whether anything comes on this day."""
        by_day, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        either = by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday
        return day.month in self.months and either


def parse_cron(text: str) -> Cron:
    """A schedule such as `30 2 * * mon-fri` or `@hourly`.

    Raises:
        DeclarationError: It is none.
    """
    fields = _NAMED.get(text.strip().lower(), text).split()
    if len(fields) != 5:
        raise DeclarationError(f'"{text[:60]}" is no schedule.', fix="Write five fields: 30 2 * * mon-fri.")
    minute, hour, day, month, weekday = fields
    return Cron(
        minutes=_values(minute, 0, 59, text),
        hours=_values(hour, 0, 23, text),
        days=_values(day, 1, 31, text),
        months=_values(month, 1, 12, text, _MONTHS, first=1),
        weekdays=_values(weekday, 0, 6, text, _DAYS),
        any_day=_is_free(day),
        any_weekday=_is_free(weekday),
    )


def comings(cron: Cron, window: Window, zone: tzinfo) -> Iterator[int]:
    """The epoch ms in a window at which it comes, in order."""
    day = datetime.fromtimestamp(window.from_ms // 1000, zone).replace(hour=0, minute=0, second=0, tzinfo=None)
    last = datetime.fromtimestamp(window.to_ms // 1000 + 1, zone).replace(tzinfo=None)
    while day <= last:
        if cron.falls_on(day):
            local = (day.replace(hour=hour, minute=minute) for hour in cron.hours for minute in cron.minutes)
            found = {at_ms for one in local for at_ms in _instants(one, zone)}
            yield from (at_ms for at_ms in sorted(found) if window.from_ms <= at_ms < window.to_ms)
        day += timedelta(days=1)


def _instants(local: datetime, zone: tzinfo) -> Iterator[int]:
    """The instants at which the clock of a zone shows this: most often one, none in a gap, two where it is set back."""
    for fold in (0, 1):
        at_ms = instant_ms(local.replace(tzinfo=zone, fold=fold))
        if datetime.fromtimestamp(at_ms // 1000, zone).replace(tzinfo=None, fold=0) == local:
            yield at_ms


def _is_free(field: str) -> bool:
    """Whether a field restricts nothing; a list does not where one of its parts does not."""
    return any(_FREE.fullmatch(part) for part in field.split(","))


def _values(
    field: str, least: int, most: int, text: str, names: tuple[str, ...] = (), *, first: int = 0
) -> frozenset[int]:
    found: set[int] = set()
    for part in field.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise _no_value(part, text)
        low, high, step = match.groups()
        begin, end = (least, most) if low in ("*", "?") else (_number(low, names, first, text),) * 2
        if high is not None:
            end = _number(high, names, first, text)
        elif step is not None:
            end = most
        stride = int(step or 1)
        if not least <= begin <= end <= most or not stride:
            raise _no_value(part, text)
        found.update(range(begin, end + 1, stride))
    return frozenset(found)


def _number(text: str, names: tuple[str, ...], first: int, schedule: str) -> int:
    if text in names:
        return names.index(text) + first
    if not text.isdecimal():
        raise _no_value(text, schedule)
    return int(text)


def _no_value(part: str, schedule: str) -> DeclarationError:
    return DeclarationError(f'"{part[:20]}" in schedule "{schedule[:60]}" is no value.', fix="Write 30 2 * * mon-fri.")
