"""Laws of replanning: as little as needed moves, with a reason, and the plan never falls behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.plan.online.events import Arrived, Cancelled, CapacityChanged, Event, Finished, Prolonged
from gpuyield.plan.online.replan import Replanned, replan
from gpuyield.plan.online.standing import Standing
from gpuyield.units import MINUTE_MS

FREEZE_MS = 10 * MINUTE_MS
POOL = 8


@dataclass(frozen=True)
class Happening:
    """One replan: the instant, and what is done to which job (numbers are taken modulo what is there)."""

    minutes: int
    kinds: list[tuple[str, int, int]]


def jobs(prefix: str) -> st.SearchStrategy[list[PlanJob]]:
    row = st.tuples(
        st.integers(1, POOL),
        st.integers(1, 60),
        st.integers(0, 90),
        st.one_of(st.none(), st.integers(0, 120)),
        st.one_of(st.none(), st.integers(0, 120)),
        st.integers(0, 5),
        st.lists(st.integers(0, 30), max_size=2),
        st.booleans(),
    )
    return st.lists(row, max_size=9).map(lambda rows: [_job(prefix, at, *row) for at, row in enumerate(rows)])


def _job(
    prefix: str,
    at: int,
    gpus: int,
    run: int,
    release: int,
    slack: int | None,
    due: int | None,
    weight: int,
    after: list[int],
    two_shapes: bool,
) -> PlanJob:
    shapes = [Shape(demand={"gpu": gpus}, duration_ms=run * MINUTE_MS)]
    if two_shapes:
        shapes.append(Shape(demand={"cpu": 1, "gpu": max(1, gpus // 2)}, duration_ms=2 * run * MINUTE_MS))
    return PlanJob(
        id=f"{prefix}{at}",
        shapes=tuple(shapes),
        release_ms=release * MINUTE_MS,
        deadline_ms=None if slack is None else (release + run + slack) * MINUTE_MS,
        due_ms=None if due is None else (release + run + due) * MINUTE_MS,
        weight=Decimal(weight),
        after=tuple(sorted({f"{prefix}{one % at}" for one in after})) if at else (),
    )


happenings = st.lists(
    st.builds(
        Happening,
        minutes=st.integers(0, 40),
        kinds=st.lists(
            st.tuples(
                st.sampled_from(["finish", "prolong", "cancel", "arrive", "more", "fewer"]),
                st.integers(0, 50),
                st.integers(1, 60),
            ),
            max_size=4,
        ),
    ),
    max_size=4,
)


@given(jobs("a"), jobs("b"), happenings)
@settings(max_examples=150, deadline=None)
def test_no_more_is_held_than_exists_except_by_what_runs_already(
    first: list[PlanJob], later: list[PlanJob], story: list[Happening]
) -> None:
    for _, _, after in told(first, later, story):
        standing = after.standing

        pending = {name: one for name, one in standing.placed.items() if one.start_ms > standing.now_ms}
        for one in pending.values():
            for at_ms in sorted({one.start_ms, *(other.start_ms for other in standing.placed.values())}):
                if one.start_ms <= at_ms < one.end_ms:
                    assert_enough(standing, at_ms)


@given(jobs("a"), jobs("b"), happenings)
@settings(max_examples=150, deadline=None)
def test_every_job_that_moves_has_one_reason_and_no_other_has(
    first: list[PlanJob], later: list[PlanJob], story: list[Happening]
) -> None:
    for before, _, after in told(first, later, story):
        moved = {
            name
            for name, one in before.placed.items()
            if name in after.standing.tasks and after.standing.placed.get(name) != one
        }

        # A prolonged job did not move: it ends later.
        starts_kept = {
            name
            for name in moved
            if name in after.standing.placed and after.standing.placed[name].start_ms == before.placed[name].start_ms
        }
        assert {move.job for move in after.moves} >= moved - starts_kept
        assert len({move.job for move in after.moves}) == len(after.moves)
        assert all(move.why.endswith(".") and ": " in move.why for move in after.moves)


@given(jobs("a"), jobs("b"), happenings)
@settings(max_examples=150, deadline=None)
def test_what_runs_is_never_moved_and_what_starts_soon_only_if_it_has_to(
    first: list[PlanJob], later: list[PlanJob], story: list[Happening]
) -> None:
    for before, events, after in told(first, later, story):
        now = after.standing.now_ms
        harmless = not any(isinstance(event, Prolonged | CapacityChanged) for event in events)

        for move in after.moves:
            assert before.placed[move.job].start_ms > now
            if harmless:
                assert before.placed[move.job].start_ms >= now + FREEZE_MS


@given(jobs("a"), jobs("b"), happenings)
@settings(max_examples=150, deadline=None)
def test_the_plan_never_falls_behind_where_nothing_takes_room_away(
    first: list[PlanJob], later: list[PlanJob], story: list[Happening]
) -> None:
    for before, events, after in told(first, later, story):
        if any(isinstance(event, Prolonged | CapacityChanged) for event in events):
            continue
        still = [name for name in before.placed if name in after.standing.tasks]

        old = sum((weight(before, name) for name in still), start=Decimal(0))
        new = sum((weight(after.standing, name) for name in after.standing.tasks), start=Decimal(0))
        # Hard deadlines come first: a plan that now meets them all may miss more due times.
        assert (meets_all(after.standing, after.standing), new) >= (meets_all(after.standing, before), old)
        lost = [name for name in still if name not in after.standing.placed]
        assert not lost or new > old


@given(jobs("a"), jobs("b"), happenings)
@settings(max_examples=100, deadline=None)
def test_nobody_starts_before_what_it_waits_for_has_ended(
    first: list[PlanJob], later: list[PlanJob], story: list[Happening]
) -> None:
    for _, _, after in told(first, later, story):
        placed = after.standing.placed
        for name, one in placed.items():
            if one.start_ms <= after.standing.now_ms:
                continue
            for other in after.standing.tasks[name].job.after:
                if other in after.standing.tasks:
                    assert placed[other].end_ms <= one.start_ms
            assert one.start_ms >= after.standing.tasks[name].release_ms
            deadline_ms = after.standing.tasks[name].deadline_ms
            assert deadline_ms is None or one.end_ms <= deadline_ms


@given(jobs("a"), jobs("b"), happenings)
@settings(max_examples=50, deadline=None)
def test_the_same_events_give_the_same_plan(first: list[PlanJob], later: list[PlanJob], story: list[Happening]) -> None:
    one, two = (told(first, later, story) for _ in range(2))

    assert [(after.moves, after.given_up) for *_, after in one] == [(after.moves, after.given_up) for *_, after in two]


def told(
    first: list[PlanJob], later: list[PlanJob], story: list[Happening]
) -> list[tuple[Standing, list[Event], Replanned]]:
    """A plan and what happens to it: the plan before, the events, and the plan after."""
    problem = Problem(origin_ms=0, jobs=tuple(first), capacity=capacity(POOL))
    standing = replan(Standing.of(problem, {}), [], now_ms=0, freeze_ms=0).standing
    waiting = list(later)
    found = []
    for happening in story:
        now = standing.now_ms + happening.minutes * MINUTE_MS
        events = happened(standing, happening, waiting, now)
        after = replan(standing, events, now_ms=now, freeze_ms=FREEZE_MS)
        found.append((standing, events, after))
        standing = after.standing
    return found


def happened(standing: Standing, happening: Happening, waiting: list[PlanJob], now: int) -> list[Event]:
    there = sorted(standing.tasks)
    running = sorted(name for name, one in standing.placed.items() if one.start_ms <= now)
    events: list[Event] = []
    touched: set[str] = set()
    for kind, number, minutes in happening.kinds:
        match kind:
            case "finish" if running and (name := running[number % len(running)]) not in touched:
                touched.add(name)
                events.append(Finished(job=name, at_ms=now))
            case "prolong" if running and (name := running[number % len(running)]) not in touched:
                touched.add(name)
                end = max(now, standing.placed[name].end_ms) + minutes * MINUTE_MS
                events.append(Prolonged(job=name, end_ms=end))
            case "cancel" if there and (name := there[number % len(there)]) not in touched:
                touched.add(name)
                events.append(Cancelled(job=name))
            case "arrive" if waiting:
                events.append(Arrived(job=waiting.pop(0)))
            case "more" | "fewer":
                events.append(CapacityChanged(capacity=capacity(POOL + (number % 4) * (1 if kind == "more" else -1))))
            case _:
                pass
    return events


def capacity(gpus: int) -> Capacity:
    return Capacity(steps={"cpu": ((0, 3),), "gpu": ((0, gpus),)})


def assert_enough(standing: Standing, at_ms: int) -> None:
    """By hand: what is held at an instant is there, unless what runs already holds too much by itself."""
    for resource, steps in zip(standing.resources, standing.steps, strict=True):
        there = next((amount for from_ms, amount in reversed(steps) if from_ms <= at_ms), 0)
        held = pending = 0
        for one in standing.placed.values():
            if one.start_ms <= at_ms < one.end_ms:
                amount = one.mode.amount(standing.resources.index(resource))
                held += amount
                pending += amount if one.start_ms > standing.now_ms else 0
        assert held <= there or not pending


def meets_all(asked: Standing, held: Standing) -> bool:
    """Whether a plan has a place for every job with a hard deadline that is asked for."""
    return all(name in held.placed for name, task in asked.tasks.items() if task.deadline_ms is not None)


def weight(standing: Standing, name: str) -> Decimal:
    """What a job counts for where it ends in time."""
    task, one = standing.tasks[name], standing.placed.get(name)
    ends: Sequence[int] = [end for end in (task.deadline_ms, task.due_ms) if end is not None]
    return task.weight if one is not None and ends and one.end_ms <= min(ends) else Decimal(0)
