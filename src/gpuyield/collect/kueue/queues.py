"""ResourceFlavors, ClusterQueues, Cohorts and LocalQueues from the API server's objects, of v1beta2 and v1beta1."""

from __future__ import annotations

from collections.abc import Mapping

from gpuyield.collect.kueue.shapes import (
    Object,
    condition,
    is_true,
    items,
    mapping,
    quantity,
    taints,
    text,
    texts,
    tolerations,
)
from gpuyield.model.kueue import Check, ClusterQueue, Cohort, Flavor, GpuQuota, LocalQueue, is_gpu_resource


def flavor(of: Object) -> Flavor:
    """A ResourceFlavor."""
    spec = mapping(of, "spec")
    return Flavor(
        name=text(mapping(of, "metadata"), "name"),
        node_labels=texts(spec, "nodeLabels"),
        taints=taints(items(spec, "nodeTaints")),
        tolerations=tolerations(items(spec, "tolerations")),
    )


def check(of: Object) -> Check:
    """An AdmissionCheck."""
    return Check(
        name=text(mapping(of, "metadata"), "name"),
        controller=text(mapping(of, "spec"), "controllerName"),
        active=is_true(of, "Active"),
    )


def cluster_queue(of: Object) -> ClusterQueue:
    """A ClusterQueue.

    Raises:
        DeclarationError: A quota is no whole number.
    """
    spec, status = mapping(of, "spec"), mapping(of, "status")
    active = condition(of, "Active")
    stopped = text(spec, "stopPolicy")
    return ClusterQueue(
        name=text(mapping(of, "metadata"), "name"),
        cohort=cohort_of(of),
        quotas=_quotas(spec),
        checks=checks_of(of),
        stopped="" if stopped == "None" else stopped,
        inactive=f"{text(active, 'reason')}: {text(active, 'message')}" if active.get("status") == "False" else "",
        reserved=_reserved(status) if "flavorsReservation" in status else None,
    )


def cohort(of: Object) -> Cohort:
    """A Cohort.

    Raises:
        DeclarationError: A quota is no whole number.
    """
    spec = mapping(of, "spec")
    # v1alpha1 calls it `parent`.
    parent = text(spec, "parentName") or text(spec, "parent") or None
    return Cohort(name=text(mapping(of, "metadata"), "name"), parent=parent, quotas=_quotas(spec))


def local_queue(of: Object) -> LocalQueue:
    """A LocalQueue."""
    meta, spec = mapping(of, "metadata"), mapping(of, "spec")
    stopped = text(spec, "stopPolicy")
    return LocalQueue(
        namespace=text(meta, "namespace"),
        name=text(meta, "name"),
        cluster_queue=text(spec, "clusterQueue"),
        stopped="" if stopped == "None" else stopped,
    )


def cohort_of(of: Object) -> str | None:
    """The cohort of a ClusterQueue; v1beta1 calls it `cohort`."""
    spec = mapping(of, "spec")
    return text(spec, "cohortName") or text(spec, "cohort") or None


def checks_of(of: Object) -> tuple[str, ...]:
    """The AdmissionChecks that a ClusterQueue names; v1beta1 has a plain list of them, too."""
    spec = mapping(of, "spec")
    named = tuple(text(one, "name") for one in items(mapping(spec, "admissionChecksStrategy"), "admissionChecks"))
    return named or tuple(str(one) for one in spec.get("admissionChecks") or ())


def _quotas(spec: Mapping[str, object]) -> tuple[GpuQuota, ...]:
    """GPU quotas in order of preference; a flavor's GPU resources are added up."""
    found: list[GpuQuota] = []
    for group in items(spec, "resourceGroups"):
        for one in items(group, "flavors"):
            gpus = [each for each in items(one, "resources") if is_gpu_resource(text(each, "name"))]
            if gpus:
                found.append(
                    GpuQuota(
                        flavor=text(one, "name"),
                        nominal=sum(quantity(each.get("nominalQuota", 0)) for each in gpus),
                        borrow=_limit(gpus, "borrowingLimit"),
                        lend=_limit(gpus, "lendingLimit"),
                    )
                )
    return tuple(found)


def _limit(gpus: list[Object], key: str) -> int | None:
    """A limit of one flavor; None where there is none."""
    given = [one[key] for one in gpus if one.get(key) is not None]
    return sum(quantity(one) for one in given) if given else None


def _reserved(status: Mapping[str, object]) -> dict[str, int]:
    return {
        text(one, "name"): sum(
            quantity(each.get("total", 0)) for each in items(one, "resources") if is_gpu_resource(text(each, "name"))
        )
        for one in items(status, "flavorsReservation")
    }
