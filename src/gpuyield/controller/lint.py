"""What in the settings of queues would break a plan: preemption, quota that is lent away, checks and namespaces.

A plan keeps its word only where nobody else takes the GPUs: nothing here needs a guess, each finding names the setting
and carries the patch that mends it. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gpuyield.collect.kueue.queues import checks_of, cohort, cohort_of
from gpuyield.collect.kueue.shapes import Object, is_true, items, mapping, text, texts
from gpuyield.decide.live.quotas import root_of
from gpuyield.model.kueue import is_gpu_resource
from gpuyield.model.marks import MANAGED, PLAN

_NEVER = "Never"


class Severity(StrEnum):
    """How bad it is: `breaks` a plan, or is only `odd`."""

    BREAKS = "breaks"
    ODD = "odd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One setting. `patch` is a command that mends it ("": there is none)."""

    rule: str
    severity: Severity
    where: str
    what: str
    patch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The objects that are looked at, as the API server sends them."""

    checks: Sequence[Object] = ()
    queues: Sequence[Object] = ()
    cohorts: Sequence[Object] = ()
    local_queues: Sequence[Object] = ()
    namespaces: Sequence[Object] = ()
    ours: frozenset[str] = field(init=False)
    planned: tuple[Object, ...] = field(init=False)

    def __post_init__(self) -> None:
        ours = frozenset(_name(one) for one in self.checks if mapping(one, "spec").get("controllerName") == PLAN)
        object.__setattr__(self, "ours", ours)
        object.__setattr__(self, "planned", tuple(one for one in self.queues if ours & set(checks_of(one))))


def lint(seen: Settings) -> list[Finding]:
    """All findings, queue by queue; the worst of each first."""
    found = [finding for one in seen.planned for finding in _queue(one, seen)]
    found += _inactive(seen)
    found += _namespaces(seen)
    return sorted(found, key=lambda one: (one.where, one.severity != Severity.BREAKS, one.rule))


def _queue(queue: Object, seen: Settings) -> Iterable[Finding]:
    yield from _preemption(queue)
    yield from _lending(queue, seen)
    spec = mapping(queue, "spec")
    if text(spec, "queueingStrategy") == "StrictFIFO":
        what = "StrictFIFO lets the oldest job hold up all others; the order of a plan comes from its releases."
        yield _finding("strict-fifo", queue, what, {"queueingStrategy": "BestEffortFIFO"})
    stopped = text(spec, "stopPolicy")
    if stopped not in ("", "None"):
        what = f"It is stopped ({stopped}), so nothing that is planned there starts."
        yield _finding("stopped", queue, what, {"stopPolicy": "None"}, severity=Severity.ODD)
    for at, one in enumerate(items(mapping(spec, "admissionChecksStrategy"), "admissionChecks")):
        left = sorted(_flavors(queue) - {str(name) for name in one.get("onFlavors") or ()})
        if text(one, "name") in seen.ours and one.get("onFlavors") and left:
            what = f"The check is not asked on {', '.join(left)}: jobs start there without the plan."
            command = _json_patch(queue, f"/spec/admissionChecksStrategy/admissionChecks/{at}/onFlavors")
            yield Finding(
                rule="check-not-on-all-flavors",
                severity=Severity.BREAKS,
                where=f"ClusterQueue {_name(queue)}",
                what=what,
                patch=command,
            )


def _preemption(queue: Object) -> Iterable[Finding]:
    within, reclaim, borrow = _within(queue), _reclaim(queue), _borrow(queue)
    if within != _NEVER:
        what = f"A job of higher priority stops running ones (withinClusterQueue: {within})."
        yield _finding("preempts-within-queue", queue, what, {"preemption": {"withinClusterQueue": _NEVER}})
    if reclaim != _NEVER:
        what = f"It stops jobs of other queues to get its quota back (reclaimWithinCohort: {reclaim})."
        yield _finding("reclaims-in-cohort", queue, what, {"preemption": {"reclaimWithinCohort": _NEVER}})
    if borrow != _NEVER:
        what = f"It stops jobs of other queues to borrow (borrowWithinCohort: {borrow})."
        yield _finding("preempts-to-borrow", queue, what, {"preemption": {"borrowWithinCohort": {"policy": _NEVER}}})


def _lending(queue: Object, seen: Settings) -> Iterable[Finding]:
    """Quota that a queue outside the plan may take, and borrowed quota that its owner may take back."""
    others = [one for one in _relatives(queue, seen) if not seen.ours & set(checks_of(one))]
    if not others:
        return
    names = ", ".join(_name(one) for one in others[:3])
    lent = [place for place in _gpu_places(queue) if _amount(place.content, "lendingLimit") != 0]
    if lent:
        what = f"It lends GPUs to {names}, outside the plan: what is planned may be taken when its time comes."
        yield _limits("lends-planned-quota", queue, what, lent, "lendingLimit")
    takers = [one for one in others if _reclaims(one)]
    borrowing = [place for place in _gpu_places(queue) if _amount(place.content, "borrowingLimit") != 0]
    if takers and borrowing:
        what = f"It borrows from {_name(takers[0])}, which stops jobs to get its quota back."
        yield _limits("borrows-what-is-reclaimed", queue, what, borrowing, "borrowingLimit")


def preempts(queue: Object) -> bool:
    """Whether a ClusterQueue stops other work for its own."""
    return _within(queue) != _NEVER or _reclaims(queue)


def _reclaims(queue: Object) -> bool:
    return _reclaim(queue) != _NEVER or _borrow(queue) != _NEVER


def _within(queue: Object) -> str:
    return text(mapping(queue, "spec", "preemption"), "withinClusterQueue") or _NEVER


def _reclaim(queue: Object) -> str:
    return text(mapping(queue, "spec", "preemption"), "reclaimWithinCohort") or _NEVER


def _borrow(queue: Object) -> str:
    return text(mapping(queue, "spec", "preemption", "borrowWithinCohort"), "policy") or _NEVER


def _inactive(seen: Settings) -> Iterable[Finding]:
    for one in seen.checks:
        if _name(one) in seen.ours and not is_true(one, "Active"):
            yield Finding(
                rule="check-inactive",
                severity=Severity.ODD,
                where=f"AdmissionCheck {_name(one)}",
                what="It is not Active: the controller does not run, and its queues admit nothing.",
                patch="kubectl -n gpuyield-system rollout status deployment/gpuyield-controller",
            )


def _namespaces(seen: Settings) -> Iterable[Finding]:
    labels = {_name(one): texts(mapping(one, "metadata"), "labels") for one in seen.namespaces}
    planned = {_name(one) for one in seen.planned}
    used = {
        text(mapping(one, "metadata"), "namespace")
        for one in seen.local_queues
        if text(mapping(one, "spec"), "clusterQueue") in planned
    }
    for name in sorted(used & set(labels)):
        if name == "kube-system":
            what = "Its work goes to a planned queue, and gpuyield never touches kube-system: it would wait for ever."
            yield Finding(rule="system-namespace", severity=Severity.BREAKS, where=f"Namespace {name}", what=what)
        elif labels[name].get(MANAGED) != "true":
            yield Finding(
                rule="namespace-not-opted-in",
                severity=Severity.ODD,
                where=f"Namespace {name}",
                what="Its jobs go to a planned queue without the gate: they take quota before they are parked.",
                patch=f"kubectl label namespace {name} {MANAGED}=true",
            )
    for name in sorted(set(labels) - used):
        if labels[name].get(MANAGED) == "true" and name != "kube-system":
            yield Finding(
                rule="namespace-without-planned-queue",
                severity=Severity.ODD,
                where=f"Namespace {name}",
                what="It opted in, and none of its LocalQueues leads to a planned ClusterQueue: its jobs get the gate.",
                patch=f"kubectl label namespace {name} {MANAGED}-",
            )


def _relatives(queue: Object, seen: Settings) -> list[Object]:
    """The other queues below the same root of cohorts."""
    cohorts = {one.name: one for one in map(cohort, seen.cohorts)}
    own = cohort_of(queue)
    if own is None:
        return []
    return [
        one
        for one in seen.queues
        if _name(one) != _name(queue)
        and (its := cohort_of(one)) is not None
        and root_of(its, cohorts) == root_of(own, cohorts)
    ]


@dataclass(frozen=True, slots=True)
class _Place:
    """A GPU quota and its path inside the queue."""

    path: str
    content: Object


def _gpu_places(queue: Object) -> list[_Place]:
    return [
        _Place(f"/spec/resourceGroups/{group}/flavors/{flavor}/resources/{at}", resource)
        for group, each in enumerate(items(mapping(queue, "spec"), "resourceGroups"))
        for flavor, one in enumerate(items(each, "flavors"))
        for at, resource in enumerate(items(one, "resources"))
        if is_gpu_resource(text(resource, "name"))
    ]


def _flavors(queue: Object) -> set[str]:
    return {
        text(one, "name")
        for each in items(mapping(queue, "spec"), "resourceGroups")
        for one in items(each, "flavors")
        if any(is_gpu_resource(text(resource, "name")) for resource in items(one, "resources"))
    }


def _amount(of: Object, key: str) -> int | None:
    """0 where the limit is zero, else something else."""
    value = of.get(key)
    return None if value is None else 0 if str(value) == "0" else 1


def _limits(rule: str, queue: Object, what: str, places: Sequence[_Place], key: str) -> Finding:
    operations = [{"op": "add", "path": f"{place.path}/{key}", "value": "0"} for place in places]
    return Finding(
        rule=rule,
        severity=Severity.BREAKS,
        where=f"ClusterQueue {_name(queue)}",
        what=what,
        patch=f"kubectl patch clusterqueue {_name(queue)} --type=json -p '{_compact(operations)}'",
    )


def _json_patch(queue: Object, path: str) -> str:
    return f"kubectl patch clusterqueue {_name(queue)} --type=json -p '{_compact([{'op': 'remove', 'path': path}])}'"


def _finding(rule: str, queue: Object, what: str, spec: Object, *, severity: Severity = Severity.BREAKS) -> Finding:
    patch = f"kubectl patch clusterqueue {_name(queue)} --type=merge -p '{_compact({'spec': spec})}'"
    return Finding(rule=rule, severity=severity, where=f"ClusterQueue {_name(queue)}", what=what, patch=patch)


def _compact(of: object) -> str:
    return json.dumps(of, separators=(",", ":"))


def _name(of: Object) -> str:
    return text(mapping(of, "metadata"), "name")
