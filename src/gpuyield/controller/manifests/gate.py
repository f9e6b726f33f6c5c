"""Policies on the gate: how jobs come by it, and who may take it off."""

from __future__ import annotations

from gpuyield.collect.kueue.work import GATES
from gpuyield.controller.manifests.cel import binding, gates_of, is_gated, is_work, validating
from gpuyield.controller.manifests.kinds import CRON_JOB, HELD, Kind
from gpuyield.controller.manifests.settings import Object, Settings, meta
from gpuyield.model.marks import BREAK_GLASS, PLAN

_NEW_TEMPLATE = {
    "name": "a-new-template",
    "expression": "request.operation == 'CREATE' || object.spec.jobTemplate != oldObject.spec.jobTemplate",
}


def adding() -> list[Object]:
    """For each kind that can be held a policy that puts our gate on at creation, behind those that are there."""
    found: list[Object] = []
    for kind in HELD:
        name = f"gpuyield-gate-{kind.name}"
        found += [_adding(name, kind), binding(name, "MutatingAdmissionPolicy")]
    return found


def requiring() -> list[Object]:
    """For each kind, and for the template of CronJobs, a policy that refuses what comes without our gate."""
    found: list[Object] = []
    for kind in (*HELD, CRON_JOB):
        name = f"gpuyield-gate-{kind.name}"
        found += [_requiring(name, kind), binding(name, "ValidatingAdmissionPolicy", actions=["Deny"])]
    return found


def guarding(settings: Settings) -> list[Object]:
    """Only the controller, and who breaks the glass, take our gate off; not by way of the status either."""
    name = "gpuyield-guard"
    policy = validating(
        name,
        [kind.rule("UPDATE", status=True) for kind in HELD],
        variables={"before": gates_of("oldObject"), "after": gates_of("object")},
        validations=[
            {
                "expression": (
                    f"!({is_gated('variables.before')}) || {is_gated('variables.after')} ||\n"
                    f"request.userInfo.username == '{settings.user}' ||\n"
                    f"'{BREAK_GLASS}' in request.userInfo.?groups.orValue([])"
                ),
                "message": (
                    f"The gate {PLAN} is taken off when the plan says so. See when: gpuyield explain job/NAME. "
                    f"In an emergency: gpuyield controller release NAME --apply, as a member of {BREAK_GLASS}."
                ),
            }
        ],
    )
    return [policy, binding(name, "ValidatingAdmissionPolicy", actions=["Deny"])]


def _adding(name: str, kind: Kind) -> Object:
    queued, *wide = is_work(kind)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicy",
        "metadata": meta(name),
        "spec": {
            "failurePolicy": "Fail",
            # Kueue's webhook may give a job its queue after us. A policy is asked again only where its conditions were
            # met before, so whether there is a queue is asked inside the expression.
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {"resourceRules": [kind.rule("CREATE")]},
            "matchConditions": wide,
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {
                        "expression": (
                            f"{queued['expression']} &&\n"
                            f"!({is_gated(gates_of('object'))}) ?\n"
                            "Object{metadata: Object.metadata{annotations: {\n"
                            f"  '{GATES}': ({gates_of('object')} + ['{PLAN}']).join(',')}}}}}} :\n"
                            "Object{}"
                        )
                    },
                }
            ],
        },
    }


def _requiring(name: str, kind: Kind) -> Object:
    where = "spec.jobTemplate" if kind.is_recurring else f"the {kind.name}"
    fix = f"Annotate {where} with {GATES}: {PLAN}."
    return validating(
        name,
        [kind.rule("CREATE", "UPDATE") if kind.is_recurring else kind.rule("CREATE")],
        conditions=[*is_work(kind), *([_NEW_TEMPLATE] if kind.is_recurring else [])],
        validations=[
            {
                "expression": is_gated(gates_of("object", kind.meta)),
                "message": f"Without its gate it could start before its time. {fix}",
            }
        ],
    )
