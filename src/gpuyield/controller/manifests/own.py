"""Policies on ourselves: what the controller's account may change, whatever its roles would allow.

RBAC knows objects, not fields. These policies let the account change our annotations, take our own name out of the gate
annotation, change the queue label (where jobs are held by a queue), park and unpark a Workload that has not started,
and answer our own check with Pending or Ready. Nothing that runs can be stopped with that, by mistake or by theft.
"""

from __future__ import annotations

from gpuyield.collect.kueue.work import GATES, QUEUE_LABEL
from gpuyield.controller.manifests.cel import KUBE_SYSTEM, binding, gates_of, is_gated, validating
from gpuyield.controller.manifests.kinds import HELD
from gpuyield.controller.manifests.settings import PLAN_PREFIX, Hold, Object, Settings
from gpuyield.model.marks import CHECK, CONTROLLER, MANAGED, PLAN, PREFIX

PUBLISH = {"group": "gpuyield.dev", "resource": "plans", "verb": "publish"}
"""The right to put a plan in place. No such objects exist: it is a name for roles to grant and a policy to ask."""

_KUEUE = "kueue.x-k8s.io"


def limiting(settings: Settings) -> list[Object]:
    """All policies on the controller's account, and the one on who may write plans."""
    found: list[Object] = []
    for policy in (
        _jobs(settings),
        _canary(settings),
        _workloads(settings),
        _answers(settings),
        _store(settings),
        _plans(settings),
    ):
        found += [
            policy,
            binding(policy["metadata"]["name"], "ValidatingAdmissionPolicy", actions=["Deny"], everywhere=True),
        ]
    return found


def _ours(settings: Settings) -> list[Object]:
    return [{"name": "by-the-controller", "expression": f"request.userInfo.username == '{settings.user}'"}]


def _no_system() -> Object:
    return {
        "expression": f"request.namespace != '{KUBE_SYSTEM}'",
        "message": f"gpuyield changes nothing in {KUBE_SYSTEM}.",
    }


def _jobs(settings: Settings) -> Object:
    labels = [f"'{QUEUE_LABEL}'"] if settings.hold is Hold.QUEUE else []
    return validating(
        "gpuyield-own-jobs",
        [kind.rule("UPDATE", status=True) for kind in HELD],
        conditions=_ours(settings),
        variables={"before": gates_of("oldObject"), "after": gates_of("object")},
        validations=[
            _no_system(),
            {
                "expression": (
                    f"namespaceObject.metadata.?labels['{MANAGED}'].orValue('') == 'true' ||\n"
                    f"{is_gated('variables.before')}"
                ),
                "message": f"gpuyield changes jobs in namespaces labelled {MANAGED}=true, and those with its gate.",
            },
            {
                "expression": (
                    f"variables.after == variables.before ||\n"
                    f"variables.after == variables.before.filter(name, name != '{PLAN}')"
                ),
                "message": f"gpuyield takes its own gate {PLAN} off, and touches no other.",
            },
            _same_texts("annotations", f"key == '{GATES}' || key.startsWith('{PREFIX}')"),
            _same_texts("labels", f"key in [{', '.join(labels)}]"),
            *_same_owners(),
            _same("spec", "a job's spec"),
            _same("?status", "a job's status"),
        ],
    )


def _canary(settings: Settings) -> Object:
    """To find out whether Kueue honours the gate, a job is offered: as a trial, in our own namespace."""
    return validating(
        "gpuyield-own-canary",
        [kind.rule("CREATE") for kind in HELD],
        conditions=_ours(settings),
        validations=[
            {
                "expression": f"request.?dryRun.orValue(false) && request.namespace == '{settings.namespace}'",
                "message": "gpuyield makes no jobs, except as a trial (dry run) in its own namespace.",
            }
        ],
    )


def _workloads(settings: Settings) -> Object:
    return validating(
        "gpuyield-own-workloads",
        [_rule(_KUEUE, ["workloads"], "UPDATE")],
        conditions=_ours(settings),
        variables={
            "checked": f"oldObject.?status.?admissionChecks.orValue([]).exists(each, each.name == '{CHECK}')",
            "admitted": (
                "oldObject.?status.?conditions.orValue([]).exists(each,\n"
                "  each.type == 'Admitted' && each.status == 'True')"
            ),
            "activeBefore": "oldObject.spec.?active.orValue(true)",
            "activeAfter": "object.spec.?active.orValue(true)",
        },
        validations=[
            _no_system(),
            {
                "expression": "variables.activeAfter == variables.activeBefore || variables.checked",
                "message": "gpuyield parks and unparks only what its check is asked about.",
            },
            {
                "expression": "variables.activeAfter || !variables.activeBefore || !variables.admitted",
                "message": "gpuyield stops nothing that was admitted.",
            },
            _same_but("spec", ["active"]),
            _same_texts("annotations", f"key.startsWith('{PREFIX}')"),
            _same_texts("labels", "key in []"),
            *_same_owners(),
        ],
    )


def _answers(settings: Settings) -> Object:
    entries = "?status.?admissionChecks.orValue([])"
    return validating(
        "gpuyield-own-answers",
        [_rule(_KUEUE, ["workloads/status"], "UPDATE")],
        conditions=_ours(settings),
        variables={
            "before": f"oldObject.{entries}.filter(each, each.name == '{CHECK}')",
            "after": f"object.{entries}.filter(each, each.name == '{CHECK}')",
            "othersBefore": f"oldObject.{entries}.filter(each, each.name != '{CHECK}')",
            "othersAfter": f"object.{entries}.filter(each, each.name != '{CHECK}')",
        },
        validations=[
            _no_system(),
            _same_but("?status", ["admissionChecks"]),
            {
                "expression": "variables.othersAfter == variables.othersBefore",
                "message": f"gpuyield answers its own check {CHECK}, and no other.",
            },
            {
                "expression": "variables.after.size() == variables.before.size()",
                "message": "gpuyield answers where Kueue asks, and takes no question away.",
            },
            {
                "expression": "variables.after.all(each, each.state in ['Pending', 'Ready'])",
                "message": "gpuyield answers Pending or Ready: Retry and Rejected stop jobs.",
            },
            {
                "expression": (
                    "!variables.before.exists(each, each.state == 'Ready') ||\n"
                    "variables.after.all(each, each.state == 'Ready')"
                ),
                "message": "gpuyield takes no Ready back: that would stop a job.",
            },
        ],
    )


def _store(settings: Settings) -> Object:
    return validating(
        "gpuyield-own-store",
        [
            _rule("", ["configmaps"], "CREATE", "UPDATE", "DELETE"),
            _rule("coordination.k8s.io", ["leases"], "CREATE", "UPDATE", "DELETE"),
        ],
        conditions=_ours(settings),
        validations=[
            {
                "expression": (
                    f"request.namespace == '{settings.namespace}' && (request.resource.resource == 'leases' ?\n"
                    f"  request.name == '{CONTROLLER}' : request.name.startsWith('{PLAN_PREFIX}'))"
                ),
                "message": f"gpuyield writes its plan ({PLAN_PREFIX}*) and its Lease {CONTROLLER}.",
            }
        ],
    )


def _plans(settings: Settings) -> Object:
    asked = (
        f"authorizer.group('{PUBLISH['group']}').resource('{PUBLISH['resource']}')"
        f".namespace('{settings.namespace}').check('{PUBLISH['verb']}').allowed()"
    )
    return validating(
        "gpuyield-plans",
        [_rule("", ["configmaps"], "CREATE", "UPDATE")],
        conditions=[
            {"name": "in-our-namespace", "expression": f"request.namespace == '{settings.namespace}'"},
            {"name": "a-plan", "expression": f"request.name.startsWith('{PLAN_PREFIX}')"},
        ],
        validations=[
            {
                "expression": asked,
                "message": "Plans are written by the controller and by whom the role gpuyield-publisher is bound to.",
            }
        ],
    )


def _rule(group: str, resources: list[str], *operations: str) -> Object:
    return {"apiGroups": [group], "apiVersions": ["*"], "operations": list(operations), "resources": resources}


def _same(path: str, what: str) -> Object:
    return {"expression": f"object.{path} == oldObject.{path}", "message": f"gpuyield does not change {what}."}


def _same_but(path: str, keys: list[str]) -> Object:
    """All fields of a part are as before but these; fields of later versions count, too."""
    name = path.removeprefix("?")
    new, old = (f"dyn({which}.?{name}.orValue({{}}))" for which in ("object", "oldObject"))
    free = ", ".join(f"'{key}'" for key in keys)
    return {
        "expression": (
            f"{new}.all(key, key in [{free}] || (key in {old} && {old}[key] == {new}[key])) &&\n"
            f"{old}.all(key, key in [{free}] || key in {new})"
        ),
        "message": f"Of a Workload's {name} gpuyield changes {', '.join(keys)}, and nothing else.",
    }


def _same_texts(part: str, free: str) -> Object:
    new, old = (f"{which}.metadata.?{part}.orValue({{}})" for which in ("object", "oldObject"))
    return {
        "expression": (
            f"{new}.all(key, {free} || (key in {old} && {old}[key] == {new}[key])) &&\n"
            f"{old}.all(key, {free} || key in {new})"
        ),
        "message": f"gpuyield changes no {part} but its own.",
    }


def _same_owners() -> list[Object]:
    return [_same(f"metadata.?{part}", part) for part in ("ownerReferences", "finalizers")]
