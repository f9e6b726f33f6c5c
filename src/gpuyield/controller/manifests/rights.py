"""Roles: reading apart from enforcing, and what each of them needs, no more."""

from __future__ import annotations

from gpuyield.controller.manifests.kinds import HELD
from gpuyield.controller.manifests.own import PUBLISH
from gpuyield.controller.manifests.settings import Object, Settings, meta
from gpuyield.model.marks import CHECK, CONTROLLER

READ = "gpuyield-read"
ENFORCE = CONTROLLER
PUBLISHER = "gpuyield-publisher"
SUBMITTER = "gpuyield-submitter"
BREAK_GLASS_ROLE = "gpuyield-break-glass"

_SEE = ["get", "list", "watch"]
_KUEUE = "kueue.x-k8s.io"


def roles(settings: Settings) -> list[Object]:
    """All roles, and the bindings of the controller's account."""
    space = settings.namespace
    return [
        _cluster_role(READ, _reading()),
        _cluster_role(ENFORCE, _enforcing()),
        _bound("ClusterRoleBinding", "ClusterRole", READ, settings),
        _bound("ClusterRoleBinding", "ClusterRole", ENFORCE, settings),
        _role(ENFORCE, space, _at_home()),
        _bound("RoleBinding", "Role", ENFORCE, settings),
        _role(PUBLISHER, space, [_rule("", ["configmaps"], [*_SEE, "create", "update", "patch"]), _publish()]),
        _cluster_role(SUBMITTER, _submitting()),
        _cluster_role(BREAK_GLASS_ROLE, [*_reading(), *_releasing()]),
    ]


def _reading() -> list[Object]:
    queues = ["admissionchecks", "clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloads"]
    return [
        _rule(_KUEUE, queues, _SEE),
        _rule("batch", ["cronjobs", "jobs"], _SEE),
        *(_rule(kind.group, [kind.plural], _SEE) for kind in HELD if kind.group != "batch"),
        _rule("", ["namespaces", "nodes", "pods"], _SEE),
    ]


def _releasing() -> list[Object]:
    """Gates off, checks answered, Workloads unparked: of objects that are there already."""
    return [
        *(_rule(kind.group, [kind.plural], ["patch"]) for kind in HELD),
        _rule(_KUEUE, ["workloads", "workloads/status"], ["patch"]),
    ]


def _enforcing() -> list[Object]:
    return [
        *_releasing(),
        _rule(_KUEUE, ["admissionchecks/status"], ["patch"], names=[CHECK]),
        _rule("", ["events"], ["create", "patch"]),
    ]


def _at_home() -> list[Object]:
    return [
        _rule("", ["configmaps"], [*_SEE, "create", "update", "patch", "delete"]),
        _publish(),
        # As a trial only, to find out whether Kueue honours the gate; a policy sees to that.
        _rule("batch", ["jobs"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["create"]),
        _rule("coordination.k8s.io", ["leases"], ["get", "update", "patch"], names=[CONTROLLER]),
    ]


def _submitting() -> list[Object]:
    """What `gpuyield explain job/NAME` reads; bound in a namespace it shows that one's own work."""
    return [
        _rule(_KUEUE, ["localqueues", "workloads"], _SEE),
        _rule("batch", ["cronjobs", "jobs"], _SEE),
        *(_rule(kind.group, [kind.plural], _SEE) for kind in HELD if kind.group != "batch"),
        _rule("", ["events"], _SEE),
    ]


def _publish() -> Object:
    return _rule(PUBLISH["group"], [PUBLISH["resource"]], [PUBLISH["verb"]])


def _rule(group: str, resources: list[str], verbs: list[str], *, names: list[str] | None = None) -> Object:
    found: Object = {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
    return found | {"resourceNames": names} if names else found


def _cluster_role(name: str, rules: list[Object]) -> Object:
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": meta(name), "rules": rules}


def _role(name: str, namespace: str, rules: list[Object]) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": meta(name, namespace),
        "rules": rules,
    }


def _bound(kind: str, role_kind: str, role: str, settings: Settings) -> Object:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": meta(role, settings.namespace if kind == "RoleBinding" else None),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": settings.namespace}],
    }
