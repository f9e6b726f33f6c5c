"""An API server's objects in memory: versions and conflicts, pages, watches with bookmarks, and server-side apply.

What it keeps to is what the controller and the tests rely on: a write that changes nothing makes no version; a watch
goes on from any version that is not compacted, and else ends with 410; apply merges lists of conditions and admission
checks by their names and takes away what the same manager applied before and no longer does; `/status` is written by
itself; what an object owned goes with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import AlreadyExists, Change, Conflict, Gone, Invalid, Kind, Listed, NotFound, whole
from gpuyield.collect.kueue.shapes import Object
from gpuyield.errors import SourceError

Key = tuple[str, str, str]
_BY_NAME = {"conditions": "type", "admissionChecks": "name"}
"""Lists whose entries are told apart by a field."""
_WITH_STATUS = frozenset({"workloads", "jobs", "clusterqueues", "localqueues", "admissionchecks", "nodes", "pods"})
_BOOKMARK_S = 1.0

Admission = Callable[[str, Kind, Object], None]
"""Looks at what is about to be created or changed ("create", "update"), changes it, or raises Invalid."""


@dataclass(slots=True)
class _Event:
    version: int
    type: str
    key: Key
    object: Object


@dataclass(slots=True)
class ApiObjects:
    """All objects by plural, namespace and name; safe to use from several threads.

    `writes` tells of each write by `ClusterApi` in order, `refuses` the plurals that every write is refused for.
    """

    objects: dict[Key, Object] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    refuses: set[str] = field(default_factory=set)
    admissions: list[Admission] = field(default_factory=list)
    _events: list[_Event] = field(default_factory=list)
    _applied: dict[tuple[Key, str], Object] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _version: int = 0
    _compacted: int = 0
    _breaks: int = 0

    # As somebody else.

    def put(self, kind: Kind, body: Object) -> Object:
        """Write all of an object, its status with it."""
        with self._changed:
            return self._store(kind, deepcopy(body))

    def change(self, kind: Kind, name: str, namespace: str | None, alter: Callable[[Object], None]) -> Object:
        """Read an object, alter it and write it."""
        with self._changed:
            found = deepcopy(self._found(kind, name, namespace))
            alter(found)
            return self._store(kind, found)

    def all(self, kind: Kind, namespace: str | None = None, labels: str | None = None) -> tuple[list[Object], str]:
        """The objects of a kind in the order of their making, not to be altered, and the version of that."""
        with self._changed:
            return list(self._select(kind, namespace, labels)), str(self._version)

    def compact(self) -> None:
        """Forget every change so far: a watch from before it is too old."""
        with self._changed:
            self._compacted = self._version
            self._events.clear()

    def break_watches(self) -> None:
        """End every watch in the middle."""
        with self._changed:
            self._breaks += 1
            self._changed.notify_all()

    def wait(self, since: int, timeout_s: float) -> int:
        """Wait for a change since a version; the present one."""
        with self._changed:
            if self._version == since:
                self._changed.wait(timeout_s)
            return self._version

    # As `ClusterApi`.

    def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        keep: Callable[[Object], Object] = whole,
    ) -> Listed:
        found, version = self.all(kind, namespace, labels)
        return Listed(items=[keep(deepcopy(one)) for one in found], resource_version=version)

    def watch(self, kind: Kind, *, since: str, namespace: str | None = None, seconds: float = 5.0) -> Iterator[Change]:
        """Changes since a version, for so long; bookmarks where there is none.

        Raises:
            Gone: The version is compacted.
            SourceError: The watch was broken.
        """
        version, until_s = int(since), time.monotonic() + seconds
        with self._changed:
            breaks = self._breaks
        while time.monotonic() < until_s:
            with self._changed:
                if version < self._compacted:
                    raise Gone("too old resource version (410).")
                if self._breaks != breaks:
                    raise SourceError("the connection was lost.")
                found = [one for one in self._events if one.version > version and _is_of(one.key, kind, namespace)]
                newest = self._version
                if not found:
                    self._changed.wait(min(_BOOKMARK_S, max(0.0, until_s - time.monotonic())))
            version = newest
            if found:
                yield from (Change(type=one.type, object=deepcopy(one.object)) for one in found)
            else:
                yield Change(type="BOOKMARK", object={"metadata": {"resourceVersion": str(newest)}})

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        with self._changed:
            return deepcopy(self._found(kind, name, namespace))

    def create(self, kind: Kind, body: Object, *, dry_run: bool = False) -> Object:
        with self._changed:
            self._note("create", kind, body["metadata"]["name"])
            if _key(kind, body["metadata"]["name"], body["metadata"].get("namespace")) in self.objects:
                raise AlreadyExists("it is there.")
            return self._admitted("create", kind, deepcopy(body), dry_run=dry_run)

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
        with self._changed:
            name, namespace = body["metadata"]["name"], body["metadata"].get("namespace")
            self._note("apply", kind, name)
            key = _key(kind, name, namespace)
            old = self.objects.get(key)
            if old is None and status:
                raise NotFound(f"no {kind.kind} {name}.")
            self._expect_version(old or {"metadata": {}}, body)
            applied = _of_part(kind, body, status=status)
            who = (key, f"{manager}{'/status' if status else ''}")
            others = [one for other, one in self._applied.items() if other[0] == key and other != who]
            gone = _leaves(self._applied.get(who, {})) - _leaves(applied)
            for one in others:
                gone -= _leaves(one)
            made = _merged_by_name(_without(deepcopy(old or {"metadata": {}}), gone), applied)
            made = self._admitted("create" if old is None else "update", kind, made, dry_run=dry_run)
            if not dry_run:
                self._applied[who] = deepcopy(applied)
            return made

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        *,
        operations: Sequence[Object] | None = None,
        merge: Object | None = None,
        status: bool = False,
        dry_run: bool = False,
    ) -> Object:
        with self._changed:
            self._note("patch", kind, name)
            old = self._found(kind, name, namespace)
            if operations is not None:
                return self._admitted("update", kind, patched(old, operations), dry_run=dry_run)
            self._expect_version(old, merge or {})
            change = _of_part(kind, merge or {}, status=status)
            return self._admitted("update", kind, merged(old, change), dry_run=dry_run)

    def delete(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        with self._changed:
            self._note("delete", kind, name)
            self._found(kind, name, namespace)
            self._remove(_key(kind, name, namespace))

    # Inside.

    def _admitted(self, verb: str, kind: Kind, body: Object, *, dry_run: bool) -> Object:
        for one in self.admissions:
            one(verb, kind, body)
        return deepcopy(body) if dry_run else self._store(kind, body)

    def _store(self, kind: Kind, body: Object) -> Object:
        meta = body["metadata"]
        key = _key(kind, meta["name"], meta.get("namespace"))
        old = self.objects.get(key)
        meta.setdefault("uid", old["metadata"]["uid"] if old else f"uid-{self._version + 1}")
        meta.setdefault("creationTimestamp", _now())
        meta["resourceVersion"] = old["metadata"]["resourceVersion"] if old else ""
        if old == body:
            return deepcopy(body)
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        self.objects[key] = body
        self._tell("ADDED" if old is None else "MODIFIED", key, body)
        return deepcopy(body)

    def _remove(self, key: Key) -> None:
        gone = self.objects.pop(key)
        self._version += 1
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self._version)}}
        self._applied = {who: one for who, one in self._applied.items() if who[0] != key}
        self._tell("DELETED", key, gone)
        owned = gone["metadata"]["uid"]
        for other, one in list(self.objects.items()):
            owners = one["metadata"].get("ownerReferences") or ()
            in_it = key[0] == "namespaces" and other[1] == key[2]
            if other in self.objects and (in_it or any(owner.get("uid") == owned for owner in owners)):
                self._remove(other)

    def _tell(self, kind: str, key: Key, body: Object) -> None:
        self._events.append(_Event(self._version, kind, key, body))
        self._changed.notify_all()

    def _select(self, kind: Kind, namespace: str | None, labels: str | None) -> Iterable[Object]:
        wanted = [part.partition("=")[::2] for part in (labels or "").split(",") if part]
        for key, one in self.objects.items():
            has = one["metadata"].get("labels") or {}
            if _is_of(key, kind, namespace) and all(has.get(name) == value for name, value in wanted):
                yield one

    def _note(self, verb: str, kind: Kind, name: str) -> None:
        self.writes.append(f"{verb} {kind.plural} {name}")
        if kind.plural in self.refuses:
            raise SourceError(f"{kind.plural} are refused.")

    def _found(self, kind: Kind, name: str, namespace: str | None) -> Object:
        found = self.objects.get(_key(kind, name, namespace))
        if found is None:
            raise NotFound(f"no {kind.kind} {name}.")
        return found

    @staticmethod
    def _expect_version(old: Object, body: Object) -> None:
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted is not None and wanted != old["metadata"].get("resourceVersion"):
            raise Conflict("it has changed.")


def merged(old: Any, new: Any) -> Any:
    """A JSON merge patch (RFC 7396)."""
    if not isinstance(new, dict):
        return deepcopy(new)
    found = deepcopy(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


def patched(old: Object, operations: Sequence[Object]) -> Object:
    """A JSON patch (RFC 6902) of objects, without arrays. Raises Invalid where a test fails."""
    found = deepcopy(old)
    for one in operations:
        *path, last = (part.replace("~1", "/").replace("~0", "~") for part in one["path"].split("/")[1:])
        place = found
        for part in path:
            place = place.setdefault(part, {}) if one["op"] == "add" else place.get(part, {})
        if one["op"] == "test" and place.get(last) != one["value"]:
            raise Invalid("a test failed.")
        if one["op"] == "remove":
            del place[last]
        if one["op"] in ("add", "replace"):
            place[last] = one["value"]
    return found


def _of_part(kind: Kind, body: Object, *, status: bool) -> Object:
    """What of a body is written: all but the status, or the status alone."""
    meta = {key: value for key, value in body.get("metadata", {}).items() if key != "resourceVersion"}
    if status:
        return {"metadata": {}, **({"status": body["status"]} if "status" in body else {})}
    rest = {key: value for key, value in body.items() if key != "status" or kind.plural not in _WITH_STATUS}
    return {**rest, "metadata": meta}


def _merged_by_name(old: Any, new: Any, name: str = "") -> Any:
    """As apply merges: objects by key, some lists by a field of their entries, everything else as a whole."""
    if isinstance(new, dict):
        found = old if isinstance(old, dict) else {}
        return found | {key: _merged_by_name(found.get(key), value, key) for key, value in new.items()}
    if name in _BY_NAME and isinstance(new, list):
        by = _BY_NAME[name]
        found = {one.get(by): one for one in (old or [])}
        return list((found | {one[by]: _merged_by_name(found.get(one[by]), one) for one in new}).values())
    return deepcopy(new)


def _leaves(of: Any, path: tuple[str, ...] = (), name: str = "") -> set[tuple[str, ...]]:
    """The paths of what a manager owns; entries of named lists are paths of their own."""
    if isinstance(of, dict):
        return set().union(*(_leaves(value, (*path, key), key) for key, value in of.items()))
    if name in _BY_NAME and isinstance(of, list):
        return {(*path, str(one[_BY_NAME[name]])) for one in of}
    return {path}


def _without(of: Any, gone: Iterable[tuple[str, ...]]) -> Any:
    for path in gone:
        place, *rest = of, *path
        while len(rest) > 1 and isinstance(place, dict):
            if rest[0] in _BY_NAME and len(rest) == 2:
                by = _BY_NAME[rest[0]]
                place[rest[0]] = [one for one in place.get(rest[0]) or [] if str(one.get(by)) != rest[1]]
                place = None
                break
            place, rest = place.get(rest[0]), rest[1:]
        if isinstance(place, dict):
            place.pop(rest[0], None)
    return of


def _key(kind: Kind, name: str, namespace: str | None) -> Key:
    return kind.plural, (namespace or "") if kind.namespaced else "", name


def _is_of(key: Key, kind: Kind, namespace: str | None) -> bool:
    return key[0] == kind.plural and (not namespace or key[1] == namespace)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
