"""Values inside Kubernetes objects: decoded JSON whose shape belongs to the API, read with care."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias  # A decoded object of the API server has no narrower type.

from gpuyield.errors import DeclarationError
from gpuyield.model.kueue import LabelRule, PodSet, Taint, Terms, Toleration, is_gpu_resource
from gpuyield.units import parse_instant

Object: TypeAlias = dict[str, Any]
REQUIRED_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"

_PLURALS = {"RayJob": "rayjobs", "RayCluster": "rayclusters", "JobSet": "jobsets", "TrainJob": "trainjobs"}
_QUANTITY = re.compile(r"([+-]?[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([eE][+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i))?")
_FACTORS = {
    **{sign: Decimal(1000) ** power for sign, power in zip("numkMGTPE", (-3, -2, -1, 1, 2, 3, 4, 5, 6), strict=True)},
    **{f"{sign}i": Decimal(1024) ** (power + 1) for power, sign in enumerate("KMGTPE")},
}


def text(of: Mapping[str, Any], key: str) -> str:
    """A text field, "" where it is absent."""
    value = of.get(key)
    return "" if value is None else str(value)


def mapping(of: Mapping[str, Any], *keys: str) -> Object:
    """A nested object, empty where it is absent."""
    found: Any = of
    for key in keys:
        found = found.get(key)
        if not isinstance(found, dict):
            return {}
    inner: Object = found
    return inner


def items(of: Mapping[str, Any], key: str) -> list[Object]:
    """A list of objects, empty where it is absent."""
    found = of.get(key)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def texts(of: Mapping[str, Any], key: str) -> dict[str, str]:
    """A mapping of texts such as labels."""
    found = of.get(key)
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def listed(written: str) -> tuple[str, ...]:
    """The names in a comma list."""
    return tuple(name for part in written.split(",") if (name := part.strip()))


def controller_of(of: Mapping[str, Any]) -> Object:
    """The reference to what made an object; to its first owner where none is called so; empty without owners."""
    references = items(mapping(of, "metadata"), "ownerReferences")
    return next((one for one in references if one.get("controller")), (references or [{}])[0])


def plural_of(kind: str) -> str:
    """The name of a kind of work in paths."""
    return _PLURALS.get(kind, f"{kind.lower()}s")


def quantity(value: object) -> int:
    """A Kubernetes quantity as a whole number.

    Raises:
        DeclarationError: It is no quantity, or no whole number from 0 on.
    """
    return _quantity(str(value))


@lru_cache(maxsize=1024)
def _quantity(value: str) -> int:
    found = _QUANTITY.fullmatch(value)
    number = None
    if found:
        number = Decimal(found[1] + (found[2] or "")) * _FACTORS.get(found[3] or "", Decimal(1))
    if number is None or number < 0 or number != number.to_integral_value():
        raise DeclarationError(f'"{value[:40]}" is no whole number of GPUs.', fix="Write 4.")
    return int(number)


def instant(value: object) -> int | None:
    """Epoch ms of a time as Kubernetes writes it; None where it is absent."""
    return _instant(str(value)) if value else None


_instant = lru_cache(maxsize=4096)(parse_instant)


def condition(of: Mapping[str, Any], kind: str) -> Object:
    """The status condition of a type, empty where there is none."""
    return next((one for one in items(mapping(of, "status"), "conditions") if one.get("type") == kind), {})


def is_true(of: Mapping[str, Any], kind: str) -> bool:
    """Whether the status condition of a type is True."""
    return condition(of, kind).get("status") == "True"


def taints(listed: Sequence[Object]) -> tuple[Taint, ...]:
    """Taints of a node or flavor."""
    return tuple(Taint(key=text(one, "key"), value=text(one, "value"), effect=text(one, "effect")) for one in listed)


def tolerations(listed: Sequence[Object]) -> tuple[Toleration, ...]:
    """Tolerations of a pod or flavor."""
    return tuple(
        Toleration(
            key=text(one, "key"),
            operator=text(one, "operator") or "Equal",
            value=text(one, "value"),
            effect=text(one, "effect"),
        )
        for one in listed
    )


def pod_gpus(spec: Mapping[str, Any]) -> int:
    """Whole GPUs that a pod asks for: its containers together, or the init container that asks for most.

    Raises:
        DeclarationError: An amount is no whole number.
    """
    main = sum(_asked(one) for one in items(spec, "containers"))
    sidecars = most = 0
    for one in items(spec, "initContainers"):
        if one.get("restartPolicy") == "Always":
            sidecars += _asked(one)
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + _asked(one))
    return max(main + sidecars, most)


def pod_set(name: str, count: int, template: Mapping[str, Any]) -> PodSet:
    """Pods alike that are made from a template.

    Raises:
        DeclarationError: An amount is no whole number.
    """
    spec = mapping(template, "spec")
    return PodSet(
        name=name,
        count=count,
        gpus=pod_gpus(spec),
        node_selector=texts(spec, "nodeSelector"),
        tolerations=tolerations(items(spec, "tolerations")),
        node_terms=node_terms(mapping(spec, "affinity", "nodeAffinity", REQUIRED_AFFINITY)),
    )


def node_terms(required: Mapping[str, Any]) -> Terms:
    """What a required node affinity asks of a node's labels; rules on its fields tell no flavor from another."""
    return tuple(
        tuple(
            LabelRule(
                key=text(one, "key"),
                operator=text(one, "operator"),
                values=tuple(str(value) for value in one.get("values") or ()),
            )
            for one in items(term, "matchExpressions")
        )
        for term in items(required, "nodeSelectorTerms")
    )


def asks_for(spec: Mapping[str, Any]) -> set[str]:
    """Names of all resources that a pod's containers ask for."""
    containers = (*items(spec, "containers"), *items(spec, "initContainers"))
    return {name for one in containers for part in ("requests", "limits") for name in mapping(one, "resources", part)}


def _asked(container: Mapping[str, Any]) -> int:
    asked = {**mapping(container, "resources", "limits"), **mapping(container, "resources", "requests")}
    return sum(quantity(amount) for name, amount in asked.items() if is_gpu_resource(name))
