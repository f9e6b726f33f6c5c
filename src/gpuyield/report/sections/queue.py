"""Why work waited: the waiting GPU time by cause. It says whether the queue grows for lack of GPUs or of planning."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from gpuyield.report.charts import BLUE, GREY, ORANGE, PEACH, SILVER, SKY, SLATE, stairs
from gpuyield.report.facts import Facts
from gpuyield.report.page import Chart, Section
from gpuyield.report.screens.queue import CAUSE_WORDS, causes, queue_finding, queue_table
from gpuyield.report.sentences import percent
from gpuyield.report.tables import format_hours
from gpuyield.units import HOUR_MS

_COLOURS = {
    "not_due_yet": SILVER,
    "impossible": GREY,
    "quota": SLATE,
    "fragmented": SLATE,
    "held_idle": ORANGE,
    "undeclared": SILVER,
    "order": BLUE,
    "serving": PEACH,
    "pairing": PEACH,
    "capacity": SKY,
    "unexplained": GREY,
}

_HOW = (
    "Waiting GPU time is GPUs asked for x time pending or suspended. Each millisecond goes to the first cause that "
    "holds, in the order of the table; the causes sum to the whole wait."
)


def queue_section(facts: Facts) -> Section | None:
    """The waiting GPU time by cause."""
    if facts.queue is None:
        return None
    found = causes(facts.queue)
    total = sum(amount for _, amount in found)
    if not total:
        return Section(id="queue", kicker="Why work waited", title="No work waited for GPUs in this window", how=_HOW)
    return Section(
        id="queue",
        kicker="Why work waited",
        title=queue_finding(found),
        charts=(_chart(found, total),),
        tables=(queue_table(facts.queue),),
        how=_HOW,
    )


def _chart(found: Sequence[tuple[str, int]], total: int) -> Chart:
    rows: list[dict[str, object]] = [
        {
            "label": "all waiting",
            "from": 0.0,
            "to": total / HOUR_MS,
            "shown": format_hours_of(total),
            "side": "inside",
            "colour": SILVER,
        }
    ]
    rest = total
    for cause, amount in found:
        if not amount:
            continue
        rows.append(
            {
                "label": CAUSE_WORDS.get(cause, cause),
                "from": (rest - amount) / HOUR_MS,
                "to": rest / HOUR_MS,
                "shown": f"{format_hours_of(amount)} ({percent(amount, total)})",
                # Where there is more room for the figure.
                "side": "right" if total - rest >= rest - amount else "left",
                "colour": _COLOURS.get(cause, GREY),
            }
        )
        rest -= amount
    told = ", ".join(f"{row['label']} {row['shown']}" for row in rows)
    return Chart(
        id="chart-queue",
        title="Waiting GPU-hours by cause",
        alt=f"Waterfall of waiting GPU-hours: {told}.",
        spec=stairs(rows, unit="waiting GPU-hours"),
    )


def format_hours_of(gpu_ms: int) -> str:
    """GPU-hours as read."""
    return format_hours(Decimal(gpu_ms) / HOUR_MS)
