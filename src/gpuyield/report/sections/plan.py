"""The plan against starting everything at once: GPUs over time, and job by job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.report.charts import gantt, steps_over_time
from gpuyield.report.facts import Document, Facts
from gpuyield.report.page import Chart, Section
from gpuyield.report.screens.plan import jobs_table
from gpuyield.report.sentences import count
from gpuyield.report.tables import format_local
from gpuyield.units import parse_instant

_MOST_JOBS = 16
_NOT_RUN = {"dropped": "given up", "impossible": "impossible"}

_HOW = (
    "The plan, its bound and every fix are checked again by gpuyield verify from the canonical inputs alone. Starting "
    "all at once is each job at its earliest moment in its first shape, whatever it needs."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch in which a job holds GPUs of one resource."""

    job: str
    from_ms: int
    to_ms: int
    resource: str
    gpus: int


def plan_section(facts: Facts) -> Section | None:
    """Plan against start-at-once."""
    if facts.plan is None or facts.plan_inputs is None:
        return None
    plan, inputs, zone = facts.plan, facts.plan_inputs, facts.zone
    planned, at_once = planned_bars(plan), at_once_bars(inputs)
    if not at_once:
        return None
    return Section(
        id="plan",
        kicker="The plan",
        title=_finding(plan, at_once),
        lead=tuple(str(line) for line in plan.get("explanation", ())),
        charts=(
            *_demand_charts(planned, at_once, inputs, zone),
            _gantt_chart(plan, planned, at_once, zone),
        ),
        tables=(jobs_table(plan, zone),),
        how=_HOW,
    )


def planned_bars(plan: Document) -> list[Bar]:
    """The segments of the plan as bars."""
    bars = []
    for job in plan["jobs"]:
        flavor = job.get("flavor")
        resource = f"gpu/{flavor}" if flavor else "gpu"
        for start, end in job.get("segments") or ():
            bars.append(
                Bar(
                    job=str(job["id"]),
                    from_ms=parse_instant(start),
                    to_ms=parse_instant(end),
                    resource=resource,
                    gpus=int(job["gpus"]),
                )
            )
    return bars


def at_once_bars(inputs: Document) -> list[Bar]:
    """Every job at its earliest moment, in its first shape."""
    origin = int(inputs["origin_ms"])
    bars = []
    for job in inputs["jobs"]:
        shape = job["shapes"][0]
        start = job.get("started_ms")
        if start is None:
            start = job.get("pinned_ms")
        if start is None:
            start = job["release_ms"]
        for resource, gpus in shape["demand"].items():
            if resource == "gpu" or resource.startswith("gpu/"):
                begin = origin + int(start)
                bars.append(
                    Bar(
                        job=str(job["id"]),
                        from_ms=begin,
                        to_ms=begin + int(shape["duration_ms"]),
                        resource=resource,
                        gpus=int(gpus),
                    )
                )
    return bars


def peak(bars: Sequence[Bar]) -> int:
    """The most GPUs held at once."""
    return max((gpus for _, gpus in profile(bars)), default=0)


def peaks(bars: Sequence[Bar]) -> int:
    """The most GPUs of each resource held at once, in all: one kind of GPU does not stand in for another."""
    return sum(peak([bar for bar in bars if bar.resource == resource]) for resource in {bar.resource for bar in bars})


def profile(bars: Sequence[Bar]) -> list[tuple[int, int]]:
    """GPUs held over time as steps `(from_ms, gpus)`, ending with 0."""
    changes: dict[int, int] = {}
    for bar in bars:
        changes[bar.from_ms] = changes.get(bar.from_ms, 0) + bar.gpus
        changes[bar.to_ms] = changes.get(bar.to_ms, 0) - bar.gpus
    steps, held = [], 0
    for at in sorted(changes):
        held += changes[at]
        steps.append((at, held))
    return steps


def _finding(plan: Document, at_once: Sequence[Bar]) -> str:
    jobs = list(plan["jobs"])
    with_deadline = [job for job in jobs if job.get("deadline")]
    met = sum(1 for job in with_deadline if job["status"] in ("planned", "late"))
    gpus = plan.get("gpus") or {}
    available = sum(int(one["available"]) for one in gpus.values() if one.get("available") is not None)
    started = peaks(at_once)
    if plan["status"] == "infeasible":
        return f"{len(with_deadline) - met} of {count(len(with_deadline), 'deadline')} cannot be met: that is proven"
    if plan["status"] == "unknown":
        return f"{met} of {count(len(with_deadline), 'deadline')} met by the best plan found; no proof either way"
    words = "All deadlines are met" if with_deadline else f"All {count(len(jobs), 'job')} run"
    if started > available:
        return f"{words} on {count(available, 'GPU')}; starting all at once would take {started}"
    return f"{words} on {count(available, 'GPU')}"


def _demand_charts(
    planned: Sequence[Bar], at_once: Sequence[Bar], inputs: Document, zone: ZoneInfo
) -> tuple[Chart, ...]:
    resources = sorted({bar.resource for bar in (*planned, *at_once)})
    begin = min(bar.from_ms for bar in (*planned, *at_once))
    end = max(bar.to_ms for bar in (*planned, *at_once))
    charts = []
    for at, resource in enumerate(resources):
        plan_bars = [bar for bar in planned if bar.resource == resource]
        once_bars = [bar for bar in at_once if bar.resource == resource]
        series = {
            "exists": _capacity(inputs, resource, begin, end),
            "our plan": profile(plan_bars),
            "all started at once": profile(once_bars),
        }
        rows = [
            {"series": name, "at": wall_ms(moment, zone), "gpus": gpus, "when": format_local(moment, zone)}
            for name, steps in series.items()
            for moment, gpus in steps
        ]
        used = [name for name, steps in series.items() if steps]
        label = resource.removeprefix("gpu/").removeprefix("gpu")
        peaks = f"plan at most {peak(plan_bars)}, all at once {peak(once_bars)}"
        charts.append(
            Chart(
                id=f"chart-demand-{at}",
                title=f"{label} GPUs over time: {peaks}".strip() if label else f"GPUs over time: {peaks}",
                alt=f"GPUs held {label}: {peaks}, {format_local(begin, zone)} to {format_local(end, zone)}.",
                spec=steps_over_time(rows, series=used, unit="GPUs"),
            )
        )
    return tuple(charts)


def _capacity(inputs: Document, resource: str, begin: int, end: int) -> list[tuple[int, int]]:
    origin = int(inputs["origin_ms"])
    steps = [(origin + int(at), int(amount)) for at, amount in inputs["capacity"].get(resource, ())]
    before = [amount for at, amount in steps if at <= begin]
    inside = [(at, amount) for at, amount in steps if begin < at < end]
    shown = [(begin, before[-1] if before else 0), *inside]
    return [*shown, (end, shown[-1][1])]


def _gantt_chart(plan: Document, planned: Sequence[Bar], at_once: Sequence[Bar], zone: ZoneInfo) -> Chart:
    chosen = _chosen_jobs(plan)
    names = [str(job["id"]) for job in chosen]
    shown = short_names(names)
    deadlines = {str(job["id"]): parse_instant(job["deadline"]) for job in chosen if job.get("deadline")}
    rows = [
        _bar_row(bar, lane, deadlines.get(bar.job), zone, shown[bar.job])
        for lane, bars in (("our plan", planned), ("all started at once", at_once))
        for bar in bars
        if bar.job in set(names)
    ]
    flags = [
        {"job": shown[name], "name": name, "at": wall_ms(moment, zone), "label": format_local(moment, zone)}
        for name, moment in deadlines.items()
    ]
    ends = {bar.job: bar.to_ms for bar in at_once}
    not_run = [
        {"job": shown[name], "at": wall_ms(ends[name], zone), "word": _NOT_RUN.get(str(job["status"]), "not run")}
        for job in chosen
        if not job.get("segments") and (name := str(job["id"])) in ends
    ]
    of_all = f" ({len(names)} of {len(plan['jobs'])}, the tightest first)" if len(names) < len(plan["jobs"]) else ""
    told = "; ".join(
        f"{bar.job} {format_local(bar.from_ms, zone)} to {format_local(bar.to_ms, zone)}"
        for bar in planned
        if bar.job in set(names)
    )
    return Chart(
        id="chart-gantt",
        title=f"Job by job{of_all}; the upright mark is the deadline",
        alt=f"Bars per job: {told}.",
        spec=gantt(rows, flags, jobs=[shown[name] for name in names], not_run=not_run),
    )


def _bar_row(bar: Bar, lane: str, deadline: int | None, zone: ZoneInfo, shown: str) -> dict[str, Any]:
    return {
        "job": shown,
        "name": bar.job,
        "lane": lane,
        "from": wall_ms(bar.from_ms, zone),
        "to": wall_ms(bar.to_ms, zone),
        "label": f"{format_local(bar.from_ms, zone)} to {format_local(bar.to_ms, zone)}, {count(bar.gpus, 'GPU')}",
        "late": deadline is not None and bar.to_ms > deadline,
    }


def _chosen_jobs(plan: Document) -> list[Mapping[str, Any]]:
    rank = {"impossible": 0, "dropped": 0, "late": 1, "planned": 2}

    def tightness(job: Mapping[str, Any]) -> tuple[int, float, str]:
        slack = job.get("slack_s")
        return (rank.get(job["status"], 3), float("inf") if slack is None else float(slack), str(job["id"]))

    chosen = sorted(plan["jobs"], key=tightness)[:_MOST_JOBS]
    return sorted(chosen, key=lambda job: (str((job.get("segments") or [["~"]])[0][0]), str(job["id"])))


def short_names(names: Sequence[str], *, most: int = 26) -> dict[str, str]:
    """Names that fit beside a bar and still differ: without the namespace, and with the middle left out."""
    bare = {name: name.rpartition("/")[2] for name in names}
    if len(set(bare.values())) < len(names):
        bare = {name: name for name in names}
    head = most // 3
    cut = {
        name: text if len(text) <= most else f"{text[:head]}…{text[head + 1 - most :]}" for name, text in bare.items()
    }
    return cut if len(set(cut.values())) == len(names) else bare


def wall_ms(at_ms: int, zone: ZoneInfo) -> int:
    """Epoch ms whose UTC clock shows what a clock in `zone` shows: charts then need no zone."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(zone)
    return int(moment.replace(tzinfo=UTC).timestamp()) * 1000 + at_ms % 1000
