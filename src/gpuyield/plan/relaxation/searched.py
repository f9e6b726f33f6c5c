"""What would make a problem fit: more GPUs for a while, later deadlines, or jobs left out. Each is checked by a plan.

`irreducible` is true where a certificate shows for every way of making the relaxation one GPU, one ms or one job
smaller that it does not do; else it is None (nobody knows).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from gpuyield.model.plan import AddGpus, Certificate, Drop, GpuNeed, Less, MoveDeadline, Relaxation
from gpuyield.plan.case import Case
from gpuyield.plan.deadlines import QUICK_WORK, find_plan, prove, rule_schedules
from gpuyield.plan.instance.board import is_gpu
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import Manner, Schedule, ShapeChoice
from gpuyield.plan.proof.impossible import Reason, impossible_certificate, seconds
from gpuyield.plan.relaxation.behind import behind, lateness
from gpuyield.plan.relaxation.ready import ready_relaxations

ALL_WINDOWS_TASKS = 12
"""Up to so many jobs every window between two instants that matter is tried; beyond, one window is shrunk."""
MOST_LESS = 16
MOST_LESS_PAIRS = 6_000
"""Beyond so many jobs in a relaxation (and times jobs in all) it is not proven that one less does not do."""
MOST_DOUBLINGS = 24
SEARCHED_TASKS = 300
"""Beyond so many jobs relaxations are read off the plans that are known."""


def relaxations(
    case: Case, best: Schedule, certificate: Certificate | None, needs: Sequence[GpuNeed], budget: Budget
) -> list[Relaxation]:
    """The relaxations found, in the order add-gpus, move-deadline, drop; `best` is the best plan known."""
    if len(case.board.tasks) > SEARCHED_TASKS:
        return ready_relaxations(case, best, needs, budget)
    found: list[Relaxation] = []
    for resource in _resources_to_add(case, certificate):
        added = add_gpus(case, resource, certificate, budget)
        if added is not None:
            found.append(added)
            break
    moved = move_deadlines(case, best, budget)
    if moved is not None:
        found.append(moved)
    dropped = drop_jobs(case, best, budget)
    if dropped is not None:
        found.append(dropped)
    return found


def _resources_to_add(case: Case, certificate: Certificate | None) -> list[int]:
    """The resource that the certificate names; else every GPU resource."""
    if certificate is not None and "resource" in certificate:
        return [case.board.resources.index(certificate["resource"])]
    if any(one.reason is not Reason.TOO_WIDE and not one.lacks_room for one in case.impossible):
        return []
    return [at for at, name in enumerate(case.board.resources) if is_gpu(name)]


def _solves(case: Case, budget: Budget) -> Schedule | None:
    """A plan that runs every job and meets all hard deadlines."""
    found = find_plan(case, budget, work=QUICK_WORK).schedule
    return found if found is not None and not found.missing() else None


def add_gpus(case: Case, resource: int, certificate: Certificate | None, budget: Budget) -> AddGpus | None:
    """The fewest more of a resource with which a plan was found, in the shortest window, the earliest first."""
    horizon = max((tail for tail in case.windows.tails if tail is not None), default=0)
    if horizon <= 0:
        return None
    least = 1
    if certificate is not None and certificate["kind"] == "interval":
        least = max(1, certificate["extra_gpus"])
    amount = _fewest_more(case, resource, horizon, least, budget)
    if amount is None:
        return None
    window = _shortest_window(case, resource, amount, horizon, certificate, budget)
    from_ms, to_ms = window
    raised = case.with_added(resource, amount, from_ms, to_ms)
    schedule = _solves(raised, budget)
    if schedule is None:
        return None
    less_case = case.with_added(resource, amount - 1, from_ms, to_ms) if amount > 1 else case
    proof = certificate if amount == 1 and certificate is not None else prove(less_case, budget, work=QUICK_WORK)
    if proof is not None and proof["kind"] == "impossible":
        # Its figures speak of the capacity that the inputs state.
        listed = {one["id"] for one in proof["jobs"]}
        same = [one for one in case.impossible if case.board.tasks[one.task].job.id in listed]
        proof = impossible_certificate(case.board, same)
    less = () if proof is None else (Less(change={"amount": amount - 1}, certificate=proof),)
    return AddGpus(
        resource=case.board.resources[resource],
        amount=amount,
        from_ms=from_ms,
        to_ms=to_ms,
        witness=raised.runs(schedule),
        less=less,
        irreducible=True if less else None,
    )


def _fewest_more(case: Case, resource: int, horizon: int, least: int, budget: Budget) -> int | None:
    def does(amount: int) -> bool:
        return _solves(case.with_added(resource, amount, 0, horizon), budget) is not None

    amount, failed = least, least - 1
    for _ in range(MOST_DOUBLINGS):
        if does(amount):
            break
        if budget.left <= 0 or budget.stopped:
            return None
        failed, amount = amount, amount * 2
    else:
        return None
    while failed + 1 < amount:
        middle = (failed + amount) // 2
        if does(middle):
            amount = middle
        else:
            failed = middle
    return amount


def _shortest_window(
    case: Case, resource: int, amount: int, horizon: int, certificate: Certificate | None, budget: Budget
) -> tuple[int, int]:
    points = _instants(case, resource, horizon)
    needed = _needed_inside(certificate, case.board.resources[resource], amount)

    def does(window: tuple[int, int]) -> bool:
        if not needed(window):
            return False
        return _solves(case.with_added(resource, amount, *window), budget) is not None

    if len(case.board.tasks) <= ALL_WINDOWS_TASKS:
        windows = [(low, high) for at, low in enumerate(points) for high in points[at + 1 :]]
        windows.sort(key=lambda one: (one[1] - one[0], one[0]))
        return next((one for one in windows if does(one)), (0, horizon))
    low, high = 0, len(points) - 1
    high = _last_that_does(lambda at: does((points[0], points[at])), high, 0)
    low = _last_that_does(lambda at: does((points[at], points[high])), low, high)
    return points[low], points[high]


def _last_that_does(does: Callable[[int], bool], good: int, bad: int) -> int:
    """Halve from an index that does towards one that does not."""
    while abs(good - bad) > 1:
        middle = (good + bad) // 2
        if does(middle):
            good = middle
        else:
            bad = middle
    return good


def _instants(case: Case, resource: int, horizon: int) -> list[int]:
    points = {0, horizon, *(at for at, _ in case.steps[resource])}
    for task in case.board.tasks:
        head, tail = case.windows.heads[task.index], case.windows.tails[task.index]
        for mode in case.windows.modes[task.index]:
            points |= {head, head + mode.duration_ms}
            if tail is not None:
                points |= {tail, tail - mode.duration_ms}
    return sorted(at for at in points if 0 <= at <= horizon)


def _needed_inside(certificate: Certificate | None, resource: str, amount: int) -> Callable[[tuple[int, int]], bool]:
    """Whether a window gives an overloaded interval the GPU time that it lacks."""
    if certificate is None or certificate["kind"] != "interval" or certificate["resource"] != resource:
        return lambda window: True
    from_ms, to_ms = certificate["from_ms"], certificate["to_ms"]
    lacking = certificate["required_gpu_ms"] - certificate["capacity_gpu_ms"]

    def gives(window: tuple[int, int]) -> bool:
        shared = min(window[1], to_ms) - max(window[0], from_ms)
        return bool(shared > 0 and shared * amount >= lacking)

    return gives


def move_deadlines(case: Case, best: Schedule, budget: Budget) -> MoveDeadline | None:
    """Few deadlines moved, and these by little: from schedules that run everything, however late."""
    late = [Manner(ShapeChoice.EARLIEST, overrun=True)]
    schedules = rule_schedules(case, budget, late)
    schedules.append(behind(case, best))
    ranked = sorted(
        (
            (len(moved), sum(by for _, by in moved), at, moved)
            for at, schedule in enumerate(schedules)
            if not schedule.missing() and (moved := lateness(case, schedule))
        ),
        key=lambda entry: entry[:3],
    )
    if not ranked:
        return None
    *_, moved = ranked[0]
    by_ms = dict(moved)
    later = case.with_later(by_ms)
    found = _solves(later, budget)
    witness = later.runs(found) if found is not None else case.runs(schedules[ranked[0][2]])
    less = _none_smaller(
        (
            ({"id": name, "by_s": seconds(by - 1)}, case.with_later({**by_ms, name: by - 1}))
            for name, by in sorted(by_ms.items())
        ),
        len(by_ms),
        len(case.board.tasks),
        budget,
    )
    return MoveDeadline(
        jobs=tuple(sorted(by_ms.items())), witness=witness, less=less, irreducible=True if less else None
    )


def drop_jobs(case: Case, best: Schedule, budget: Budget) -> Drop | None:
    """The jobs that the best plan gives up."""
    gone = sorted(task.job.id for at, task in enumerate(case.board.tasks) if best.placed[at] is None)
    if not gone or len(gone) == len(case.board.tasks):
        return None
    rest = case.without(gone)
    schedule = _solves(rest, budget)
    if schedule is None:
        return None
    less = _none_smaller(
        (({"id": name}, case.without(one for one in gone if one != name)) for name in gone),
        len(gone),
        len(case.board.tasks),
        budget,
    )
    return Drop(jobs=tuple(gone), witness=rest.runs(schedule), less=less, irreducible=True if less else None)


def _none_smaller(
    smaller: Iterable[tuple[dict[str, object], Case]], count: int, tasks: int, budget: Budget
) -> tuple[Less, ...]:
    """A proof for every smaller change; empty where one has none, or where that would be too many."""
    if count > MOST_LESS or count * tasks > MOST_LESS_PAIRS:
        return ()
    found = []
    for change, case in smaller:
        proof = prove(case, budget, work=QUICK_WORK)
        if proof is None:
            return ()
        found.append(Less(change=change, certificate=proof))
    return tuple(found)
