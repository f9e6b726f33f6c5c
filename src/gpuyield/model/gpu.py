"""GPU devices as Kubernetes names them: whole cards, MIG slices, shared replicas; and flavors."""

from __future__ import annotations

import re
from enum import StrEnum

_MIG = re.compile(r"mig[-_](\d+)g[-_.]")
_VENDOR_WORDS = frozenset({"nvidia", "tesla", "geforce", "quadro", "amd", "instinct", "intel"})
_PREFIX_WORDS = frozenset({"rtx", "gtx", "max", "titan"})

SLICES_PER_CARD = 7
SLICES_PER_A30 = 4


class DeviceKind(StrEnum):
    """What one unit of a device resource is."""

    WHOLE = "whole"
    MIG = "mig"
    SHARED = "shared"


def device_kind(resource: str) -> DeviceKind:
    """What one unit of a resource such as `nvidia_com_gpu`, `nvidia_com_mig_1g_10gb`, `nvidia_com_gpu_shared` is."""
    if _MIG.search(resource):
        return DeviceKind.MIG
    return DeviceKind.SHARED if resource.endswith("shared") else DeviceKind.WHOLE


def mig_slices(name: str) -> int | None:
    """Compute slices of a MIG resource, profile (`3g.40gb`) or product name; None where it names none."""
    found = _MIG.search(name) or re.search(r"\b(\d+)g\.\d+gb", name.lower())
    return int(found[1]) if found else None


def slices_per_card(product: str) -> int:
    """Compute slices that a card of this product can be cut into."""
    return SLICES_PER_A30 if re.search(r"\ba30\b", product.lower().replace("-", " ")) else SLICES_PER_CARD


def flavor_of(product: str) -> str | None:
    """The short name of a product label: `NVIDIA-H100-80GB-HBM3` is `h100`; None for an empty label."""
    words = [word for word in re.split(r"[\s_-]+", product.lower()) if word and word not in _VENDOR_WORDS]
    if not words:
        return None
    if words[0] in _PREFIX_WORDS and len(words) > 1:
        return f"{words[0]}-{words[1]}"
    return words[0]
