"""Batch jobs as they were seen, and the GPUs that were there for them.

A batch job is what a Job (or another owner that runs to completion) owns, and a pod without an owner that ended by
itself. All else is held by services, which are taken as they were.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpuyield.account.account import Accounting
from gpuyield.account.lives import Ending
from gpuyield.account.nodes import NodeState
from gpuyield.account.pods import Holding, Waiting
from gpuyield.model.gpu import DeviceKind
from gpuyield.model.job import Capacity, PlanJob, Shape
from gpuyield.units import Window, merge_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """A batch job as it ran: whole GPUs at once, submitted at `created_ms`, running for `run_ms` in all.

    `ended_ms` None: it had not ended. `flavor` is the one it ran on (None: not known).
    """

    namespace: str
    name: str
    workload: str
    team: str
    gpus: int
    flavor: str | None
    created_ms: int
    started_ms: int
    ended_ms: int | None
    run_ms: int

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def observed_jobs(accounting: Accounting) -> tuple[ObservedJob, ...]:
    """The batch jobs that were submitted in the window, in order of submission."""
    created: dict[tuple[str, str], int] = {}
    for wait in accounting.pods.waiting:
        key = (wait.owner.namespace, wait.job or wait.owner.workload)
        created[key] = min(created.get(key, wait.from_ms), wait.from_ms)
    groups: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for holding in accounting.pods.holdings:
        if is_batch(holding) and holding.kind is DeviceKind.WHOLE:
            groups[holding.namespace, holding.job or holding.pod].append(holding)
    found = []
    for (namespace, name), held in sorted(groups.items()):
        job = _job(accounting, namespace, name, held, created.get((namespace, name)))
        if job and accounting.window.from_ms <= job.created_ms < accounting.window.to_ms:
            found.append(job)
    return tuple(sorted(found, key=lambda job: (job.created_ms, job.id)))


def is_batch(holding: Holding) -> bool:
    """Whether a pod belongs to work that runs to completion."""
    return holding.job is not None or (holding.owner.workload == holding.pod and holding.ending is Ending.TIME)


def _job(
    accounting: Accounting, namespace: str, name: str, held: list[Holding], created_ms: int | None
) -> ObservedJob | None:
    runs = merge_windows(
        Window(one.running_ms, one.to_ms) for one in held if one.running_ms is not None and one.running_ms < one.to_ms
    )
    if not runs:
        return None
    first = min(held, key=lambda one: one.from_ms)
    state = accounting.nodes.at(first.node, first.from_ms)
    began = min(one.from_ms for one in held)
    return ObservedJob(
        namespace=namespace,
        name=name,
        workload=first.owner.workload,
        team=first.owner.team,
        gpus=most_devices(held),
        flavor=state.flavor if state else None,
        created_ms=min(began, created_ms) if created_ms is not None else began,
        started_ms=runs[0].from_ms,
        ended_ms=None if any(one.ending is Ending.OPEN for one in held) else max(one.to_ms for one in held),
        run_ms=sum(window.length_ms for window in runs),
    )


def most_devices(held: Iterable[Holding | Waiting]) -> int:
    """The most devices that are held or asked for at once."""
    changes = sorted(change for one in held for change in ((one.from_ms, one.devices), (one.to_ms, -one.devices)))
    level = most = 0
    for _, change in changes:
        level += change
        most = max(most, level)
    return most


def plan_jobs(jobs: Iterable[ObservedJob], *, origin_ms: int) -> tuple[PlanJob, ...]:
    """Ended jobs as planning jobs: released when they were submitted, as long as they ran, without a deadline."""
    return tuple(
        PlanJob(
            id=job.id,
            shapes=(
                Shape(flavor=job.flavor, demand={resource_of(job.flavor): job.gpus}, duration_ms=max(1, job.run_ms)),
            ),
            release_ms=job.created_ms - origin_ms,
            weight=Decimal(1),
            team=job.team,
            family=job.workload,
        )
        for job in jobs
        if job.ended_ms is not None
    )


def resource_of(flavor: str | None) -> str:
    """What a plan calls the GPUs of a flavor."""
    return f"gpu/{flavor}" if flavor else "gpu"


def batch_capacity(accounting: Accounting, *, origin_ms: int, at_ms: int | None = None) -> Capacity:
    """Whole GPUs of each flavor that take work and that no service holds, over time.

    With `at_ms` what is so at that instant holds for ever: services stay as they are then.
    """
    changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    # What was so at the end of what was read goes on.
    end_ms = accounting.observed[-1].to_ms if accounting.observed else 0

    def add(state: NodeState, part: Window, amount: int) -> None:
        change = changes[resource_of(state.flavor)]
        change[part.from_ms] += amount
        if part.to_ms < end_ms:
            change[part.to_ms] -= amount

    for node in accounting.free:
        for state in accounting.nodes.states[node]:
            if state.usable:
                add(state, Window(state.from_ms, state.to_ms), state.cards - state.broken)
    for holding in accounting.pods.holdings:
        if holding.node not in accounting.free or is_batch(holding):
            continue
        for state in accounting.nodes.states[holding.node]:
            part = Window(holding.from_ms, holding.to_ms).cut(Window(state.from_ms, state.to_ms))
            if part and state.usable:
                add(state, part, -holding.devices)
    return Capacity(steps={resource: _steps(change, origin_ms, at_ms) for resource, change in sorted(changes.items())})


def _steps(changes: dict[int, int], origin_ms: int, at_ms: int | None) -> tuple[tuple[int, int], ...]:
    level = 0
    steps: list[tuple[int, int]] = []
    for edge in sorted(changes):
        if at_ms is not None and edge > at_ms:
            break
        level += changes[edge]
        if steps and steps[-1][0] == edge - origin_ms:
            steps.pop()
        if not steps or steps[-1][1] != max(0, level):
            steps.append((edge - origin_ms, max(0, level)))
    if at_ms is not None:
        return ((min(at_ms - origin_ms, 0), max(0, level)),)
    return tuple(steps)


def service_gpus(accounting: Accounting, at_ms: int) -> dict[str, int]:
    """Whole GPUs of each flavor that services hold at an instant."""
    held: dict[str, int] = defaultdict(int)
    for holding in accounting.pods.holdings:
        if not is_batch(holding) and holding.from_ms <= at_ms < holding.to_ms and holding.kind is DeviceKind.WHOLE:
            state = accounting.nodes.at(holding.node, at_ms)
            held[resource_of(state.flavor if state else None)] += holding.devices
    return dict(held)
