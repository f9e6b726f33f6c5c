"""What can be chosen of the objects, and the names that are fixed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias  # Kubernetes objects are JSON of no fixed shape.

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.marks import CONTROLLER, NAMESPACE

Object: TypeAlias = dict[str, Any]

PLAN_PREFIX = "gpuyield-plan"
PORT = 8080

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,500}")


class Deadlines(StrEnum):
    """What happens to a job that says no deadline, or one that cannot be read."""

    OFF = "off"
    WARN = "warn"
    DENY = "deny"


class Gate(StrEnum):
    """How jobs come by the gate."""

    ADD = "add"
    """The API server adds it (MutatingAdmissionPolicy, Kubernetes 1.36)."""
    REQUIRE = "require"
    """Jobs without it are refused (Kubernetes 1.30)."""
    OFF = "off"
    """Whoever submits adds it, or nobody: then only the check holds a job."""


class Hold(StrEnum):
    """What holds a job until its time."""

    GATE = "gate"
    QUEUE = "queue"
    """A LocalQueue that is on hold; the controller changes the queue label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What can be chosen. `config` is the gpuyield.yaml that the controller reads ("": it has none)."""

    image: str
    namespace: str = NAMESPACE
    replicas: int = 2
    deadlines: Deadlines = Deadlines.WARN
    gate: Gate = Gate.ADD
    hold: Hold = Hold.GATE
    config: str = ""

    @property
    def user(self) -> str:
        """The controller's account as the API server names it."""
        return f"system:serviceaccount:{self.namespace}:{CONTROLLER}"


def checked(settings: Settings) -> Settings:
    """The settings, if objects can be made of them.

    Raises:
        DeclarationError: All that cannot be used.
    """
    found: list[Mistake] = []
    if not _IMAGE.fullmatch(settings.image):
        found.append(
            Mistake(what=f'"{settings.image[:60]}" is no image.', where="--image", fix="Write registry/name:tag.")
        )
    if not _LABEL.fullmatch(settings.namespace):
        what = f'"{settings.namespace[:60]}" is no name of a namespace.'
        found.append(Mistake(what=what, where="--namespace", fix=f"Write {NAMESPACE}."))
    if settings.namespace.startswith("kube-"):
        found.append(
            Mistake(
                what="the controller does not live in a namespace of the system.",
                where="--namespace",
                fix=f"Write {NAMESPACE}.",
            )
        )
    if not 1 <= settings.replicas <= 9:
        what = f"{settings.replicas} replicas."
        found.append(Mistake(what=what, where="--replicas", fix="Write 2: one leads, one stands by."))
    if found:
        raise DeclarationError.of(found)
    return settings


def meta(name: str, namespace: str | None = None, **labels: str) -> Object:
    """Metadata of one of our objects."""
    found: Object = {"name": name}
    if namespace is not None:
        found["namespace"] = namespace
    found["labels"] = {"app.kubernetes.io/name": "gpuyield", "app.kubernetes.io/part-of": "gpuyield", **labels}
    return found
