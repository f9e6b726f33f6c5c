"""What is written to jobs and Workloads, as bodies and patches: the same for the controller and for break-glass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import WORKLOAD
from gpuyield.collect.kueue.shapes import listed
from gpuyield.collect.kueue.work import GATES
from gpuyield.model.kueue import CheckState
from gpuyield.model.marks import PLAN
from gpuyield.units import SECOND_MS, format_instant

MOST_SAID = 1024
"""An event and the message of a check hold so many characters."""


def without_our_gate(gates: str) -> list[dict[str, Any]]:
    """A JSON patch that takes our name out of the gates, if they are still written as here."""
    left = ",".join(one for one in listed(gates) if one != PLAN)
    path = f"/metadata/annotations/{GATES.replace('~', '~0').replace('/', '~1')}"
    change = {"op": "replace", "path": path, "value": left} if left else {"op": "remove", "path": path}
    return [{"op": "test", "path": path, "value": gates}, change]


def answered(
    name: str, namespace: str, version: str, checks: Iterable[str], state: CheckState, said: str, now_ms: int
) -> dict[str, Any]:
    """A Workload's status with these entries of checks and nobody else's, to be applied."""
    at = second(now_ms)
    return {
        "apiVersion": f"{WORKLOAD.group}/{WORKLOAD.version}",
        "kind": WORKLOAD.kind,
        "metadata": {"name": name, "namespace": namespace, **of_version(version)},
        "status": {
            "admissionChecks": [
                {"name": one, "state": str(state), "message": said[:MOST_SAID], "lastTransitionTime": at}
                for one in checks
            ]
        },
    }


def of_version(version: str) -> dict[str, str]:
    """For a write that counts only where nothing changed since; nothing where no version is known."""
    return {"resourceVersion": version} if version else {}


def second(at_ms: int) -> str:
    """An instant as Kubernetes writes it, cut to its second."""
    return format_instant(at_ms - at_ms % SECOND_MS)
