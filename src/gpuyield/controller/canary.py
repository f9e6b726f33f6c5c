"""Finds out whether Kueue honours the gate annotation, before any user's job depends on it.

Where the feature is off the annotation is accepted and silently ignored, and the job starts. A job with a gate that
cannot be one (it lacks a domain) is offered with a dry run: Kueue refuses it where it looks at gates, and where it does
not the job passes. Nothing is ever created.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import JOB, ClusterApi
from gpuyield.collect.kueue.work import GATES, QUEUE_LABEL
from gpuyield.errors import SourceError
from gpuyield.model.marks import PLAN

NAME = "gpuyield-canary"
_NO_GATE = "gpuyield-canary"
"""A gate needs a domain; this one is refused by whoever reads it."""


class Gate(StrEnum):
    """What is known of the gate."""

    HONOURED = "honoured"
    IGNORED = "ignored"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What the canary showed, and the words of the API server where that is not clear."""

    gate: Gate
    said: str = ""


def look_at_gate(api: ClusterApi, namespace: str) -> Finding:
    """Offer the canary in a namespace of ours."""
    try:
        api.apply(JOB, canary_job(namespace), manager=PLAN, dry_run=True)
    except SourceError as err:
        return _read_refusal(str(err))
    return Finding(gate=Gate.IGNORED, said="Kueue accepted a gate that cannot be one: it does not look at gates.")


def canary_job(namespace: str) -> dict[str, Any]:
    """A job that would do nothing, and is never created."""
    container = {"name": "none", "image": "none", "resources": {"requests": {"cpu": "1m"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "labels": {QUEUE_LABEL: NAME},
            "annotations": {GATES: _NO_GATE},
        },
        "spec": {
            "suspend": True,
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


def _read_refusal(said: str) -> Finding:
    if GATES in said:
        return Finding(gate=Gate.HONOURED)
    return Finding(gate=Gate.UNKNOWN, said=said[:256])
