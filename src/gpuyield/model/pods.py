"""How pods of ours run wherever we make them: as nobody, with nothing that may be written but their volumes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Parts of manifests are JSON.

_USER = 65532

POD_SECURITY: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": _USER,
    "runAsGroup": _USER,
    "fsGroup": _USER,
    "seccompProfile": {"type": "RuntimeDefault"},
}

CONTAINER_SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
