"""The planning problem of a cluster as it is now: its nodes, its quotas, what runs and what waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuyield.decide.live.coming import coming_jobs
from gpuyield.decide.live.jobs import UNKNOWN_LENGTH, JobReader, LiveTerms, ReadWork
from gpuyield.decide.live.quotas import quotas_of
from gpuyield.decide.live.room import Room, room_of
from gpuyield.model.declaration import Teams
from gpuyield.model.evidence import Gap
from gpuyield.model.job import Amounts, Capacity, PlanJob, Problem, QueueQuota, ResourceQuota, Steps, amount_at
from gpuyield.model.kueue import ClusterSnapshot, WorkState
from gpuyield.plan.instance.quota import Limit, limits_of, steps_of
from gpuyield.units import SECOND_MS

_Spans = Sequence[tuple[int, int]]
"""What is held: until when (ms from the origin), and how much."""


@dataclass(frozen=True, slots=True)
class _Held:
    """What one running job holds of one resource, `until_ms` from the origin."""

    queue: str | None
    resource: str
    until_ms: int
    amount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveProblem:
    """A problem, the Workloads that it was made of (finished ones left out), and what is not known.

    `quotas` are as the cluster states them; the problem's may be widened for work that holds more than they allow.
    """

    seen: ClusterSnapshot
    problem: Problem
    quotas: tuple[QueueQuota, ...]
    work: tuple[ReadWork, ...]
    room: Room
    teams: Teams
    gaps: tuple[Gap, ...]


def live_problem(seen: ClusterSnapshot, terms: LiveTerms) -> LiveProblem:
    """The problem of a snapshot; its origin is the next full second.

    Work that runs is never moved. Where it holds more than there is now (a quota was halved, a node is gone) that
    much is taken to exist until it ends, so that new work gets none of it.
    """
    origin_ms = _origin_ms(seen)
    room = room_of(seen, terms.declaration.inventory)
    quotas = quotas_of(seen)
    reader = JobReader(seen, room, terms, origin_ms=origin_ms)
    work = tuple(reader.read(one) for one in seen.work if one.state is not WorkState.FINISHED)
    there = [one.job for one in work if one.job is not None]
    known = {one.id for one in seen.work}
    coming, later = coming_jobs(seen, reader, origin_ms=origin_ms)
    jobs, links = _linked([*there, *(one for one in coming if one.id not in known)], seen)
    problem = Problem(
        origin_ms=origin_ms,
        jobs=jobs,
        capacity=_capacity(room, jobs),
        zone=terms.declaration.reporting_zone,
        quotas=_widened(quotas.queues, jobs),
        nodes=room.groups,
    )
    mended, unkept = _without_clashes(problem)
    told = (gap for one in work for gap in (*one.gaps, *_of_unknown_length(one)))
    gaps = (*seen.gaps, *room.gaps, *quotas.gaps, *_miscounts(seen), *later, *unkept, *links, *told)
    return LiveProblem(
        seen=seen, problem=mended, quotas=quotas.queues, work=work, room=room, teams=terms.declaration.teams, gaps=gaps
    )


class WorkAsAsked(Mapping[str, ReadWork]):
    """The Workloads of a snapshot by uid as its problem has them, without the problem: each read when it is asked for.

    `works` are those that are not finished. Of ten thousand that wait few are asked for at any time.
    """

    def __init__(self, seen: ClusterSnapshot, terms: LiveTerms) -> None:
        room = room_of(seen, terms.declaration.inventory)
        self._reader = JobReader(seen, room, terms, origin_ms=_origin_ms(seen))
        self.works = tuple(one for one in seen.work if one.state is not WorkState.FINISHED)
        self._by_uid = {one.uid: one for one in self.works}
        self._read: dict[str, ReadWork] = {}

    def __getitem__(self, uid: str) -> ReadWork:
        if uid not in self._read:
            self._read[uid] = self._reader.read(self._by_uid[uid])
        return self._read[uid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uid)

    def __len__(self) -> int:
        return len(self._by_uid)


def _origin_ms(seen: ClusterSnapshot) -> int:
    return -(-seen.at_ms // SECOND_MS) * SECOND_MS


def _of_unknown_length(one: ReadWork) -> tuple[Gap, ...]:
    return (Gap(reason=f"Not planned: {one.why}.", where=one.work.id),) if one.why == UNKNOWN_LENGTH else ()


def _linked(jobs: Sequence[PlanJob], seen: ClusterSnapshot) -> tuple[tuple[PlanJob, ...], list[Gap]]:
    """Jobs with those predecessors that are still to end; one that is gone and not known to have succeeded is told."""
    known = {one.id for one in jobs}
    done = {one.id for one in seen.work if one.state is WorkState.FINISHED and one.succeeded}
    gaps = [
        Gap(reason=f"It comes after {name}, which is neither planned nor known to have succeeded.", where=job.id)
        for job in jobs
        for name in job.after
        if name not in known and name not in done
    ]
    return tuple(replace(job, after=tuple(one for one in job.after if one in known)) for job in jobs), gaps


def _capacity(room: Room, jobs: Sequence[PlanJob]) -> Capacity:
    """What exists, and for as long as running work holds more, that."""
    held: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for one in _held(jobs):
        held[one.resource].append((one.until_ms, one.amount))
    return Capacity(
        steps={name: _at_least(room.gpus.get(name, 0), held.get(name, ())) for name in sorted({*room.gpus, *held})}
    )


def _widened(quotas: Sequence[QueueQuota], jobs: Sequence[PlanJob]) -> tuple[QueueQuota, ...]:
    """Quotas that leave room for all that their queues hold already, until it ends."""
    held: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for one in _held(jobs):
        if one.queue is not None and one.resource.startswith("gpu/"):
            held[one.queue, one.resource].append((one.until_ms, one.amount))
    found: list[QueueQuota] = []
    for queue in quotas:
        resources = dict(queue.resources)
        for resource in [name for owner, name in held if owner == queue.queue]:
            its = held[queue.queue, resource]
            quota = resources.get(resource, ResourceQuota(nominal=0, borrow=0))
            if queue.cohort is None:
                nominal = _at_least(_plain(quota.nominal), its)
                quota = replace(quota, nominal=nominal) if len(nominal) > 1 else quota
            elif quota.borrow is not None:
                most = _at_least(_plain(quota.nominal) + _plain(quota.borrow), its)
                borrow = tuple((at, amount - _plain(quota.nominal)) for at, amount in most)
                quota = replace(quota, borrow=borrow) if len(borrow) > 1 else quota
            resources[resource] = quota
        found.append(replace(queue, resources=resources))
    return _lent_out(found, held)


def _lent_out(
    quotas: Sequence[QueueQuota], held: dict[tuple[str, str], list[tuple[int, int]]]
) -> tuple[QueueQuota, ...]:
    """What the queues of a cohort together hold beyond all they own is a quota, `cohort:NAME held`, until it ends."""
    more: list[QueueQuota] = []
    for cohort in sorted({one.cohort for one in quotas if one.cohort is not None}):
        members = [one for one in quotas if one.cohort == cohort]
        extra: dict[str, ResourceQuota] = {}
        for resource in sorted({name for one in members for name in one.resources}):
            own = sum(_plain(one.resources[resource].nominal) for one in members if resource in one.resources)
            its = [span for one in members for span in held.get((one.queue, resource), ())]
            steps = tuple((at, amount - own) for at, amount in _at_least(own, its))
            if len(steps) > 1:
                extra[resource] = ResourceQuota(nominal=steps)
        if extra:
            more.append(QueueQuota(queue=f"cohort:{cohort} held", cohort=cohort, resources=extra))
    return (*quotas, *more)


def _held(jobs: Sequence[PlanJob]) -> list[_Held]:
    return [
        _Held(job.queue, resource, job.started_ms + job.shapes[0].duration_ms, amount)
        for job in jobs
        if job.started_ms is not None
        for resource, amount in job.shapes[0].demand.items()
    ]


def _at_least(amount: int, held: _Spans) -> Steps:
    """The amount, and for as long as more is held, that."""
    steps: list[tuple[int, int]] = []
    for at in sorted({0, *(until for until, _ in held if until > 0)}):
        there = max(amount, sum(each for until, each in held if until > at))
        if not steps or steps[-1][1] != there:
            steps.append((at, there))
    return tuple(steps)


def _plain(amounts: Amounts) -> int:
    """An amount now."""
    return amount_at(steps_of(amounts), 0)


def _without_clashes(problem: Problem) -> tuple[Problem, tuple[Gap, ...]]:
    """Where running work still breaks a limit (what queues lend was lowered beneath it), its quotas are left out."""
    if not _breaks_a_limit(problem):
        return problem, ()
    reason = (
        "Running work holds more than the queues of its cohort lend now, so borrowing is not kept to in this plan: "
        "jobs may start later than it says."
    )
    held = _held(problem.jobs)
    eased = replace(problem, quotas=tuple(_unlent(one, held) for one in problem.quotas))
    return eased, (Gap(reason=reason, where="quotas"),)


def _breaks_a_limit(problem: Problem) -> bool:
    """Whether running work holds more than some limit at some time until all of it has ended."""
    held = _held(problem.jobs)
    return any(_is_broken(limit, held) for limit in limits_of(problem.quotas, problem.capacity).values())


def _is_broken(limit: Limit, held: Sequence[_Held]) -> bool:
    its = [one for one in held if one.resource == limit.resource and one.queue in limit.queues]
    changes = {0, *(one.until_ms for one in its), *(at_ms for at_ms, _ in limit.steps)}
    return any(
        sum(one.amount for one in its if at_ms < one.until_ms) > amount_at(limit.steps, at_ms) for at_ms in changes
    )


def _unlent(queue: QueueQuota, held: Sequence[_Held]) -> QueueQuota:
    """A quota without borrowing and lending, that leaves room for what its queue holds until it ends."""
    resources = {
        name: ResourceQuota(
            nominal=_at_least(
                _plain(quota.nominal),
                [(one.until_ms, one.amount) for one in held if one.queue == queue.queue and one.resource == name],
            )
        )
        for name, quota in queue.resources.items()
    }
    return replace(queue, cohort=None, resources=resources)


def _miscounts(seen: ClusterSnapshot) -> list[Gap]:
    """Queues whose status counts other GPUs than their Workloads hold: they were read at two instants."""
    held: dict[tuple[str, str], int] = defaultdict(int)
    for one in seen.work:
        if one.holds_quota:
            for flavor, gpus in one.held.items():
                held[one.cluster_queue or "", flavor] += gpus
    return [
        Gap(
            reason=f"Its status counts {counted} GPUs of {flavor} as reserved, its Workloads hold "
            f"{held[queue.name, flavor]}: something changed while they were read.",
            where=f"ClusterQueue {queue.name}",
        )
        for queue in seen.queues
        for flavor, counted in sorted((queue.reserved or {}).items())
        if counted != held[queue.name, flavor]
    ]
