"""Laws of quotas read from a cluster: each GPU is in one place, and what is borrowed is lent by somebody."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from doubles.kueue_objects import Object, flavor, job, local_queue, node, problem, queue, seen, workload
from gpuyield.decide.live.problem import LiveProblem
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.plan import make_plan
from gpuyield.units import HOUR_MS

FLAVORS = ("a100", "h100")
COHORTS = ("east", "west", "root")


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Up to four queues, some of them in a tree of cohorts, with work that runs within quota and work that waits."""
    limits = st.none() | st.integers(0, 4)
    queues: list[Object] = []
    for at in range(draw(st.integers(1, 4))):
        quotas = {}
        for name in draw(st.lists(st.sampled_from(FLAVORS), min_size=1, unique=True)):
            cohort = draw(st.sampled_from((None, *COHORTS)))
            borrow, lend = (draw(limits) if cohort else None for _ in range(2))
            quotas[name] = {"nominalQuota": draw(st.integers(0, 6))}
            quotas[name] |= {} if borrow is None else {"borrowingLimit": borrow}
            quotas[name] |= {} if lend is None else {"lendingLimit": lend}
        queues.append(queue(f"q{at}", quotas, **({"cohortName": cohort} if cohort else {})))
    cohorts = [
        {"metadata": {"name": name}, "spec": {**({} if name == "root" else {"parentName": "root"}), **_owned(draw)}}
        for name in COHORTS
    ]
    names = [f"j{at}" for at in range(draw(st.integers(0, 6)))]
    works = [
        workload(
            name,
            draw(st.integers(1, 4)),
            queue=f"l{(into := draw(st.integers(0, len(queues) - 1)))}",
            on=draw(st.sampled_from(("", *FLAVORS))),
            cluster_queue=f"q{into}",
        )
        for name in names
    ]
    return seen(
        resourceflavors=[flavor(name, gpu=name) for name in FLAVORS],
        clusterqueues=queues,
        cohorts=cohorts,
        localqueues=[local_queue(f"l{at}", f"q{at}") for at in range(len(queues))],
        workloads=works,
        jobs=[job(name, expected_duration=f"{draw(st.integers(1, 3))}h") for name in names],
        nodes=[node(f"{name}-{at}", 4, gpu=name) for name in FLAVORS for at in range(draw(st.integers(0, 3)))],
    )


def _owned(draw: st.DrawFn) -> Object:
    gpus = draw(st.integers(0, 3))
    return {"resourceGroups": queue("x", {"h100": {"nominalQuota": gpus}})["spec"]["resourceGroups"]} if gpus else {}


def _nominal(live: LiveProblem) -> dict[str, int]:
    total: dict[str, int] = defaultdict(int)
    for one in live.quotas:
        for resource, quota in one.resources.items():
            assert isinstance(quota.nominal, int)
            total[resource] += quota.nominal
    return dict(total)


@given(clusters())
@settings(deadline=None)
def test_every_gpu_of_quota_is_counted_once(cluster: ClusterSnapshot) -> None:
    live = problem(cluster)

    stated: dict[str, int] = defaultdict(int)
    for owned in [one.quotas for one in cluster.queues] + [one.quotas for one in cluster.cohorts]:
        for quota in owned:
            stated[f"gpu/{quota.flavor}"] += quota.nominal
    assert _nominal(live) == dict(stated)


@given(clusters())
@settings(deadline=None, max_examples=60)
def test_what_is_planned_beyond_a_queues_own_quota_is_lent_by_others(cluster: ClusterSnapshot) -> None:
    live = problem(cluster)

    plan = make_plan(live.problem, seed=0)

    after_all_running = {
        job.started_ms + job.shapes[0].duration_ms for job in live.problem.jobs if job.started_ms is not None
    }
    for at_ms in (max(after_all_running, default=0), HOUR_MS * 9, HOUR_MS * 2):
        if at_ms < max(after_all_running, default=0):
            continue
        held: dict[tuple[str, str], int] = defaultdict(int)
        for one, made in zip(live.problem.jobs, plan.jobs, strict=True):
            if made.run is not None and made.run.start_ms <= at_ms < made.run.end_ms and one.queue is not None:
                for resource, amount in one.shapes[made.run.shape].demand.items():
                    held[one.queue, resource] += amount
        _check_borrowing(live, held)


def _check_borrowing(live: LiveProblem, held: dict[tuple[str, str], int]) -> None:
    """Kueue's rule, queue by queue: beyond what it keeps for itself a queue takes from what all lend."""
    pools: dict[tuple[str, str], int] = defaultdict(int)
    for one in live.quotas:
        for resource, quota in one.resources.items():
            assert isinstance(quota.nominal, int)
            assert quota.lend is None or isinstance(quota.lend, int)
            its = held[one.queue, resource]
            if one.cohort is None:
                assert its <= quota.nominal
                continue
            assert quota.borrow is None or isinstance(quota.borrow, int)
            assert quota.borrow is None or its <= quota.nominal + quota.borrow
            lent = quota.nominal if quota.lend is None else min(quota.nominal, quota.lend)
            pools[one.cohort, resource] += lent - max(0, its - (quota.nominal - lent))
    assert all(left >= 0 for left in pools.values())


@given(clusters())
@settings(deadline=None, max_examples=60)
def test_running_work_is_never_moved_and_never_a_mistake(cluster: ClusterSnapshot) -> None:
    live = problem(cluster)

    plan = make_plan(live.problem, seed=0)

    for one in live.problem.jobs:
        if one.started_ms is not None:
            run = plan.job(one.id).run
            assert run is not None
            assert run.start_ms == one.started_ms
