"""Deadlines as people write them, in YAML, job files and annotations alike.

`2026-12-01T06:00:00Z` | `2026-12-01` (midnight in the reporting zone) | `within 8h` (of the creation) |
`06:00 Europe/Berlin` (the next such time after the creation) | `milestone:rc-2.3`; in job files also a number:
seconds from the plan's origin. A night without that clock time takes the first instant after the gap, a doubled hour
the first one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import time, tzinfo
from decimal import ROUND_FLOOR, Decimal
from typing import assert_never

from gpuyield.declare.tree import shown
from gpuyield.declare.values import NUMBER, did_you_mean, parse_length, parse_time, parse_zone_name
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import At, Deadline, Milestone, NextClock, Within
from gpuyield.units import next_local_clock, parse_zone

_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?(?:\s+(\S+))?", re.ASCII)
_NUMBER = re.compile(NUMBER, re.ASCII)
_FORMS = "Write 2026-12-01T06:00:00Z, within 8h, 06:00 Europe/Berlin, or milestone:NAME."
_CENTURY_S = 100 * 366 * 86_400


def parse_deadline(
    text: str, *, label: str, zone: tzinfo, origin_ms: int | None = None, rounding: str = ROUND_FLOOR
) -> Deadline:
    """The deadline that a text means; pure dates are midnight in `zone`.

    With an `origin_ms` a plain number is seconds from it, rounded to a millisecond.

    Raises:
        DeclarationError: None of the forms; the fix has the right spelling.
    """
    stripped = text.strip()
    if origin_ms is not None and len(stripped) <= 64 and _NUMBER.fullmatch(stripped):
        return At(at_ms=origin_ms + seconds_to_ms(stripped, label=label, rounding=rounding))
    if re.match(r"within\b", stripped):
        return Within(length_ms=parse_length(stripped[len("within") :].strip(), label=label))
    if stripped.startswith("milestone:"):
        name = stripped[len("milestone:") :].strip()
        if not name:
            raise DeclarationError(f"{label} names no milestone.", fix="Write milestone:NAME.")
        return Milestone(name=name)
    clock = _CLOCK.fullmatch(stripped)
    if clock:
        return _next_clock(clock, label=label, zone=zone)
    if not re.match(r"\d{4}-\d\d-\d\d", stripped, re.ASCII):
        seconds = "" if origin_ms is None else " Or seconds from the origin: 7200."
        raise DeclarationError(f'{label} "{shown(text)}" is not a deadline.', fix=f"{_FORMS}{seconds}")
    return At(at_ms=parse_time(stripped, label=label, zone=zone))


def deadline_ms(deadline: Deadline, *, created_ms: int, milestones: Mapping[str, int]) -> int:
    """Epoch milliseconds of a deadline of something created at `created_ms`.

    Raises:
        DeclarationError: A milestone that nobody declared.
    """
    match deadline:
        case At(at_ms=at_ms):
            return at_ms
        case Within(length_ms=length_ms):
            return created_ms + length_ms
        case NextClock(clock=clock, zone=zone):
            return next_local_clock(created_ms, clock, parse_zone(zone))
        case Milestone(name=name):
            check_milestone(name, milestones)
            return milestones[name]
        case _:
            assert_never(deadline)


def check_milestone(name: str, milestones: Mapping[str, int]) -> None:
    """Nothing, if somebody declared this milestone.

    Raises:
        DeclarationError: Nobody did.
    """
    if name not in milestones:
        fix = did_you_mean(name, milestones) if milestones else f"Add it: milestones: {{{shown(name)}: 2026-12-18}}."
        raise DeclarationError(f'milestone "{shown(name)}" is not declared.', fix=fix)


def seconds_to_ms(text: str, *, label: str, rounding: str = ROUND_FLOOR) -> int:
    """Whole milliseconds of a number of seconds; may be negative, at most a century.

    Raises:
        DeclarationError: No number, or out of bounds.
    """
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        raise DeclarationError(f'{label} "{shown(text)}" is not a number of seconds.', fix="Write 7200 for 2 h.")
    seconds = Decimal(text)
    if abs(seconds) > _CENTURY_S:
        raise DeclarationError(
            f"{label} {shown(text)} s is longer than a century.", fix="Give seconds from the origin."
        )
    return int((seconds * 1000).to_integral_value(rounding))


def _next_clock(found: re.Match[str], *, label: str, zone: tzinfo) -> NextClock:
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    spelled = f"{hour:02d}:{minute:02d}" + (f":{second:02d}" if second else "")
    if hour == 24 and minute == second == 0:
        raise DeclarationError(f"{label} 24:00 is the next day's 00:00.", fix=f"Write 00:00 {found[4] or _name(zone)}.")
    if hour > 23 or minute > 59 or second > 59:
        raise DeclarationError(f'{label} "{found[0]}" is not a clock time.', fix="Write 06:00 Europe/Berlin.")
    if found[4] is None:
        raise DeclarationError(f'{label} "{found[0]}" has no time zone.', fix=f"Write {spelled} {_name(zone)}.")
    return NextClock(clock=time(hour, minute, second), zone=parse_zone_name(found[4]))


def _name(zone: tzinfo) -> str:
    return str(zone) if "/" in str(zone) or str(zone) == "UTC" else "Europe/Berlin"
