"""What the controller would do now, as an answer: everything is read, planned and decided, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any  # Documents are JSON.

from gpuyield.controller.actions import Action, MoveQueue, Park, Ready, Release, Return, Say
from gpuyield.controller.decide import Decision, Manner, decide, our_checks
from gpuyield.controller.fitness import Fitness
from gpuyield.controller.mirror import Mirror
from gpuyield.controller.plan_keeper import InForce, PlanKeeper
from gpuyield.errors import EvidenceError, SourceError
from gpuyield.model.document import schema_name
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count

_NO_QUEUE = "no ClusterQueue names an AdmissionCheck of gpuyield: no queue is planned"

READ_S = 60.0
"""So long reading the cluster may take."""

_VERBS: dict[type[Action], str] = {
    Release: "release",
    Ready: "let start",
    Park: "park",
    Return: "switch on again",
    MoveQueue: "move into its queue",
    Say: "tell",
}


def look_once(
    mirror: Mirror, keeper: PlanKeeper, fitness: Fitness, manner: Manner, clock_ms: Callable[[], int]
) -> Answer:
    """The answer of `gpuyield controller run --dry-run`, for a mirror that was started.

    Raises:
        SourceError: The cluster is out of reach, or does not let us read what is needed.
        EvidenceError: There is no plan that stands its check.
    """
    seen = _read(mirror, clock_ms)
    now_ms = seen.at_ms
    checks = our_checks(seen)
    refusal = fitness.refusal(checks)
    if refusal or not checks:
        return _refused(refusal or _NO_QUEUE, fitness)
    plan = keeper.keep(seen, now_ms)
    if plan is None:
        raise EvidenceError("there is no plan that stands its check.", fix="See the log above.")
    return _told(seen, plan, decide(seen, plan.plan, now_ms, manner=manner), fitness)


def _read(mirror: Mirror, clock_ms: Callable[[], int]) -> ClusterSnapshot:
    end_s = time.monotonic() + READ_S
    while time.monotonic() < end_s:
        seen = mirror.snapshot(clock_ms())
        if seen is not None:
            return seen
        trouble = mirror.trouble()
        if trouble:
            break
        mirror.wait(0.2)
    raise SourceError(
        f"the cluster cannot be read: {mirror.trouble() or 'it does not answer'}.",
        fix="See gpuyield controller manifests for the rights that are needed.",
    )


def _refused(why: str, fitness: Fitness) -> Answer:
    return Answer(
        document={
            "schema": schema_name("controller"),
            "enforces": False,
            "refusal": why,
            "gate": str(fitness.gate.gate),
            "actions": [],
            "held": [],
        },
        headline=(f"Nothing would be enforced: {why.rstrip('.')}.",),
        next=(Next(command="gpuyield controller lint", why="looks at the queues"),),
    )


def _told(seen: ClusterSnapshot, plan: InForce, decision: Decision, fitness: Fitness) -> Answer:
    writes = [one for one in decision.actions if not isinstance(one, Say)]
    names = {one.uid: one.id for one in seen.work}
    held = [(names[uid], why) for uid, why in decision.held.items() if uid in names]
    document: dict[str, Any] = {
        "schema": schema_name("controller"),
        "enforces": True,
        "refusal": None,
        "gate": str(fitness.gate.gate),
        "plan_status": plan.document.get("status"),
        "actions": [{"action": _name(one), "job": one.work.id, "said": one.said} for one in decision.actions],
        "held": [{"job": name, "why": why} for name, why in held],
    }
    first = (
        f"{count(len(writes), 'job')} would be started, parked or switched on now; the plan is"
        f" {plan.document.get('status')}."
    )
    lines = [f"{_VERBS[type(one)]} {one.work.id}: {one.said}" for one in decision.actions]
    return Answer(
        document=document,
        headline=(
            first,
            *lines,
            *(f"hold {name}: {why}." for name, why in held),
        ),
        notes=(*_notes(fitness), "Nothing was written."),
        next=(Next(command="gpuyield plan", why="shows when each job starts"),),
    )


def _name(action: Action) -> str:
    return type(action).__name__.lower()


def _notes(fitness: Fitness) -> Iterator[str]:
    if fitness.gate.said:
        yield fitness.gate.said
