"""The plan in force, in ConfigMaps `gpuyield-plan-N`, put in place by the one write of the pointer `gpuyield-plan`.

New pieces never take the place of those that the pointer names, so a writer that dies half-way leaves the old plan
whole. The pointer is written only over the version that was read last: of two writers one is told.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import CONFIG_MAP, ClusterApi, Conflict, NotFound
from gpuyield.controller.plan_parts import (
    Pointer,
    StoredPlan,
    TornStore,
    digest_of,
    free_names,
    pack,
    read_pointer,
    torn,
    unpack,
)
from gpuyield.model.marks import PLAN

POINTER = "gpuyield-plan"
_PIECE = "piece"
_TRIES = 3
_LABELS = {"app.kubernetes.io/name": "gpuyield", "app.kubernetes.io/component": "plan"}


class PlanStore:
    """The ConfigMaps of one namespace. Every method raises SourceError where the cluster is out of reach or refuses."""

    def __init__(self, api: ClusterApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self._version: str | None = None
        self._pieces: tuple[str, ...] = ()

    def pointer(self) -> Pointer | None:
        """What is in force; None where nothing was ever written.

        Raises:
            TornStore: The pointer cannot be read; the next write takes its place.
        """
        try:
            found = self._api.get(CONFIG_MAP, POINTER, self._namespace)
        except NotFound:
            self._version, self._pieces = None, ()
            return None
        self._version = str(found["metadata"].get("resourceVersion", ""))
        data = found.get("data")
        pointer = read_pointer(data if isinstance(data, Mapping) else {})
        self._pieces = pointer.pieces
        return pointer

    def read(self, pointer: Pointer) -> StoredPlan:
        """The plan of a pointer. Where another is written meanwhile, that one.

        Raises:
            TornStore: It is no plan.
        """
        for tried in range(_TRIES):
            try:
                return unpack(pointer, [self._piece(name) for name in pointer.pieces])
            except TornStore:
                newer = self.pointer()
                if newer is None or newer == pointer or tried == _TRIES - 1:
                    raise
                pointer = newer
        raise torn("it changes faster than it can be read")

    def write(self, plan: StoredPlan) -> Pointer:
        """Put a plan in force, if nobody did so since the pointer was read last.

        Raises:
            Conflict: Somebody did.
            SourceError: It is too large, or the cluster refuses.
        """
        pieces = pack(plan)
        self._expect_unchanged()
        names = free_names(self._pieces, len(pieces))
        for name, piece in zip(names, pieces, strict=True):
            content = base64.b64encode(piece).decode()
            self._api.apply(CONFIG_MAP, self._map(name, binaryData={_PIECE: content}), manager=PLAN)
        pointer = Pointer(generation=plan.generation, digest=digest_of(pieces), pieces=names, by=plan.by)
        body = self._map(POINTER, data=pointer.data())
        if self._version is None:
            written = self._api.create(CONFIG_MAP, body)
        else:
            body["metadata"]["resourceVersion"] = self._version
            written = self._api.apply(CONFIG_MAP, body, manager=PLAN)
        left = [name for name in self._pieces if name not in names]
        self._version, self._pieces = str(written["metadata"].get("resourceVersion", "")), names
        self._clear(left)
        return pointer

    def _expect_unchanged(self) -> None:
        """Before any piece is written: its name could be that of a plan that we do not know of."""
        known = self._version
        try:
            found = self._api.get(CONFIG_MAP, POINTER, self._namespace)["metadata"].get("resourceVersion", "")
        except NotFound:
            found = None
        if found != known:
            raise Conflict("another plan was put in force meanwhile.", where=f"ConfigMap {POINTER}", fix="Look again.")

    def _piece(self, name: str) -> bytes:
        try:
            found = self._api.get(CONFIG_MAP, name, self._namespace)
        except NotFound as err:
            raise torn(f"its piece {name} is missing") from err
        data = found.get("binaryData")
        text = data.get(_PIECE, "") if isinstance(data, Mapping) else ""
        try:
            return base64.b64decode(str(text), validate=True)
        except (binascii.Error, ValueError) as err:
            raise torn(f"its piece {name} is no base64") from err

    def _clear(self, names: list[str]) -> None:
        """Delete pieces that no pointer names; what stays is written over one day."""
        for name in names:
            try:
                self._api.delete(CONFIG_MAP, name, self._namespace)
            except NotFound:
                continue

    def _map(self, name: str, **content: object) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self._namespace, "labels": dict(_LABELS)},
            **content,
        }
