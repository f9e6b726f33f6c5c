"""Which declared policy, limits and deadline an outcome is measured by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from gpuyield.model.declaration import BatchFamily, Declaration, Metric, Selector, Service
from gpuyield.model.outcome import Judging, Outcome

Workload = tuple[str, str]
Declared = TypeVar("Declared", Service, BatchFamily)


def judging_of(
    declaration: Declaration, deadlines: Mapping[Workload, int] | None = None
) -> Callable[[Outcome], Judging]:
    """How to judge an outcome: by the service it names or whose namespace it is in, else by its batch family.

    `deadlines` are those of jobs that ran, by namespace and workload, in epoch ms. A service's latency objectives
    hold for each of its requests. Labels are not known for an outcome, so a selector is held against its namespace;
    where several families share one, that whose name the workload carries is meant.
    """
    known: dict[tuple[str, str, str, str], Judging] = {}

    def judging(outcome: Outcome) -> Judging:
        key = (outcome.kind, outcome.service, outcome.namespace, outcome.workload)
        if key not in known:
            known[key] = _judging(declaration, deadlines or {}, outcome)
        return known[key]

    return judging


def _judging(declaration: Declaration, deadlines: Mapping[Workload, int], outcome: Outcome) -> Judging:
    deadline_ms = deadlines.get((outcome.namespace, outcome.workload))
    service = _service_of(declaration, outcome)
    if service:
        return Judging(policy=service.outcome, limits_us=_limits(service), deadline_ms=deadline_ms)
    family = _family_of(declaration, outcome)
    return Judging(policy=family.outcome if family else None, deadline_ms=deadline_ms)


def _service_of(declaration: Declaration, outcome: Outcome) -> Service | None:
    if outcome.service:
        return next((one for one in declaration.services if one.name == outcome.service), None)
    inside = [one for one in declaration.services if _is_inside(one.selector, outcome)]
    named = [one for one in inside if _carries(outcome.workload, one.name)]
    families = any(_is_inside(one.selector, outcome) for one in declaration.batch)
    return _only(named) or (None if families else _only(inside))


def _family_of(declaration: Declaration, outcome: Outcome) -> BatchFamily | None:
    inside = [one for one in declaration.batch if _is_inside(one.selector, outcome)]
    named = [one for one in inside if _carries(outcome.workload, one.name)]
    return max(named, key=lambda one: len(one.name)) if named else _only(inside)


def _is_inside(selector: Selector, outcome: Outcome) -> bool:
    return selector.namespace is not None and selector.namespace == outcome.namespace


def _carries(workload: str, name: str) -> bool:
    return workload == name or workload.startswith(f"{name}-")


def _only(found: list[Declared]) -> Declared | None:
    return found[0] if len(found) == 1 else None


def _limits(service: Service) -> dict[Metric, int]:
    limits: dict[Metric, int] = {}
    for one in service.objectives:
        if one.metric and one.at_most_us is not None:
            limits[one.metric] = min(one.at_most_us, limits.get(one.metric, one.at_most_us))
    return limits
