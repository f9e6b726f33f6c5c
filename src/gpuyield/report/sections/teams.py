"""The same GPU time by team."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from gpuyield.model.waterfall import ALLOCATED, LOST, UNJUDGED, Account, AccountRow, GpuClass
from gpuyield.report.charts import stacks
from gpuyield.report.facts import Facts
from gpuyield.report.page import Chart, Section
from gpuyield.report.screens.account import rows_table
from gpuyield.report.sentences import count, has_outcomes, percent
from gpuyield.report.tables import format_hours
from gpuyield.units import HOUR_MS

_PARTS: tuple[tuple[str, tuple[GpuClass, ...]], ...] = (
    ("productive", (GpuClass.PRODUCTIVE,)),
    ("unjudged", UNJUDGED),
    ("lost", LOST),
    ("underused", (GpuClass.UNDERUSED,)),
    ("idle, held", (GpuClass.IDLE_HELD,)),
    ("starting", (GpuClass.STARTING,)),
    ("unobserved", (GpuClass.UNOBSERVED,)),
)

_MOST = 12

_HOW = (
    "A pod belongs to the team that its label names, else to the one declared for its namespace, else to its "
    "namespace. The rows, with nobody's time, sum to the cluster."
)


def teams_section(facts: Facts) -> Section | None:
    """Held GPU time by team, the most first."""
    account = facts.by_team
    if account is None:
        return None
    held = [row for row in account.rows if row.key.get("team") is not None and row.waterfall.gpu_ms(*ALLOCATED)]
    if not held:
        return None
    held.sort(key=lambda row: (-row.waterfall.gpu_ms(*ALLOCATED), str(row.key["team"])))
    judged = has_outcomes(account.waterfall)
    return Section(
        id="teams",
        kicker="By team",
        title=_finding(account),
        lead=(f"The {_MOST} teams that hold the most; all are in the table.",) if len(held) > _MOST else (),
        charts=(_chart(held[:_MOST]),),
        tables=(rows_table(account, judged=judged, zone=facts.zone),),
        how=_HOW,
    )


def _finding(account: Account) -> str:
    idle = [(row.waterfall.gpu_ms(GpuClass.IDLE_HELD), row) for row in account.rows if row.key.get("team") is not None]
    total = sum(amount for amount, _ in idle)
    teams = count(len(idle), "team")
    if not total:
        return f"No idle GPUs were held by {teams}"
    most, row = max(idle, key=lambda pair: (pair[0], str(pair[1].key["team"])))
    return f"{row.key['team']} held {percent(most, total)} of the idle GPU time of {teams}"


def _chart(held: Sequence[AccountRow]) -> Chart:
    rows: list[dict[str, object]] = []
    falls = [(str(row.key["team"]), row.waterfall) for row in held]
    longest = max(fall.gpu_ms(*ALLOCATED) for _, fall in falls)
    used = [name for name, classes in _PARTS if any(fall.gpu_ms(*classes) for _, fall in falls)]
    for team, fall in falls:
        for at, (name, classes) in enumerate(_PARTS):
            gpu_ms = fall.gpu_ms(*classes)
            if gpu_ms:
                rows.append(
                    {
                        "key": team,
                        "part": name,
                        "at": at,
                        "value": gpu_ms / HOUR_MS,
                        "shown": format_hours(Decimal(gpu_ms) / HOUR_MS),
                        "inside": gpu_ms > longest / 10,
                    }
                )
    told = "; ".join(
        f"{team} {format_hours(Decimal(fall.gpu_ms(*ALLOCATED)) / HOUR_MS)} held, "
        f"{format_hours(Decimal(fall.gpu_ms(GpuClass.IDLE_HELD)) / HOUR_MS)} idle"
        for team, fall in falls
    )
    return Chart(
        id="chart-teams",
        title="GPU-hours held, by what came of them",
        alt=f"Bars of GPU-hours by team: {told}.",
        spec=stacks(rows, unit="GPU-hours", keys=[team for team, _ in falls], parts=used),
    )
