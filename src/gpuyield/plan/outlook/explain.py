"""The sentences of a plan: what is proven, what would help, when each job runs and why not earlier.

Clock times are local to the problem's zone; dates are said once a plan is longer than a day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

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
from gpuyield.plan.instance.board import Task, is_gpu
from gpuyield.plan.instance.quota import said_as
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.proof.impossible import Impossible, Reason
from gpuyield.units import DAY_MS, HOUR_MS, format_duration

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
    given_up = sorted(name for name, one in statuses.items() if one is JobStatus.DROPPED)
    if given_up:
        said.append(f"The best plan found gives up {plural(len(given_up), 'job')}: {named(given_up)}.")
    late = sorted(name for name, one in statuses.items() if one is JobStatus.LATE)
    if late:
        said.append(f"{plural(len(late), 'job').capitalize()} would end after the due time: {named(late)}.")
    said.extend(say_relaxation(one, clock) for one in relaxed)
    return tuple(said)


def _all_met(case: Case) -> str:
    hard = sum(1 for task in case.board.tasks if task.deadline_ms is not None)
    if not case.board.tasks:
        return "There are no jobs to plan."
    if not hard:
        return "No job has a deadline; the plan says when each one runs."
    if hard == 1:
        return "The deadline is met."
    return "Both deadlines are met." if hard == 2 else f"All {plural(hard, 'deadline')} are met."


def _why_infeasible(case: Case, certificate: Certificate, clock: Clock) -> list[str]:
    match certificate["kind"]:
        case "interval":
            return [_why_interval(case, certificate, clock)]
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
    who = f"all {count}" if every else count
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
    said = []
    given = "With all else as it is, " if case.board.named > 1 else ""
    for need in needs:
        if need.needed is None:
            continue
        amount = things(need.needed, need.resource)
        start = f"{given}{amount} suffice{'s' if need.needed == 1 else ''} for all deadlines{_how_sure(need)}"
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


def why_impossible(case: Case, one: Impossible, clock: Clock) -> str:
    """Why a job cannot meet its deadline even alone."""
    task = case.board.tasks[one.task]
    name = task.job.id
    match one.reason:
        case Reason.NO_FLAVOR:
            assert not isinstance(one.need, int)
            return f"{name} is impossible: it needs {named(one.need)}, and capacity has none of it."
        case Reason.TOO_WIDE:
            assert isinstance(one.need, int)
            assert one.resource is not None
            return (
                f"{name} is impossible: it needs {things(one.need, one.resource)} at once, and no more than {one.have} "
                "last long enough."
            )
        case Reason.TOO_LONG:
            assert isinstance(one.need, int)
            assert isinstance(one.have, int)
            if one.lacks_room:
                there = f"there is room for it for {format_duration(one.have)} at most"
                behind = ", behind the jobs that it waits for" if task.before else ""
                return f"{name} is impossible: it takes {format_duration(one.need)}, and {there}{behind}."
            return (
                f"{name} is impossible: it takes {format_duration(one.need)}, and {format_duration(one.have)} are left "
                f"until its deadline {_until(task, clock)}."
            )
        case Reason.CHAIN:
            if one.is_behind:
                assert not isinstance(one.need, int)
                return f"{name} is impossible: it waits for {named(one.need)}, which is impossible itself."
            assert isinstance(one.need, int)
            if task.fixed_ms is not None:
                fixed = f"it is fixed to start at {clock.say(task.fixed_ms)}"
                return f"{name} is impossible: {fixed}, and what it waits for ends at {clock.say(one.need)} or later."
            return (
                f"{name} is impossible: with the jobs that it waits for it ends at {clock.say(one.need)} at the "
                f"earliest, and its deadline is {_until(task, clock)}."
            )


def _until(task: Task, clock: Clock) -> str:
    return "none" if task.deadline_ms is None else clock.say(task.deadline_ms)


def why_then(case: Case, schedule: Schedule, at: int, clock: Clock, ends: Mapping[int, Sequence[int]]) -> str:
    """When a job runs, and why not earlier. `ends` names the tasks that end at an instant."""
    one = schedule.placed[at]
    assert one is not None
    return _why_start(case, schedule, at, clock, ends) + _why_paused(one, clock)


def _why_paused(one: Placement, clock: Clock) -> str:
    pauses = [f"{clock.say(end)} to {clock.say(start)}" for (_, end), (start, _) in pairwise(one.segments)]
    return f" Paused from {named(pauses)}, so that all fits." if pauses else ""


def _why_start(case: Case, schedule: Schedule, at: int, clock: Clock, ends: Mapping[int, Sequence[int]]) -> str:
    task, one = case.board.tasks[at], schedule.placed[at]
    assert one is not None
    start = clock.say(one.start_ms)
    if task.job.started_ms is not None and one.end_ms <= 0:
        ended = f"Started at {start} and by its run time over at {clock.say(one.end_ms)}, before the plan starts"
        return f"{ended}: if it still runs, its run time is too short."
    if task.fixed_ms is not None:
        word = "Running since" if task.job.started_ms is not None else "Pinned to"
        return f"{word} {start}; it is not moved."
    if one.start_ms == task.release_ms:
        return f"Starts at {start}, as early as it may."
    last = [case.board.tasks[number].job.id for number in task.before if _ends_at(schedule, number, one.start_ms)]
    if last:
        return f"Starts at {start}, when {named(last)}, which it waits for, {_end(last)}."
    mine = {resource for resource, _ in one.mode.demand}
    freeing = sorted(
        case.board.tasks[number].job.id
        for number in ends.get(one.start_ms, ())
        if number != at and _shares(schedule.placed[number], mine)
    )
    held = [(case.board.resources[at], amount) for at, amount in one.mode.demand if at < case.board.named]
    wanted = " and ".join(things(amount, resource) for resource, amount in held)
    if len(held) < len(one.mode.demand):
        wanted += f" within the quota of {task.job.queue}"
    if freeing:
        return f"Starts at {start}, when {named(freeing)} {_end(freeing)}; before that there is no room for {wanted}."
    return f"Starts at {start}, the earliest with room for {wanted} as long as it runs."


def _end(names: Sequence[str]) -> str:
    return "ends" if len(names) == 1 else "end"


def _ends_at(schedule: Schedule, at: int, instant_ms: int) -> bool:
    one = schedule.placed[at]
    return one is not None and one.end_ms == instant_ms


def _shares(one: Placement | None, resources: set[int]) -> bool:
    return one is not None and any(resource in resources for resource, _ in one.mode.demand)


def why_given_up(case: Case, at: int, statuses: Mapping[str, JobStatus], clock: Clock) -> str:
    """Why a job does not run in the plan."""
    task = case.board.tasks[at]
    missing = [name for number in task.before if statuses.get(name := case.board.tasks[number].job.id) in _NOT_RUN]
    if missing:
        return f"Given up: it waits for {named(missing)}, which does not run."
    if task.fixed_ms is not None:
        word = "it runs since" if task.job.started_ms is not None else "it is pinned to"
        return f"Given up: {word} {clock.say(task.fixed_ms)} and is never moved, and there is no room for it."
    if task.deadline_ms is None:
        return "Given up: capacity ends before there is room for it."
    return f"Given up: no room for it was found before its deadline {clock.say(task.deadline_ms)}."


_NOT_RUN = (JobStatus.DROPPED, JobStatus.IMPOSSIBLE)
