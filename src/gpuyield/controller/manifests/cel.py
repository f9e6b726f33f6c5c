"""Pieces of CEL that several policies share."""

from __future__ import annotations

from gpuyield.collect.kueue.work import GATES, QUEUE_LABEL
from gpuyield.controller.manifests.kinds import Kind
from gpuyield.controller.manifests.settings import Object, meta
from gpuyield.model.marks import MANAGED, PLAN

KUBE_SYSTEM = "kube-system"


def gates_of(which: str, path: str = "metadata") -> str:
    """The names of the gates of `object` or `oldObject`, in order."""
    written = f"{which}.{path}.?annotations['{GATES}'].orValue('')"
    return f"{written}\n  .split(',').map(name, name.trim()).filter(name, name != '')"


def is_work(kind: Kind) -> list[Object]:
    """Conditions: it goes to a queue (the first one), nothing else is in charge of it, and it asks for whole GPUs."""
    owned = (
        "object.metadata.?ownerReferences.orValue([]).exists(owner,\n"
        "  owner.?controller.orValue(false) && owner.kind != 'CronJob')"
    )
    return [
        {"name": "in-a-queue", "expression": f"'{QUEUE_LABEL}' in object.{kind.meta}.?labels.orValue({{}})"},
        {"name": "on-its-own", "expression": f"!{owned}"},
        {"name": "asks-for-gpus", "expression": _asks_for_gpus(kind)},
    ]


def _asks_for_gpus(kind: Kind) -> str:
    return (
        f"({kind.pods}).exists(pod,\n"
        "  (pod.?containers.orValue([]) + pod.?initContainers.orValue([])).exists(container,\n"
        "    [container.?resources.?limits.orValue({}), container.?resources.?requests.orValue({})].exists(amounts,\n"
        "      amounts.exists(resource, resource.endsWith('/gpu') ||\n"
        "        resource in ['gpu', 'gpu.intel.com/i915', 'gpu.intel.com/xe']))))"
    )


def is_gated(names: str) -> str:
    """Whether our gate is among these names."""
    return f"'{PLAN}' in {names}"


def binding(name: str, kind: str, *, actions: list[str] | None = None, everywhere: bool = False) -> Object:
    """A policy's binding: in the namespaces that opt in, never in kube-system; or everywhere."""
    spec: Object = {"policyName": name}
    if actions is not None:
        spec["validationActions"] = actions
    if not everywhere:
        spec["matchResources"] = {
            "namespaceSelector": {
                "matchLabels": {MANAGED: "true"},
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [KUBE_SYSTEM]}
                ],
            }
        }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}Binding",
        "metadata": meta(name),
        "spec": spec,
    }


def validating(
    name: str,
    rules: list[Object],
    *,
    validations: list[Object],
    conditions: list[Object] | None = None,
    variables: dict[str, str] | None = None,
) -> Object:
    """A ValidatingAdmissionPolicy that refuses what it cannot judge."""
    spec: Object = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}}
    if conditions:
        spec["matchConditions"] = conditions
    if variables:
        spec["variables"] = [{"name": key, "expression": text} for key, text in variables.items()]
    spec["validations"] = validations
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": meta(name),
        "spec": spec,
    }
