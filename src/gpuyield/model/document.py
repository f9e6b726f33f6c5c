"""Documents and their canonical inputs: bytes that are the same wherever they are written.

Canonical: integers and decimal strings (no floats), keys sorted, separators `,` and `:`, UTF-8.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any  # JSON has no narrower type than this.

from gpuyield.errors import InternalError
from gpuyield.model.evidence import Gap
from gpuyield.units import Window, format_instant

SCHEMA_PREFIX = "gpuyield/"
SCHEMA_VERSION = "/v1alpha1"
_PLAIN = frozenset({str, int, bool, type(None)})


def schema_name(document: str) -> str:
    """The `schema` field of a document, such as `gpuyield/plan/v1alpha1`."""
    return f"{SCHEMA_PREFIX}{document}{SCHEMA_VERSION}"


def window_document(window: Window) -> dict[str, str]:
    """A half-open window."""
    return {"from": format_instant(window.from_ms), "to": format_instant(window.to_ms)}


def gaps_document(gaps: Sequence[Gap]) -> list[dict[str, Any]]:
    """What is not known, and why."""
    return [
        {
            "reason": gap.reason,
            "where": gap.where,
            "window": None if gap.window is None else window_document(gap.window),
            "gpu_ms": gap.gpu_ms,
        }
        for gap in gaps
    ]


def decimal_text(value: float) -> str:
    """The shortest decimal that is this number, as canonical inputs hold it."""
    return format(Decimal(repr(value)), "f")


def canonical_bytes(inputs: Mapping[str, Any]) -> bytes:
    """The one spelling of canonical inputs.

    Raises:
        InternalError: A float is in them.
    """
    if _has_float(inputs):
        _refuse_floats(inputs, "$")
    return json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def inputs_digest(data: bytes) -> str:
    """`sha256:` of exactly these bytes."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _has_float(value: Any) -> bool:
    """Whether there is one anywhere; where it is takes longer to say."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float):
            return True
        if isinstance(one, dict | Mapping):
            waiting.extend(inner for inner in one.values() if type(inner) not in _PLAIN)
        elif isinstance(one, list | tuple):
            waiting.extend(inner for inner in one if type(inner) not in _PLAIN)
    return False


def _refuse_floats(value: Any, path: str) -> None:
    if isinstance(value, float):
        raise InternalError(f"a float at {path} of canonical inputs.")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_floats(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(value):
            _refuse_floats(inner, f"{path}[{at}]")
