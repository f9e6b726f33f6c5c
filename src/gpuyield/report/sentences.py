"""Facts as sentences: the words that people read first. Every figure in them is also in a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal

from gpuyield.model.waterfall import ALLOCATED, BUSY, LOST, UNJUDGED, Account, GpuClass, Waterfall
from gpuyield.report.tables import format_hours
from gpuyield.units import HOUR_MS, Window, round_parts


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 job`, `3 jobs`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(words: Sequence[str], *, most: int = 4) -> str:
    """`a, b and c`; beyond `most` the rest is counted."""
    if len(words) > most:
        words = [*words[: most - 1], f"{len(words) - most + 1} more"]
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def cards_words(models: Mapping[str, int]) -> str:
    """Cards by model: `8 NVIDIA H100`."""
    return ", ".join(f"{number} {model}" for model, number in sorted(models.items()))


def percent(part: int, whole: int) -> str:
    """A whole percentage; what is not zero is never shown as 0 %, what is not all never as 100 %."""
    if not whole:
        return "0 %"
    if 0 < part * 100 < whole:
        return "less than 1 %"
    shown = round(Decimal(part) * 100 / Decimal(whole))
    if shown == 100 and part < whole:
        return "over 99 %"
    return f"{shown} %"


def in_percent(ratio: float) -> str:
    """The same of a ratio; one beyond 1 is more than 100 %."""
    return percent(round(ratio * 1_000_000), 1_000_000)


def percents(parts: Sequence[int], whole: int) -> list[str]:
    """Whole percentages of parts, rounded so that they add up to that of their sum; none that is not zero is 0 %."""
    if not whole:
        return ["0 %" for _ in parts]
    rounded = round_parts([Decimal(part) * 100 / Decimal(whole) for part in parts], places=0)
    return [
        percent(part, whole) if part * 100 < whole or part == whole else f"{share} %"
        for part, share in zip(parts, rounded, strict=True)
    ]


def sentence(text: str) -> str:
    """A clause as a sentence: a capital first, a full stop last."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", ":")) else ".") if text else ""


def gpu_hours(gpu_ms: int) -> str:
    """`1,338 GPU-hours`."""
    return f"{format_hours(Decimal(gpu_ms) / HOUR_MS)} GPU-hours"


def window_words(window: Window, zone: tzinfo) -> str:
    """`16 to 30 Nov 2026`, with clock times where it does not start and end at midnight."""
    start = datetime.fromtimestamp(window.from_ms // 1000, UTC).astimezone(zone)
    end = datetime.fromtimestamp(window.to_ms // 1000, UTC).astimezone(zone)
    if (start.hour, start.minute, end.hour, end.minute) == (0, 0, 0, 0):
        last = datetime.fromtimestamp(window.to_ms // 1000 - 1, UTC).astimezone(zone)
        if start.date() == last.date():
            return f"{last.day} {last:%b %Y}"
        begin = f"{start.day}" if (start.month, start.year) == (last.month, last.year) else f"{start.day} {start:%b}"
        return f"{begin} to {last.day} {last:%b %Y}"
    return f"{start.day} {start:%b %H:%M} to {end.day} {end:%b %Y %H:%M}"


def account_headline(account: Account, *, judged: bool) -> str:
    """How the GPUs were used, in one sentence; `judged` says whether any outcome source exists."""
    fall = account.waterfall
    capacity = fall.capacity_gpu_ms
    if not capacity:
        return "No GPU was seen in this window."
    unobserved = fall.gpu_ms(GpuClass.UNOBSERVED)
    allocated = fall.gpu_ms(*ALLOCATED)
    if allocated and unobserved == allocated - fall.gpu_ms(GpuClass.STARTING):
        return f"Allocated {percent(allocated, capacity)} of capacity; how busy it was is unobserved."
    if not judged:
        return (
            f"Busy {percent(fall.gpu_ms(*BUSY), capacity)}, not judged yet: import outcomes or name a check "
            "(gpuyield outcomes import --help)."
        )
    parts = [fall.gpu_ms(GpuClass.PRODUCTIVE), fall.gpu_ms(*LOST), fall.gpu_ms(*UNJUDGED)]
    productive, lost, unjudged = percents(parts, capacity)
    return (
        f"Productive {productive} of capacity, lost {lost}, not judged {unjudged}; "
        f"busy {percent(fall.gpu_ms(*BUSY), capacity)}."
    )


def idle_sentence(account: Account) -> str | None:
    """Who holds idle GPUs now, the most first; None where nobody does."""
    now = [one for one in account.holders if one.gpus_now]
    if not now:
        return None
    named = [f"{one.namespace}/{one.workload} {count(one.gpus_now, 'GPU')}" for one in now]
    total = sum(one.gpus_now for one in now)
    return f"{count(total, 'whole GPU')} held idle at the end of the window: {listed(named)}."


CLASS_WORDS: Mapping[str, str] = {
    "capacity": "capacity",
    "unavailable": "unavailable",
    "unallocated": "unallocated",
    "unallocated.no_demand": "no demand",
    "unallocated.quota_blocked": "blocked by quota",
    "unallocated.fragmented": "fragmented",
    "unallocated.bypassed": "busy without a holder",
    "unallocated.unexplained": "unexplained",
    "allocated": "allocated",
    "starting": "starting",
    "idle_held": "idle, held",
    "underused": "underused",
    "unobserved": "unobserved",
    "busy": "busy",
    "productive": "productive",
    "lost": "lost",
    "lost.superseded": "superseded",
    "lost.failed": "failed",
    "lost.late": "late",
    "lost.rejected": "rejected",
    "lost.overhead": "overhead",
    "unjudged": "unjudged",
    "unjudged.unattributed": "not covered by an outcome",
    "unjudged.unverified": "no verdict yet",
}

CLASS_MEANING: Mapping[str, str] = {
    "unavailable": "unhealthy, not ready or cordoned, and not held",
    "unallocated": "nobody held it",
    "starting": "held, not running yet: pulling images, init, waiting for the gang",
    "idle_held": "a whole device below the activity threshold for long enough: can be reclaimed",
    "underused": "(1 - activity) of running work: cannot be reclaimed",
    "unobserved": "held, but no activity sample says how busy it was",
    "productive": "led to a verified outcome",
    "lost": "busy, and judged or replaced",
    "unjudged": "busy without a verdict: not lost, not saved",
}


def key_word(name: str, value: str | None) -> str:
    """A part of a row's key as read; what has none is nobody's, or of no such kind."""
    return str(value) if value is not None else _WITHOUT.get(name, "(nobody)")


_WITHOUT: Mapping[str, str] = {"family": "(no family)", "queue": "(no queue)", "flavor": "(not known)"}


def has_outcomes(fall: Waterfall) -> bool:
    """Whether any busy time was judged or covered by an outcome."""
    return fall.gpu_ms(GpuClass.PRODUCTIVE, *LOST, GpuClass.UNATTRIBUTED) > 0
