"""Plans replayed on nodes, checked by an independent count of what each node holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuyield.model.job import Capacity, NodeGroup, PlanJob, Problem, Shape
from gpuyield.model.plan import NodeReplay, Run
from gpuyield.plan import make_plan
from gpuyield.plan.outlook.placement import replay_on_nodes
from gpuyield.units import MINUTE_MS


@pytest.mark.parametrize("seed", range(12))
def test_no_node_ever_holds_more_than_it_has_and_every_gang_has_what_it_asked_for(seed: int) -> None:
    problem, runs = made_up(seed)

    (replay,) = replay_on_nodes(problem, runs)

    sizes = node_sizes(problem)
    assert set(replay.where) | set(replay.unplaced) == set(runs)
    for name, held in replay.where.items():
        assert sum(gpus for _, gpus in held) == width(problem, name)
        assert len({node for node, _ in held}) == len(held)
        assert sum(gpus < sizes[node] for node, gpus in held) <= 1
    for at_ms in sorted({run.start_ms for run in runs.values()}):
        held_now = held_at(replay, runs, at_ms)
        assert all(held_now[node] <= sizes[node] for node in held_now)


@pytest.mark.parametrize("seed", range(12))
def test_a_job_is_unplaced_only_where_no_node_has_room_for_it(seed: int) -> None:
    problem, runs = made_up(seed)

    (replay,) = replay_on_nodes(problem, runs)

    sizes = node_sizes(problem)
    for name in replay.unplaced:
        wanted, start = width(problem, name), runs[name].start_ms
        earlier = {
            other for other, run in runs.items() if order(problem, other, run) < order(problem, name, runs[name])
        }
        held = held_at(replay, {other: runs[other] for other in earlier}, start)
        free = {node: size - held.get(node, 0) for node, size in sizes.items()}
        if wanted <= max(sizes.values()):
            assert max(free.values()) < wanted
        else:
            whole, rest = divmod(wanted, max(sizes.values()))
            empty = sum(free[node] == sizes[node] for node in sizes)
            assert empty < whole + 1 or sum(amount >= rest for amount in free.values()) < whole + (rest > 0)


@pytest.mark.parametrize("seed", range(12))
def test_with_the_spare_nodes_named_every_job_finds_its_place(seed: int) -> None:
    problem, runs = made_up(seed)
    (replay,) = replay_on_nodes(problem, runs)

    more = NodeGroup(flavor="h100", gpus=8, count=max(1, replay.spare_nodes or 0))
    added = 8 * more.count
    steps = tuple((at, amount + added) for at, amount in problem.capacity.steps["gpu/h100"])
    larger = Problem(
        origin_ms=0, jobs=problem.jobs, capacity=Capacity(steps={"gpu/h100": steps}), nodes=(more, *problem.nodes)
    )
    (again,) = replay_on_nodes(larger, runs)

    assert replay.spare_nodes is not None
    assert (not replay.unplaced) == (replay.spare_nodes == 0)
    assert not again.unplaced


def test_best_fit_keeps_a_node_whole_for_a_wide_job() -> None:
    problem, runs = fixed([("a", 4, 0, 10), ("b", 4, 1, 10), ("wide", 8, 2, 5)], nodes=2)

    (replay,) = replay_on_nodes(problem, runs)

    assert replay.unplaced == ()
    assert replay.where["a"] == replay.where["b"] == (("h100/1", 4),)
    assert replay.where["wide"] == (("h100/2", 8),)


def test_a_job_that_finds_no_node_is_named_with_the_nodes_that_would_do() -> None:
    # Six of eight GPUs on each of two nodes: four are free, and no node has four.
    problem, runs = fixed([("a", 6, 0, 10), ("b", 6, 0, 10), ("c", 4, 1, 5)], nodes=2)

    (replay,) = replay_on_nodes(problem, runs)

    assert (replay.unplaced, replay.spare_nodes) == (("c",), 1)
    assert (replay.fragmentation.most_gpus, replay.fragmentation.at_ms) == (4, 0)


def test_a_gang_of_twelve_takes_a_whole_node_and_a_half() -> None:
    problem, runs = fixed([("half", 4, 0, 10), ("wide", 12, 1, 5)], nodes=3)

    (replay,) = replay_on_nodes(problem, runs)

    assert sorted(replay.where["wide"]) == [("h100/1", 4), ("h100/2", 8)]
    assert replay.unused == ("h100/3",)


def test_what_others_hold_sits_on_the_last_nodes() -> None:
    problem, runs = fixed([("a", 8, 0, 10), ("b", 8, 0, 10)], nodes=2, exists=8)

    (replay,) = replay_on_nodes(problem, runs)

    assert replay.where == {"a": (("h100/1", 8),)}
    assert replay.unplaced == ("b",)


def test_without_nodes_nothing_is_said() -> None:
    problem, runs = fixed([("a", 8, 0, 10)], nodes=0)

    assert replay_on_nodes(problem, runs) == ()


def fixed(
    rows: list[tuple[str, int, int, int]], *, nodes: int, exists: int | None = None
) -> tuple[Problem, dict[str, Run]]:
    """Jobs that run where a row says: GPUs, start and end in minutes."""
    jobs = tuple(
        PlanJob(id=name, shapes=(Shape(flavor="h100", demand={"gpu/h100": gpus}, duration_ms=(end - at) * MINUTE_MS),))
        for name, gpus, at, end in rows
    )
    runs = {name: Run(shape=0, start_ms=at * MINUTE_MS, end_ms=end * MINUTE_MS) for name, _, at, end in rows}
    groups = (NodeGroup(flavor="h100", gpus=8, count=nodes),) if nodes else ()
    amount = 8 * nodes if exists is None else exists
    return Problem(origin_ms=0, jobs=jobs, capacity=Capacity(steps={"gpu/h100": ((0, amount),)}), nodes=groups), runs


def made_up(seed: int) -> tuple[Problem, dict[str, Run]]:
    """A plan of jobs of all widths on four nodes of eight."""
    chance = np.random.default_rng(seed)
    jobs = tuple(
        PlanJob(
            id=f"job-{at}",
            shapes=(
                Shape(
                    flavor="h100",
                    demand={"gpu/h100": int(chance.choice([1, 1, 2, 3, 4, 5, 6, 8, 12, 16]))},
                    duration_ms=int(chance.integers(5, 90)) * MINUTE_MS,
                ),
            ),
            release_ms=int(chance.integers(0, 200)) * MINUTE_MS,
        )
        for at in range(60)
    )
    problem = Problem(
        origin_ms=0,
        jobs=jobs,
        capacity=Capacity(steps={"gpu/h100": ((0, 32),)}),
        nodes=(NodeGroup(flavor="h100", gpus=8, count=4),),
    )
    plan = make_plan(problem, advise=False)
    return problem, {one.id: one.run for one in plan.jobs if one.run is not None}


def node_sizes(problem: Problem) -> dict[str, int]:
    sizes = [group.gpus for group in problem.nodes for _ in range(group.count)]
    return {f"h100/{at + 1}": size for at, size in enumerate(sizes)}


def width(problem: Problem, name: str) -> int:
    return next(job.shapes[0].demand["gpu/h100"] for job in problem.jobs if job.id == name)


def order(problem: Problem, name: str, run: Run) -> tuple[int, int, str]:
    return (run.start_ms, -width(problem, name), name)


def held_at(replay: NodeReplay, runs: dict[str, Run], at_ms: int) -> dict[str, int]:
    held: dict[str, int] = {}
    for name, run in runs.items():
        if run.start_ms <= at_ms < run.end_ms:
            for node, gpus in replay.where.get(name, ()):
                held[node] = held.get(node, 0) + gpus
    return held


def test_the_chronus_plan_finds_nodes_for_nearly_all_of_its_jobs(shared_data: Path) -> None:
    pytest.importorskip("duckdb")
    rows = started_at_once(shared_data / "traces" / "chronus_philly_slo.parquet", 4_000)
    peak = 300
    problem, runs = fixed(rows, nodes=peak)

    (replay,) = replay_on_nodes(problem, runs)

    assert not replay.unplaced
    assert len(replay.unused) > 0


def started_at_once(path: Path, most: int) -> list[tuple[str, int, int, int]]:
    import duckdb

    wanted = """
        select job_id, num_gpu, submit_time, duration from read_parquet($path)
        where num_gpu > 0 order by submit_time, job_id limit $most
        """
    rows = duckdb.connect().execute(wanted, {"path": str(path), "most": most}).fetchall()
    return [(f"job-{name}", gpus, at, at + length) for name, gpus, at, length in rows]
