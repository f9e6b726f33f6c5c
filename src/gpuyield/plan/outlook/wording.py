"""Instants, amounts and names as they are said of a plan.

Clock times are local to the problem's zone; dates are said once a plan is longer than a day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import is_gpu
from gpuyield.plan.instance.quota import said_as
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.units import DAY_MS, format_duration

LISTED = 5
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True, slots=True)
class Clock:
    """Says instants (ms from the origin) as local time."""

    origin_ms: int
    zone: ZoneInfo
    dated: bool

    @staticmethod
    def of(case: Case, schedule: Schedule) -> Clock:
        """The clock of a problem; dated where its plan or its deadlines reach beyond a day."""
        tails = [tail for tail in case.windows.tails if tail is not None]
        heads = [head for head in case.windows.heads if head < 0]
        span = max([schedule.end_ms(), *tails, 0]) - min([0, *heads])
        return Clock(case.problem.origin_ms, ZoneInfo(case.problem.zone), span > DAY_MS)

    def say(self, at_ms: int) -> str:
        """Such as `23:00`, or `Tue 2026-12-01 23:00`."""
        whole, rest = divmod(self.origin_ms + at_ms, 1000)
        try:
            moment = datetime.fromtimestamp(whole, UTC).astimezone(self.zone)
        except (OverflowError, ValueError, OSError):
            return f"{format_duration(at_ms)} after the start"
        day, clock = moment.replace(tzinfo=None).isoformat().split("T")
        clock = clock[:8] if moment.second or rest else clock[:5]
        return f"{_DAYS[moment.weekday()]} {day} {clock}" if self.dated else clock


def plural(count: int, noun: str) -> str:
    """`one job`, `four jobs`, `214 jobs`."""
    word = NUMBERS[count] if count < len(NUMBERS) else str(count)
    return f"{word} {noun}" + ("" if count == 1 else "s")


def things(amount: int, resource: str) -> str:
    """`1 GPU`, `4 GPUs`, `4 of cpu`, `4 h100 GPUs of the quota of evals`."""
    base, share = said_as(resource)
    if not is_gpu(base):
        return f"{amount} of {base}{share}"
    flavor = "" if base == "gpu" else f"{base.removeprefix('gpu/')} "
    return f"{amount} {flavor}GPU" + ("" if amount == 1 else "s") + share


def named(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`, `a, b, c and 9 more`."""
    shown = list(names[:LISTED])
    if len(names) > LISTED:
        return f"{', '.join(shown)} and {len(names) - LISTED} more"
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
