"""What becomes of one job of a live cluster, told with rights on its namespace alone.

The job, its Workload, its queue and what was said about it are in the namespace. The plan in force and the cluster
are looked at where this account may, and then only what concerns the job is told: others are another team's job.
"""

from __future__ import annotations

from pathlib import Path

from gpuyield.collect.kubernetes import connect
from gpuyield.collect.kueue.one_job import read_one_job
from gpuyield.collect.kueue.reading import serves_kueue
from gpuyield.collect.probe import Forbidden
from gpuyield.controller.plan_parts import StoredPlan, TornStore
from gpuyield.controller.store import PlanStore
from gpuyield.decide.live.foreign import Foreign
from gpuyield.decide.live.jobs import job_settings
from gpuyield.decide.live.waiting import waiting_document, waiting_now
from gpuyield.declare.annotations import JobPromise, read_promise
from gpuyield.errors import DeclarationError, Mistake, SourceError
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import WorkState
from gpuyield.model.marks import NAMESPACE
from gpuyield.model.one_job import OneJob
from gpuyield.report.answer import Answer
from gpuyield.report.facts import Document
from gpuyield.report.screens.explain_live import explain_live
from gpuyield.steps.live import live_cluster, live_server
from gpuyield.steps.plan import make
from gpuyield.steps.setting import read_declaration, wall_clock_ms
from gpuyield.units import parse_zone

KINDS = ("job", "jobs", "jobs.batch", "jobset", "jobsets", "rayjob", "rayjobs", "trainjob", "trainjobs", "workload")
_TIME_LIMIT = "5s"
_NO_PLAN = "The plan in force cannot be seen by this account; what the controller said of this job is in its events."
_NO_CLUSTER = (
    "This account may not read queues, quotas and other namespaces: what other teams' jobs hold, and how much quota is "
    "free, is not known here."
)


def is_live_job(what: str) -> bool:
    """Whether something to be explained is named as kubectl names it, `job/NAME`."""
    kind, slash, name = what.partition("/")
    return bool(slash and name) and kind.lower() in KINDS


def explain_live_job(
    *, what: str, namespace: str | None, file: Path, ledger_root: Path, system: str = NAMESPACE
) -> Answer:
    """The answer of `gpuyield explain job/NAME`.

    Raises:
        DeclarationError: No way to a cluster, or there is no such job in the namespace.
        SourceError: The cluster is out of reach, or has no Kueue.
    """
    declared = read_declaration(file)
    kind, _, name = what.partition("/")
    server = live_server(declared)
    version = serves_kueue(server)
    if version is None:
        raise SourceError(
            "Kueue is not installed there.",
            where=f"context {server.context}",
            fix="Choose the context of a cluster with Kueue in your kubeconfig.",
        )
    place = namespace or server.namespace
    one = read_one_job(server, version, namespace=place, kind=kind.lower(), name=name, at_ms=wall_clock_ms())
    if one.is_there is False:
        raise DeclarationError(
            f"there is no {kind} {name} in namespace {place}.", where=what, fix="Name its namespace with --namespace."
        )
    promise, mistakes = _promise(one, declared)
    plan, not_seen = _plan_in_force(declared, system)
    planned = None if plan is None else _entry(plan, one.id, place)
    eta = None
    if planned is None and one.work is not None and one.work.state is WorkState.WAITING:
        eta, more = _eta(one, file, ledger_root)
        not_seen += more
    elif plan is None:
        not_seen += [_NO_CLUSTER]
    return explain_live(
        one,
        promise,
        mistakes,
        planned=planned,
        planned_by="" if plan is None else f"generation {plan.generation}",
        eta=eta,
        not_seen=[*not_seen, *(f"This account may not read {each} in {place}." for each in one.lacking)],
        zone=parse_zone(declared.reporting_zone),
    )


def _promise(one: OneJob, declared: Declaration) -> tuple[JobPromise | None, tuple[Mistake, ...]]:
    """What the job promises, or what is wrong with that."""
    if one.work is None:
        return None, ()
    try:
        settings = job_settings(one.work, declared)
        return read_promise(one.work.annotations, one.work.labels, settings, job=one.id), ()
    except DeclarationError as err:
        return None, err.mistakes


def _plan_in_force(declared: Declaration, system: str) -> tuple[StoredPlan | None, list[str]]:
    """The plan that the controller follows; None where there is none, or it may not be read."""
    store = PlanStore(connect(declared.sources.context), system)
    try:
        pointer = store.pointer()
        if pointer is None:
            return None, ["No plan is in force: the controller has not written one."]
        return store.read(pointer), []
    except Forbidden:
        return None, [_NO_PLAN]
    except TornStore as err:
        return None, [f"The plan in force cannot be read: {err}"]


def _entry(plan: StoredPlan, job: str, namespace: str) -> Document | None:
    """The job in the plan, without the names of other teams' jobs."""
    jobs = plan.document.get("jobs") or []
    found = next((one for one in jobs if one["id"] == job), None)
    if found is None:
        return None
    entry: Document = Foreign([str(one["id"]) for one in jobs], own=[namespace]).document(found)
    return entry


def _eta(one: OneJob, file: Path, ledger_root: Path) -> tuple[Document | None, list[str]]:
    """Why the job waits and when a plan made now would start it; None where the cluster may not be read."""
    try:
        found = live_cluster(file=file, ledger_root=ledger_root)
    except SourceError:
        return None, [_NO_CLUSTER]
    if found is None:
        return None, []
    live = found.live
    plan = make(live.problem, seed=0, time_limit=_TIME_LIMIT).plan
    foreign = Foreign([each.work.id for each in live.work], own=[one.namespace])
    entry = next((each for each in waiting_document(waiting_now(live, plan)) if each["job"] == one.id), None)
    return (None if entry is None else foreign.document(entry)), []
