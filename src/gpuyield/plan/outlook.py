"""What a finished plan means beyond its pool of GPUs: how likely each job is late, and whether it fits on nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any  # numba's compiled functions have no types.

from gpuyield.model.job import Problem
from gpuyield.model.plan import NodeReplay, Plan
from gpuyield.plan.execution import late_in
from gpuyield.plan.explain import named, plural
from gpuyield.plan.placement import replay_on_nodes
from gpuyield.plan.risk import chances_of_lateness

LIKELY = Fraction(1, 5)
"""A job that is late more often than this is named."""


def with_outlook(problem: Problem, plan: Plan, *, execute: Callable[..., Any] = late_in) -> Plan:
    """The plan with chances of lateness and its replay on nodes, and a sentence on each where it matters."""
    runs = {one.id: one.run for one in plan.jobs if one.run is not None}
    chances = chances_of_lateness(problem, runs, seed=plan.seed, execute=execute)
    nodes = replay_on_nodes(problem, runs)
    if not chances and not nodes:
        return plan
    said = [*_chances(chances), *(line for one in nodes for line in _nodes(one))]
    return replace(
        plan,
        jobs=tuple(replace(one, p_late=chances.get(one.id)) for one in plan.jobs),
        nodes=nodes,
        explanation=(*plan.explanation, *said),
    )


def _chances(chances: dict[str, Fraction]) -> list[str]:
    if not chances:
        return []
    likely = sorted((name for name, chance in chances.items() if chance > LIKELY), key=lambda name: -chances[name])
    expected = float(sum(chances.values()))
    told = f"With run times as they vary, {expected:.1f} of {plural(len(chances), 'job')} are expected to be late"
    if not likely:
        return [f"{told}, none of them in more than one case of five."]
    worst = f"{named(likely)} in more than one case of five"
    return [f"{told}: {worst}."]


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
