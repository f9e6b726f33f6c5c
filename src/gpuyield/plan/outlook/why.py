"""Why a job runs when it does and not earlier, why it is given up, why it is impossible: one sentence each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuyield.model.job import amount_at
from gpuyield.model.plan import JobStatus
from gpuyield.plan.case import Case
from gpuyield.plan.instance.board import Task
from gpuyield.plan.instance.profile import Profile
from gpuyield.plan.instance.quota import said_as
from gpuyield.plan.instance.schedule import Placement, Schedule
from gpuyield.plan.instance.usage import profile_of
from gpuyield.plan.outlook.wording import Clock, named, things
from gpuyield.plan.proof.impossible import Impossible, Reason
from gpuyield.units import format_duration


@dataclass(frozen=True, slots=True)
class Starts:
    """Says of each job of a schedule why it does not start earlier.

    `free` is what the schedule leaves, `stops` names the jobs of which a part ends at an instant.
    """

    case: Case
    schedule: Schedule
    clock: Clock
    free: Profile
    stops: Mapping[int, Sequence[int]]

    @staticmethod
    def of(case: Case, schedule: Schedule, clock: Clock) -> Starts:
        """The reasons of a schedule."""
        stops: dict[int, list[int]] = {}
        for at, one in enumerate(schedule.placed):
            for _, end_ms in () if one is None else one.segments:
                stops.setdefault(end_ms, []).append(at)
        free = profile_of(case.steps, (one for one in schedule.placed if one is not None), 0)
        return Starts(case, schedule, clock, free, stops)

    def why(self, at: int) -> str:
        """When a job runs, and why not earlier."""
        one = self._placed(at)
        say = self.clock.say
        pauses = [f"{say(end)} to {say(start)}" for (_, end), (start, _) in pairwise(one.segments)]
        paused = f" Paused from {named(pauses)}, so that all fits." if pauses else ""
        return self._why_start(self.case.board.tasks[at], one) + paused

    def _placed(self, at: int) -> Placement:
        one = self.schedule.placed[at]
        assert one is not None
        return one

    def _why_start(self, task: Task, one: Placement) -> str:
        start = self.clock.say(one.start_ms)
        if task.job.started_ms is not None:
            end = self.clock.say(one.end_ms)
            if is_over(task, one):
                ended = f"Started at {start} and by its run time over at {end}, before the plan starts"
                return f"{ended}: if it still runs, its run time is too short."
            return f"Running since {start}, until {end} by its run time; it is not moved."
        if task.fixed_ms is not None:
            return f"Pinned to {start}; it is not moved."
        if one.start_ms == task.release_ms:
            return f"Starts at {start}, as early as it may."
        last = [number for number in task.before if self._placed(number).end_ms == one.start_ms]
        if last:
            return f"Starts at {start}, when {self._named(last)}, which it waits for, {_verb('end', last)}."
        return f"Starts at {start}{self._what_came_free(one)}"

    def _what_came_free(self, one: Placement) -> str:
        """What is short until a job starts, and what ends that: other jobs, or a calendar."""
        piece = bisect_right(self.free.times, one.start_ms - 1) - 1
        short = [(resource, amount) for resource, amount in one.mode.demand if self.free.free[resource][piece] < amount]
        if not short:
            return "; there is room for it earlier, too, and the plan is no better for that."
        rises = [(resource, amount) for resource, amount in short if self._exists(resource, one.start_ms - 1) < amount]
        if rises:
            return f", when {self._risen(rises[0][0], one.start_ms)}; it needs {rises[0][1]}."
        wanted = _wanted([(self.case.board.resources[resource], amount) for resource, amount in short])
        kept = {resource for resource, _ in short}
        freeing = [at for at in self.stops.get(one.start_ms, ()) if _shares(self._placed(at), kept)]
        if freeing:
            ended = [at for at in freeing if self._placed(at).end_ms == one.start_ms]
            word = "end" if ended == freeing else "pause" if not ended else "end or pause"
            what = f"{self._named(freeing)} {_verb(word, freeing)}"
        else:
            what = self._risen(short[0][0], one.start_ms)
        return f", when {what}; before that there is no room for {wanted}."

    def _exists(self, resource: int, at_ms: int) -> int:
        return amount_at(self.case.steps[resource], at_ms)

    def _risen(self, resource: int, at_ms: int) -> str:
        amount = self._exists(resource, at_ms)
        there = _wanted([(self.case.board.resources[resource], amount)])
        return f"there {'is' if amount == 1 else 'are'} {there} instead of {self._exists(resource, at_ms - 1)}"

    def why_given_up(self, at: int, statuses: Mapping[str, JobStatus]) -> str:
        """Why a job does not run in the plan."""
        task = self.case.board.tasks[at]
        missing = [one for one in task.before if statuses.get(self.case.board.tasks[one].job.id) in _NOT_RUN]
        if missing:
            return f"Given up: it waits for {self._named(missing)}, which does not run."
        if task.fixed_ms is not None:
            word = "it runs since" if task.job.started_ms is not None else "it is pinned to"
            there = f"{word} {self.clock.say(task.fixed_ms)} and is never moved, and there is no room for it"
            beside = self._never_moved_beside(task)
            return f"Given up: {there}" + (f" beside {self._named(beside)}." if beside else ".")
        if task.deadline_ms is None:
            return "Given up: capacity ends before there is room for it."
        return f"Given up: no room for it was found before its deadline {self.clock.say(task.deadline_ms)}."

    def _never_moved_beside(self, task: Task) -> list[int]:
        """The other fixed jobs that hold, while it would run, what it demands."""
        assert task.fixed_ms is not None
        longest = max((mode.duration_ms for mode in task.modes), default=0)
        demanded = {resource for mode in task.modes for resource, _ in mode.demand}
        return [
            other.index
            for other in self.case.board.tasks
            if other.fixed_ms is not None
            and (one := self.schedule.placed[other.index]) is not None
            and one.start_ms < task.fixed_ms + longest
            and one.end_ms > max(task.fixed_ms, 0)
            and _shares(one, demanded)
        ]

    def _named(self, tasks: Sequence[int]) -> str:
        return named(sorted(self.case.board.tasks[at].job.id for at in tasks))


def is_over(task: Task, one: Placement) -> bool:
    """Whether a started job has ended before the plan starts, if its run time is right."""
    return task.job.started_ms is not None and one.end_ms <= 0


def _verb(word: str, who: Sequence[int]) -> str:
    if len(who) > 1:
        return word
    return " or ".join(f"{part}s" for part in word.split(" or "))


def _wanted(amounts: Sequence[tuple[str, int]]) -> str:
    """`4 GPUs`, `4 GPUs in all and within the quota of evals`, `4 GPUs and 2 of cpu`."""
    where: dict[str, list[str]] = {}
    for resource, amount in amounts:
        base, share = said_as(resource)
        where.setdefault(things(amount, base), []).append(share.replace(" of", " within", 1) or " in all")
    said = [what + ("" if shares == [" in all"] else " and".join(shares)) for what, shares in where.items()]
    return " and ".join(said)


def _shares(one: Placement, resources: set[int]) -> bool:
    return any(resource in resources for resource, _ in one.mode.demand)


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


_NOT_RUN = (JobStatus.DROPPED, JobStatus.IMPOSSIBLE)
