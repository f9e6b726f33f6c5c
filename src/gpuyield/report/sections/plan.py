"""The plan against starting everything at once and against a plain queue: GPUs over time, and job by job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.model.job import Problem, is_gpu
from gpuyield.model.plan import Run
from gpuyield.plan.instance.first_come import first_come, met
from gpuyield.plan.instance.restored import problem_of
from gpuyield.report.charts import LANES, gantt, steps_over_time
from gpuyield.report.facts import Document, Facts
from gpuyield.report.page import Chart, Section
from gpuyield.report.screens.nodes import nodes_table
from gpuyield.report.screens.plan import jobs_table
from gpuyield.report.screens.run_times import run_times_table
from gpuyield.report.sentences import count
from gpuyield.report.tables import format_local
from gpuyield.units import parse_instant

_MOST_JOBS = 16
_MOST_ROWS = 1_000
"""Jobs in the table of a page."""
_MOST_STEPS = 400
"""Steps of a line in a chart; where there are more, each shows the most within its part of the time."""
_NOT_RUN = {"dropped": "given up", "impossible": "impossible"}

_HOW = (
    "The plan, its bound and every fix are checked again by gpuyield verify from the canonical inputs alone. Starting "
    "all at once is each job at its earliest moment in its first shape, whatever it needs. A FIFO "
    "queue is a simulation: jobs wait in order of their release, and each that fits starts, whatever its deadline."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A stretch in which a job holds GPUs of one resource."""

    job: str
    from_ms: int
    to_ms: int
    resource: str
    gpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lanes:
    """The plan, and what it is compared with."""

    planned: Sequence[Bar]
    at_once: Sequence[Bar]
    queued: Sequence[Bar]

    def every(self) -> list[Bar]:
        """All bars."""
        return [*self.planned, *self.at_once, *self.queued]


def plan_section(facts: Facts) -> Section | None:
    """Plan against start-at-once."""
    if facts.plan is None or facts.plan_inputs is None:
        return None
    plan, inputs, zone = facts.plan, facts.plan_inputs, facts.zone
    planned, at_once = planned_bars(plan), at_once_bars(inputs)
    if not at_once:
        return None
    problem = problem_of(inputs)
    queued = first_come(problem)
    tables = (jobs_table(plan, zone, most=_MOST_ROWS), nodes_table(plan), run_times_table(plan))
    lanes = Lanes(planned=planned, at_once=at_once, queued=bars_of(problem, queued))
    return Section(
        id="plan",
        kicker="The plan",
        title=_finding(plan, at_once),
        lead=(*(str(line) for line in plan.get("explanation", ())), *_queue_words(plan, problem, queued)),
        charts=(
            *_demand_charts(lanes, plan, inputs, zone),
            _gantt_chart(plan, lanes, zone),
        ),
        tables=tuple(table for table in tables if table is not None),
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


def bars_of(problem: Problem, runs: Mapping[str, Run]) -> list[Bar]:
    """Runs as bars, one per GPU resource."""
    shapes = {job.id: job.shapes for job in problem.jobs}
    return [
        Bar(
            job=name,
            from_ms=problem.origin_ms + start_ms,
            to_ms=problem.origin_ms + end_ms,
            resource=resource,
            gpus=gpus,
        )
        for name, run in runs.items()
        for start_ms, end_ms in run.segments
        for resource, gpus in shapes[name][run.shape].demand.items()
        if is_gpu(resource)
    ]


def _queue_words(plan: Document, problem: Problem, queued: Mapping[str, Run]) -> list[str]:
    """What first come, first served would come to on the same GPUs."""
    in_time, timed = met(problem, queued)
    if not timed:
        return []
    ours = (plan.get("on_time") or {}).get("jobs")
    queue = f"First come, first served on the same GPUs would meet {in_time:,} of {count(timed, 'deadline')}"
    return [f"{queue}; this plan meets {round(float(ours) * timed):,}." if ours is not None else f"{queue}."]


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


def thinned(steps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """So many steps at most, each at the highest level within its part of the time, so that peaks stay."""
    if len(steps) <= _MOST_STEPS:
        return steps
    begin, end = steps[0][0], steps[-1][0]
    width = -(-(end - begin) // _MOST_STEPS)
    highest: dict[int, int] = {}
    level = last = 0
    for at, gpus in steps:
        part = (at - begin) // width
        for passed in range(last, part):
            highest[passed] = max(highest.get(passed, 0), level)
        highest[part] = max(highest.get(part, 0), gpus, level if (at - begin) % width else 0)
        level, last = gpus, part
    return [*((begin + part * width, gpus) for part, gpus in sorted(highest.items())), (end, steps[-1][1])]


def _finding(plan: Document, at_once: Sequence[Bar]) -> str:
    jobs = list(plan["jobs"])
    with_deadline = [job for job in jobs if job.get("deadline")]
    met = sum(1 for job in with_deadline if job["status"] in ("planned", "late"))
    gpus = plan.get("gpus") or {}
    available = sum(int(one["available"]) for one in gpus.values() if one.get("available") is not None)
    started = peaks(at_once)
    if plan["status"] == "infeasible":
        if met == len(with_deadline):
            return "Jobs that are never moved do not all have room: that is proven"
        every = "The deadline cannot be met" if len(with_deadline) == 1 else "Not all deadlines can be met"
        return f"{every}, and that is proven; the best plan meets {met} of {len(with_deadline)}"
    if plan["status"] == "unknown":
        return f"{met} of {count(len(with_deadline), 'deadline')} met by the best plan found; no proof either way"
    run = sum(1 for job in jobs if job.get("segments"))
    every = f"All {count(run, 'job')}" if run == len(jobs) else f"{run} of {count(len(jobs), 'job')}"
    words = "All deadlines are met" if with_deadline else f"{every} run"
    if started > available:
        return f"{words} on {count(available, 'GPU')}; starting all at once would take {started}"
    return f"{words} on {count(available, 'GPU')}"


def _demand_charts(lanes: Lanes, plan: Document, inputs: Document, zone: ZoneInfo) -> tuple[Chart, ...]:
    every = lanes.every()
    resources = sorted({bar.resource for bar in every})
    begin, end = min(bar.from_ms for bar in every), max(bar.to_ms for bar in every)
    charts = []
    for at, resource in enumerate(resources):
        plan_bars, once_bars, queue_bars = (
            [bar for bar in bars if bar.resource == resource] for bars in (lanes.planned, lanes.at_once, lanes.queued)
        )
        series = {
            "exists": _capacity(inputs, resource, begin, end),
            "our plan": profile(plan_bars),
            "FIFO queue": profile(queue_bars),
            "all at once": profile(once_bars),
        }
        rows = [
            {"series": name, "at": wall_ms(moment, zone), "gpus": gpus, "when": format_local(moment, zone)}
            for name, steps in series.items()
            for moment, gpus in thinned(steps)
        ]
        used = [name for name, steps in series.items() if steps]
        label = resource.removeprefix("gpu/").removeprefix("gpu")
        peaks = f"plan at most {peak(plan_bars)}, all at once {peak(once_bars)}"
        over = _overload(plan, inputs, resource, zone)
        marked = "; the marked span holds more work than fits" if over else ""
        charts.append(
            Chart(
                id=f"chart-demand-{at}",
                title=f"{label} GPUs over time: {peaks}{marked}" if label else f"GPUs over time: {peaks}{marked}",
                alt=f"GPUs held {label}: {peaks}, {format_local(begin, zone)} to {format_local(end, zone)}{marked}.",
                spec=steps_over_time(rows, series=used, unit="GPUs", over=over),
            )
        )
    return tuple(charts)


def _overload(plan: Document, inputs: Document, resource: str, zone: ZoneInfo) -> dict[str, Any] | None:
    """The span in which the plan's certificate shows that too much work must run; None where it names none."""
    certificate = plan.get("certificate") or {}
    if certificate.get("resource") != resource or "from_ms" not in certificate:
        return None
    from_ms, to_ms = (int(inputs["origin_ms"]) + int(certificate[key]) for key in ("from_ms", "to_ms"))
    extra = certificate.get("extra_gpus")
    word = "too much work" if extra is None else f"at least {count(int(extra), 'more GPU')} needed"
    return {"from": wall_ms(from_ms, zone), "to": wall_ms(to_ms, zone), "word": word}


def _capacity(inputs: Document, resource: str, begin: int, end: int) -> list[tuple[int, int]]:
    origin = int(inputs["origin_ms"])
    steps = [(origin + int(at), int(amount)) for at, amount in inputs["capacity"].get(resource, ())]
    before = [amount for at, amount in steps if at <= begin]
    inside = [(at, amount) for at, amount in steps if begin < at < end]
    shown = [(begin, before[-1] if before else 0), *inside]
    return [*shown, (end, shown[-1][1])]


def _gantt_chart(plan: Document, lanes: Lanes, zone: ZoneInfo) -> Chart:
    chosen = _chosen_jobs(plan)
    names = [str(job["id"]) for job in chosen]
    shown = short_names(names)
    deadlines = {str(job["id"]): parse_instant(job["deadline"]) for job in chosen if job.get("deadline")}
    rows = [
        _bar_row(bar, lane, deadlines.get(bar.job), zone, shown[bar.job])
        for lane, bars in zip(LANES, (lanes.planned, lanes.queued, lanes.at_once), strict=True)
        for bar in bars
        if bar.job in set(names)
    ]
    flags = [
        {"job": shown[name], "name": name, "at": wall_ms(moment, zone), "label": format_local(moment, zone)}
        for name, moment in deadlines.items()
    ]
    ends = {bar.job: bar.to_ms for bar in lanes.at_once}
    not_run = [
        {"job": shown[name], "at": wall_ms(ends[name], zone), "word": _NOT_RUN.get(str(job["status"]), "not run")}
        for job in chosen
        if not job.get("segments") and (name := str(job["id"])) in ends
    ]
    of_all = f" ({len(names)} of {len(plan['jobs'])}, the tightest first)" if len(names) < len(plan["jobs"]) else ""
    told = "; ".join(
        f"{bar.job} {format_local(bar.from_ms, zone)} to {format_local(bar.to_ms, zone)}"
        for bar in lanes.planned
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
