"""The sentences of a plan as a whole, most important first: what is proven, what is needed, what would help."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuyield.model.plan import (
    AddGpus,
    Certificate,
    Drop,
    GpuNeed,
    JobStatus,
    MoveDeadline,
    PlanStatus,
    Relaxation,
)
from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import is_gpu
from gpuyield.plan.instance.quota import said_as
from gpuyield.plan.instance.schedule import Schedule
from gpuyield.plan.outlook.why import is_over, why_impossible
from gpuyield.plan.outlook.wording import Clock, named, plural, things
from gpuyield.units import HOUR_MS, format_duration


def explain(
    case: Case,
    schedule: Schedule,
    statuses: Mapping[str, JobStatus],
    status: PlanStatus,
    certificate: Certificate | None,
    needs: Sequence[GpuNeed],
    relaxed: Sequence[Relaxation],
    at_once: Mapping[str, int],
) -> tuple[str, ...]:
    """What a person can act on, most important first: impossible jobs, then the proof, then what would help."""
    clock = Clock.of(case, schedule)
    said = [why_impossible(case, one, clock) for one in case.impossible]
    if status is PlanStatus.INFEASIBLE and certificate is not None:
        said.extend(_why_infeasible(case, certificate, clock))
    if status is PlanStatus.UNKNOWN:
        said.append(
            "No plan that meets all deadlines was found, and no proof that there is none: the best plan found is shown."
        )
    if status in (PlanStatus.OPTIMAL, PlanStatus.FEASIBLE):
        said.append(_all_met(case))
    said.extend(_needs(case, needs, at_once))
    said.extend(_over(case, schedule))
    given_up = sorted(name for name, one in statuses.items() if one is JobStatus.DROPPED)
    if given_up:
        said.append(f"The best plan found gives up {plural(len(given_up), 'job')}: {named(given_up)}.")
    late = sorted(name for name, one in statuses.items() if one is JobStatus.LATE)
    if late:
        said.append(f"{plural(len(late), 'job').capitalize()} would end after the due time: {named(late)}.")
    said.extend(say_relaxation(one, clock) for one in relaxed)
    return tuple(said)


def _over(case: Case, schedule: Schedule) -> list[str]:
    """Started jobs that are over by their run time alone."""
    pairs = zip(case.board.tasks, schedule.placed, strict=True)
    over = sorted(task.job.id for task, one in pairs if one is not None and is_over(task, one))
    if not over:
        return []
    if len(over) == 1:
        told = f"{over[0]} has by its run time ended before the plan starts, and holds nothing in it"
        return [f"{told}: leave it out or, if it still runs, give it a longer run time."]
    told = f"{named(over)} have by their run times ended before the plan starts, and hold nothing in it"
    return [f"{told}: leave them out, and give those that still run a longer run time."]


def _all_met(case: Case) -> str:
    hard = sum(1 for task in case.board.tasks if task.deadline_ms is not None)
    if not case.board.tasks:
        return "There are no jobs to plan."
    if not hard:
        each = "each of the others" if case.impossible else "each one"
        return f"No job has a deadline; the plan says when {each} runs."
    if hard == 1:
        return "The deadline is met."
    return "Both deadlines are met." if hard == 2 else f"All {plural(hard, 'deadline')} are met."


def _why_infeasible(case: Case, certificate: Certificate, clock: Clock) -> list[str]:
    match certificate["kind"]:
        case "interval":
            return [_why_interval(case, certificate, clock)]
        case "cut":
            required = _hours(certificate["required_gpu_ms"], certificate["resource"])
            there = _hours(certificate["capacity_gpu_ms"], certificate["resource"])
            spans = [f"{clock.say(low)} to {clock.say(high)}" for low, high in certificate["windows"]]
            who = plural(len(certificate["jobs"]), "job")
            return [f"However they are paused, {who} must use {required} in {named(spans)}, and {there} exist there."]
        case "wide-gangs":
            names = [one["id"] for one in certificate["jobs"]]
            span = f"between {clock.say(certificate['from_ms'])} and {clock.say(certificate['to_ms'])}"
            too_long = f"one after the other they take longer than there is {span}"
            return [f"{named(names)} are too wide to run side by side, and {too_long}."]
        case "dual-feasible":
            names = [one["id"] for one in certificate["jobs"]]
            span = f"between {clock.say(certificate['from_ms'])} and {clock.say(certificate['to_ms'])}"
            why = f"their widths leave {_idle(certificate['resource'])} idle beside each other"
            return [f"Whatever the order, {named(names)} cannot run all that they must {span}: {why}."]
        case "prices":
            most = f"no more than {certificate['bound']} of the jobs with a deadline can meet it"
            return [f"Whatever the order, {most} (prices of GPU time prove it)."]
        case "search":
            proof = f"a proof of {len(certificate['branches'])} steps that verify replays"
            return [f"Every order of these jobs was tried, and none meets all deadlines ({proof})."]
        case "lemmas":
            names = certificate["jobs"]
            proof = f"a proof of {plural(len(certificate['lemmas']), 'step')} that verify checks"
            return [f"{named(names)} cannot all meet their deadlines, however they are placed ({proof})."]
    return []


def _idle(resource: str) -> str:
    base, _ = said_as(resource)
    return "GPUs" if is_gpu(base) else base


def _why_interval(case: Case, certificate: Certificate, clock: Clock) -> str:
    from_ms, to_ms, resource = certificate["from_ms"], certificate["to_ms"], certificate["resource"]
    length = to_ms - from_ms
    jobs, index = certificate["jobs"], case.board.resources.index(resource)
    span = f"between {clock.say(from_ms)} and {clock.say(to_ms)}"
    count = plural(len(jobs), "job") if len(jobs) > 1 else f"the job {jobs[0]['id']}"
    every = len(jobs) == len(case.board.tasks) and len(jobs) > 1
    who = ("both jobs" if len(jobs) == 2 else f"all {count}") if every else count
    required, there = certificate["required_gpu_ms"], certificate["capacity_gpu_ms"]
    whole_span = required % length == 0 and there % length == 0 and _run_throughout(case, certificate, index)
    if whole_span:
        return (
            f"Whatever the order, {who} must run {span} ({things(required // length, resource)}), and "
            f"{there // length} exist{'s' if there // length == 1 else ''}: at least "
            f"{things(certificate['extra_gpus'], resource)} more."
        )
    return (
        f"Whatever the order, {who} must use {_hours(required, resource)} {span}, and {_hours(there, resource)} exist "
        f"there: at least {things(certificate['extra_gpus'], resource)} more."
    )


def _run_throughout(case: Case, certificate: Certificate, resource: int) -> bool:
    """Whether every listed job must run during the whole span."""
    length = certificate["to_ms"] - certificate["from_ms"]
    widths = {
        task.job.id: {mode.amount(resource) for mode in case.windows.modes[task.index]} for task in case.board.tasks
    }
    return all(
        any(one["forced_gpu_ms"] == width * length for width in widths[one["id"]]) for one in certificate["jobs"]
    )


def _hours(gpu_ms: int, resource: str) -> str:
    base, share = said_as(resource)
    unit = "GPU-hours" if is_gpu(base) else f"hours of {base}"
    return f"{gpu_ms / HOUR_MS:.4g} {unit}{share}"


def _needs(case: Case, needs: Sequence[GpuNeed], at_once: Mapping[str, int]) -> list[str]:
    """The fewest of each resource, said of it alone: where jobs may choose, the fewest of two need not do together."""
    timed = any(task.deadline_ms is not None for task in case.board.tasks)
    aim = "for all deadlines" if timed else "to run every job, none of which has a deadline"
    said = []
    given = "With all else as it is, " if case.board.named > 1 else ""
    for need in needs:
        if need.needed is None:
            continue
        sure = _how_sure(need) if timed or need.lower_bound else ""
        suffice = f"{things(need.needed, need.resource)} suffice{'s' if need.needed == 1 else ''}"
        start = f"{given}{suffice} {aim}{sure}"
        peak = at_once.get(need.resource)
        said.append(f"{start}; starting everything at once would take {peak}." if peak is not None else f"{start}.")
    return said


def _how_sure(need: GpuNeed) -> str:
    if need.needed == 0:
        return ""
    if need.lower_bound == need.needed:
        return ", and fewer cannot do"
    if need.lower_bound:
        return f", and fewer than {need.lower_bound} cannot do"
    return ", and how many fewer would do is not known"


def say_relaxation(one: Relaxation, clock: Clock) -> str:
    """A relaxation as advice."""
    sure = " Less does not do." if one.irreducible else ""
    match one:
        case AddGpus():
            span = f"from {clock.say(one.from_ms)} to {clock.say(one.to_ms)}"
            return f"It fits with {things(one.amount, one.resource)} more {span}.{sure}"
        case MoveDeadline():
            lengths = {by for _, by in one.jobs}
            names = [name for name, _ in one.jobs]
            if len(lengths) == 1:
                by = format_duration(lengths.pop())
                return f"It fits with {plural(len(names), 'deadline')} {by} later: {named(names)}.{sure}"
            each = [f"{name} by {format_duration(by)}" for name, by in one.jobs]
            return f"It fits with {plural(len(names), 'deadline')} moved: {named(each)}.{sure}"
        case Drop():
            return f"It fits without {plural(len(one.jobs), 'job')}: {named(one.jobs)}.{sure}"
