"""gpuyield controller lint: reads the queues, and answers with findings and patches."""

from __future__ import annotations

from gpuyield.collect.kubernetes import ADMISSION_CHECK, CLUSTER_QUEUE, COHORT, LOCAL_QUEUE, ClusterApi, Kind, NotFound
from gpuyield.collect.kueue.shapes import Object
from gpuyield.controller.lint import Finding, Settings, Severity, lint
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Table

_NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
_PLAN_ONE = (
    "kubectl patch clusterqueue QUEUE --type=merge "
    """-p '{"spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"gpuyield"}]}}}'"""
)


def lint_answer(api: ClusterApi, *, gate: bool) -> Answer:
    """What the planned queues of a cluster need; with `gate` exit 10 where a setting breaks a plan.

    Raises:
        SourceError: Out of reach, or not allowed to read.
    """
    seen = Settings(
        checks=_listed(api, ADMISSION_CHECK),
        queues=_listed(api, CLUSTER_QUEUE),
        cohorts=_listed(api, COHORT),
        local_queues=_listed(api, LOCAL_QUEUE),
        namespaces=_listed(api, _NAMESPACE),
    )
    return answer_of(seen, lint(seen), gate=gate)


def answer_of(seen: Settings, found: list[Finding], *, gate: bool) -> Answer:
    """The findings as an answer."""
    breaking = [one for one in found if one.severity is Severity.BREAKS]
    columns = (Column("where", "where"), Column("severity", "it"), Column("what", "what"))
    patches = list(dict.fromkeys(one.patch for one in found if one.patch))
    return Answer(
        document={
            "schema": schema_name("controller-lint"),
            "planned_queues": [str(one["metadata"]["name"]) for one in seen.planned],
            "findings": [
                {
                    "rule": one.rule,
                    "severity": str(one.severity),
                    "where": one.where,
                    "what": one.what,
                    "patch": one.patch or None,
                }
                for one in found
            ],
        },
        headline=(_headline(seen, found, breaking),),
        tables=(
            Table(title="", columns=columns, rows=tuple((one.where, str(one.severity), one.what) for one in found)),
        )
        if found
        else (),
        notes=("Read a patch before you use it: queues belong to their owners.",) if patches else (),
        next=tuple(Next(command=one) for one in patches)
        if seen.planned or patches
        else (Next(command=_PLAN_ONE, why="puts a queue under the plan"),),
        exit_code=10 if gate and breaking else 0,
    )


def _headline(seen: Settings, found: list[Finding], breaking: list[Finding]) -> str:
    if not seen.planned:
        return "No ClusterQueue names an AdmissionCheck of gpuyield, so nothing is planned."
    queues = count(len(seen.planned), "planned queue")
    if not found:
        return f"{queues}: nothing in their settings breaks a plan."
    return f"{queues}: {count(len(breaking), 'setting')} would break a plan, {len(found) - len(breaking):,} are odd."


def _listed(api: ClusterApi, kind: Kind) -> list[Object]:
    try:
        return api.list(kind).items
    except NotFound:
        return []
