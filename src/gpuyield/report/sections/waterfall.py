"""Where every GPU-hour went: the stairs from capacity to what was productive."""

from __future__ import annotations

from gpuyield.model.waterfall import ALLOCATED, BUSY, Account, GpuClass
from gpuyield.report.charts import CLASS_COLOURS, stairs
from gpuyield.report.facts import Facts
from gpuyield.report.page import Chart, Section
from gpuyield.report.screens.account import account_waterfall
from gpuyield.report.sentences import CLASS_WORDS, has_outcomes, percent
from gpuyield.report.tables import Kind, format_cell
from gpuyield.report.waterfall import Line, lines

_STAIRS = (
    "capacity",
    "unavailable",
    "unallocated",
    "starting",
    "idle_held",
    "underused",
    "unobserved",
    "lost",
    "unjudged",
    "productive",
)

_HOW = (
    "Per GPU and millisecond the first that matches: allocated (a pod that is not terminal holds it), unavailable, "
    "unallocated. Held time splits into starting, idle (below the activity threshold for long enough), underused "
    "(1 - activity of the rest), unobserved, and busy (activity-weighted). The leaves are integer GPU-milliseconds and "
    "sum to capacity exactly; printed hours are rounded so that they still do."
)


def waterfall_section(facts: Facts) -> Section | None:
    """The waterfall of the window."""
    account = facts.account
    if account is None or not account.waterfall.capacity_gpu_ms:
        return None
    table = account_waterfall(account, zone=facts.zone)
    return Section(
        id="gpu-time",
        kicker="Where the GPU time went",
        title=_finding(account),
        charts=(_chart(account),),
        tables=(table,),
        how=_HOW,
    )


def _finding(account: Account) -> str:
    fall = account.waterfall
    capacity = fall.capacity_gpu_ms
    idle, busy = fall.gpu_ms(GpuClass.IDLE_HELD), fall.gpu_ms(*BUSY)
    held = percent(fall.gpu_ms(*ALLOCATED), capacity)
    if has_outcomes(fall):
        productive = percent(fall.gpu_ms(GpuClass.PRODUCTIVE), capacity)
        return f"{held} of the GPU time was held, {productive} led to a verified outcome"
    if idle:
        return (
            f"{held} of the GPU time was held, {percent(busy, capacity)} was busy, {percent(idle, capacity)} sat idle"
        )
    return f"{held} of the GPU time was held, {percent(busy, capacity)} was busy"


def _chart(account: Account) -> Chart:
    by_name = {one.name: one for one in lines(account.waterfall)}
    rows: list[dict[str, object]] = []
    whole = by_name["capacity"]
    rest = float(whole.hours)
    for name in _STAIRS:
        line = by_name.get(name)
        if line is None or (name != "capacity" and not line.gpu_ms):
            continue
        low = 0.0 if name == "capacity" else max(0.0, rest - float(line.hours))
        rows.append(
            {
                "label": CLASS_WORDS[name],
                "from": low,
                "to": rest,
                "shown": _shown(line),
                # Where there is more room for the figure.
                "side": "right" if float(whole.hours) - rest >= low else "left",
                "colour": CLASS_COLOURS[name],
            }
        )
        if name == "capacity":
            rows[-1]["side"] = "inside"
        else:
            rest = low
    told = ", ".join(f"{row['label']} {row['shown']}" for row in rows)
    return Chart(
        id="chart-gpu-time",
        title="GPU-hours from capacity down",
        alt=f"Waterfall of GPU-hours: {told}.",
        spec=stairs(rows, unit="GPU-hours"),
    )


def _shown(line: Line) -> str:
    return f"{format_cell(line.hours, Kind.HOURS)} ({format_cell(line.ratio, Kind.RATIO)})"
