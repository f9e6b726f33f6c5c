"""The little of an API server that writes need: objects by kind and name, versions, conflicts, merges, JSON patches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import AlreadyExists, Change, Conflict, Invalid, Kind, Listed, NotFound
from gpuyield.collect.kueue.shapes import Object
from gpuyield.errors import SourceError


class OneApi:
    """Keeps what is written; `writes` tells of each in order, `refuses` the plurals that every write is refused for."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Object] = {}
        self.writes: list[str] = []
        self.refuses: set[str] = set()
        self._versions = 0

    def put(self, kind: Kind, body: Object) -> Object:
        """As if somebody else had written it."""
        kept = deepcopy(body)
        self._versions += 1
        kept["metadata"]["resourceVersion"] = str(self._versions)
        self.objects[self._key(kind, kept["metadata"]["name"], kept["metadata"].get("namespace"))] = kept
        return deepcopy(kept)

    def list(self, kind: Kind, *, namespace: str | None = None, labels: str | None = None) -> Listed:
        found = [deepcopy(one) for key, one in self.objects.items() if key[0] == kind.plural]
        return Listed(items=found, resource_version=str(self._versions))

    def watch(self, kind: Kind, *, since: str, namespace: str | None = None) -> Iterator[Change]:
        return iter(())

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        return deepcopy(self._found(kind, name, namespace))

    def create(self, kind: Kind, body: Object) -> Object:
        self._note("create", kind, body["metadata"]["name"])
        if self._key(kind, body["metadata"]["name"], body["metadata"].get("namespace")) in self.objects:
            raise AlreadyExists("it is there.")
        return self.put(kind, body)

    def apply(
        self,
        kind: Kind,
        body: Object,
        *,
        manager: str,
        force: bool = True,
        status: bool = False,
        dry_run: bool = False,
    ) -> Object:
        name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
        self._note("apply", kind, name)
        old = self.objects.get(self._key(kind, name, namespace), {"metadata": {}})
        self._expect_version(old, body)
        return self.put(kind, _merged(old, body))

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        *,
        operations: Sequence[Object] | None = None,
        merge: Object | None = None,
    ) -> Object:
        self._note("patch", kind, name)
        old = self._found(kind, name, namespace)
        if operations is not None:
            return self.put(kind, _patched(old, operations))
        self._expect_version(old, merge or {})
        return self.put(kind, _merged(old, merge or {}))

    def delete(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        self._note("delete", kind, name)
        self._found(kind, name, namespace)
        del self.objects[self._key(kind, name, namespace)]

    def _note(self, verb: str, kind: Kind, name: str) -> None:
        self.writes.append(f"{verb} {kind.plural} {name}")
        if kind.plural in self.refuses:
            raise SourceError(f"{kind.plural} are refused.")

    def _found(self, kind: Kind, name: str, namespace: str | None) -> Object:
        found = self.objects.get(self._key(kind, name, namespace))
        if found is None:
            raise NotFound(f"no {kind.kind} {name}.")
        return found

    @staticmethod
    def _expect_version(old: Object, body: Object) -> None:
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != old["metadata"].get("resourceVersion"):
            raise Conflict("it has changed.")

    @staticmethod
    def _key(kind: Kind, name: str, namespace: str | None) -> tuple[str, str, str]:
        return kind.plural, namespace or "", name


def _merged(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return deepcopy(new)
    found = deepcopy(old)
    for key, value in new.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found


def _patched(old: Object, operations: Sequence[Object]) -> Object:
    found = deepcopy(old)
    for one in operations:
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:])
        place = found
        for part in path:
            place = place.get(part, {})
        if one["op"] == "test" and place.get(last) != one["value"]:
            raise Invalid("a test failed.")
        if one["op"] == "remove":
            del place[last]
        if one["op"] == "replace":
            place[last] = one["value"]
    return found
