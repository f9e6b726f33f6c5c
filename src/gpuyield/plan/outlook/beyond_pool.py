"""What a finished plan means beyond its pool of GPUs: how likely each job is late, and whether it fits on nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from gpuyield.model.duration import DurationBasis
from gpuyield.model.job import Problem
from gpuyield.model.plan import NodeReplay, Plan
from gpuyield.plan.instance.board import gpus_of
from gpuyield.plan.kernel.search import lane_for
from gpuyield.plan.online.durations import CAREFUL
from gpuyield.plan.outlook.execution import late_in
from gpuyield.plan.outlook.placement import replay_on_nodes
from gpuyield.plan.outlook.risk import chances_of_lateness
from gpuyield.plan.outlook.wording import named, plural
from gpuyield.units import HOUR_MS

NEGLIGIBLE = 0.05
"""So few late jobs in the mean are none."""

LIKELY = Fraction(1, 5)
"""A job that is late more often than this is named."""


def with_outlook(problem: Problem, plan: Plan) -> Plan:
    """The plan with chances of lateness and its replay on nodes, and a sentence on each where it matters."""
    runs = {one.id: one.run for one in plan.jobs if one.run is not None}
    chances = chances_of_lateness(problem, runs, seed=plan.seed, execute=lane_for(len(runs))[late_in.__name__])
    nodes = replay_on_nodes(problem, runs)
    if not chances and not nodes and not problem.families:
        return plan
    said = [*_families(problem, plan), *_chances(chances), *(line for one in nodes for line in _nodes(one))]
    return replace(
        plan,
        jobs=tuple(replace(one, p_late=chances.get(one.id)) for one in plan.jobs),
        nodes=nodes,
        explanation=(*plan.explanation, *said),
    )


def _families(problem: Problem, plan: Plan) -> list[str]:
    """What the run times rest on, and what the work comes to by the mean, in which the long runs are."""
    families = {one.family: one for one in problem.families}
    if not families:
        return []
    careful = [name for name, one in families.items() if one.basis is DurationBasis.FAMILY and one.quantile == CAREFUL]
    thin = [name for name, one in families.items() if one.basis is not DurationBasis.FAMILY]
    planned = expected = 0
    runs = {one.id: one.run for one in plan.jobs}
    for job in problem.jobs:
        run, known = runs.get(job.id), families.get(job.family or "")
        if run is None or known is None or known.mean_ms is None:
            continue
        shape = job.shapes[run.shape]
        planned += gpus_of(shape) * shape.duration_ms
        expected += gpus_of(shape) * known.mean_ms
    said = []
    if planned:
        told = f"By the mean of their families' runs these jobs take {expected / HOUR_MS:,.0f} GPU-hours"
        said.append(f"{told}; planned for them are {planned / HOUR_MS:,.0f}.")
    if careful:
        said.append(f"Planned at the 90th percentile, for they often overran: {named(sorted(careful))}.")
    if thin:
        said.append(f"Too few runs to know how long they take, so all runs are taken: {named(sorted(thin))}.")
    return said


def _chances(chances: dict[str, Fraction]) -> list[str]:
    if not chances:
        return []
    likely = sorted((name for name, chance in chances.items() if chance > LIKELY), key=lambda name: -chances[name])
    expected = float(sum(chances.values()))
    if expected < NEGLIGIBLE:
        return ["With run times as they vary, no job is expected to be late."]
    told = f"With run times as they vary, {expected:.1f} of {len(chances)} jobs are late in the mean"
    if not likely:
        return [f"{told}, none of them in more than one case of five."]
    return [f"{told}, in more than one case of five: {named(likely)}."]


def _nodes(one: NodeReplay) -> Sequence[str]:
    what = f"{one.nodes} {one.flavor} node" + ("" if one.nodes == 1 else "s")
    if one.unplaced:
        more = (
            f"{plural(one.spare_nodes, 'more node')} would do"
            if one.spare_nodes is not None
            else "how many more would do was not found"
        )
        where = f"no node slot at {'its' if len(one.unplaced) == 1 else 'their'} planned start"
        finds = "finds" if len(one.unplaced) == 1 else "find"
        return [f"On {what}, {plural(len(one.unplaced), 'job')} {finds} {where}: {named(one.unplaced)}; {more}."]
    if one.unused:
        return [f"On {what} every job finds its place; {plural(len(one.unused), 'node')} never needed."]
    return [f"On {what} every job finds its place."]
