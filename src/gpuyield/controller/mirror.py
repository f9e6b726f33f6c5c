"""What is in the cluster, kept up to date: each kind is listed, watched from there, and listed again when in doubt.

A watch that breaks goes on from its last version; one whose version is too old is listed anew, and what went meanwhile
goes here too. Nothing depends on having seen every change: readers take the whole.
"""

from __future__ import annotations

import logging
import random
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import msgspec

from gpuyield.collect.kubernetes import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    CRON_JOB,
    JOB,
    LOCAL_QUEUE,
    NODE,
    POD,
    RESOURCE_FLAVOR,
    WORKLOAD,
    ClusterApi,
    Gone,
    Kind,
    NotFound,
    kind_of,
)
from gpuyield.collect.kueue.reading import Objects
from gpuyield.collect.kueue.shapes import Object
from gpuyield.collect.kueue.snapshot import Memo, snapshot
from gpuyield.collect.probe import Forbidden
from gpuyield.errors import SourceError
from gpuyield.model.evidence import Gap
from gpuyield.model.kueue import ClusterSnapshot

NEEDED = (RESOURCE_FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD, ADMISSION_CHECK, JOB)
USEFUL = (COHORT, CRON_JOB, NODE, POD)
"""Without the right to read these there is a gap, and the controller goes on."""

_WHERE = ("nodeName", "nodeSelector", "tolerations", "affinity")
_READ_WHOLE = frozenset({*NEEDED, *USEFUL})
RESYNC_S = 300.0
MOST_ALIKE = 4_096
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Kept:
    """The objects of one kind by uid; `lacks` is why they cannot be read ("": they can).

    `version` is the one to watch from ("": they have to be listed first).
    """

    kind: Kind
    objects: dict[str, Object] = field(default_factory=dict)
    is_listed: bool = False
    lacks: str = ""
    version: str = ""


class Mirror:
    """One cluster; watching begins with `start` and ends with `stop`."""

    def __init__(self, api: ClusterApi, *, seed: int = 0) -> None:
        self._api = api
        self._chance = random.Random(seed)
        self._lock = threading.Condition()
        self._stop = threading.Event()
        self._kept: dict[Kind, _Kept] = {}
        self._changes = self._seen_changes = 0
        self._made: tuple[int, ClusterSnapshot] | None = None
        self._memo = Memo()
        self._alike = _Alike()

    def start(self) -> None:
        """Begin to watch every kind."""
        for kind in (*NEEDED, *USEFUL):
            self._watch(kind)

    def stop(self) -> None:
        """End all watches; their threads end with their next word from the server."""
        self._stop.set()
        with self._lock:
            self._lock.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change since the last call; whether there was one."""
        with self._lock:
            if self._changes == self._seen_changes and not self._stop.is_set():
                self._lock.wait(timeout_s)
            changed = self._changes != self._seen_changes
            self._seen_changes = self._changes
            return changed

    def wake(self) -> None:
        """Let whoever waits go on."""
        with self._lock:
            self._changes += 1
            self._lock.notify_all()

    def snapshot(self, now_ms: int) -> ClusterSnapshot | None:
        """All of it; None while a kind that is needed has never been listed."""
        with self._lock:
            if not all(self._kept[kind].is_listed for kind in NEEDED if kind in self._kept) or not self._kept:
                return None
            changes = self._changes
            if self._made is not None and self._made[0] == changes:
                return replace(self._made[1], at_ms=now_ms)
            objects = self._objects()
        made = snapshot(objects, at_ms=now_ms, memo=self._memo)
        self._made = (changes, made)
        return made

    def trouble(self) -> str:
        """Why what is needed cannot be read; "" where it can."""
        with self._lock:
            return "; ".join(self._kept[kind].lacks for kind in NEEDED if kind in self._kept and self._kept[kind].lacks)

    def _objects(self) -> Objects:
        lists = {kept.kind.plural: list(kept.objects.values()) for kept in self._kept.values() if not kept.lacks}
        known = {kind.plural for kind in (*NEEDED, *USEFUL)}
        owners = tuple(one for plural, found in lists.items() if plural not in known for one in found)
        gaps = tuple(Gap(reason=kept.lacks, where=kept.kind.plural) for kept in self._kept.values() if kept.lacks)
        return Objects(
            api_version=WORKLOAD.version,
            lists={plural: found for plural, found in lists.items() if plural in known},
            owners=owners,
            gaps=gaps,
        )

    # One kind, in a thread of its own.

    def _watch(self, kind: Kind) -> None:
        with self._lock:
            if kind in self._kept:
                return
            self._kept[kind] = _Kept(kind)
        threading.Thread(target=self._keep, args=(kind,), name=f"watch {kind.plural}", daemon=True).start()

    def _keep(self, kind: Kind) -> None:
        pause_s, kept = FIRST_PAUSE_S, self._kept[kind]
        listed_s = time.monotonic()
        while not self._stop.is_set():
            try:
                if not kept.version or time.monotonic() - listed_s > RESYNC_S:
                    self._list(kept)
                    listed_s = time.monotonic()
                self._follow(kept, until_s=listed_s + RESYNC_S)
                pause_s = FIRST_PAUSE_S
            except Gone:
                kept.version = ""
            except (Forbidden, NotFound) as err:
                self._note_lack(kept, str(err))
                kept.version = ""
                self._stop.wait(LONGEST_PAUSE_S)
            except SourceError as err:
                # It goes on from the last version that was applied, unless the server says that it is gone.
                _log.warning("%s: %s", kind.plural, err)
                pause_s = self._rest(pause_s)
            except Exception:
                # What an object holds must not end its watch for good; from here all is listed anew.
                _log.exception("%s cannot be followed", kind.plural)
                kept.version = ""
                pause_s = self._rest(pause_s)

    def _rest(self, pause_s: float) -> float:
        """Wait, not all at once; how long to wait the next time."""
        self._stop.wait(pause_s * self._chance.uniform(0.5, 1.5))
        return min(LONGEST_PAUSE_S, 2 * pause_s)

    def _list(self, kept: _Kept) -> None:
        found = self._api.list(kept.kind, keep=partial(_lean, kept.kind, alike=self._alike))
        objects = {uid_of(one): one for one in found.items}
        with self._lock:
            kept.objects, kept.is_listed, kept.lacks = objects, True, ""
            self._note_change()
        self._watch_owners(kept.kind, found.items)
        kept.version = found.resource_version

    def _follow(self, kept: _Kept, *, until_s: float) -> None:
        for change in self._api.watch(kept.kind, since=kept.version):
            if self._stop.is_set():
                break
            if change.type != "BOOKMARK":
                with self._lock:
                    if change.type == "DELETED":
                        kept.objects.pop(uid_of(change.object), None)
                    else:
                        kept.objects[uid_of(change.object)] = _lean(kept.kind, change.object, alike=self._alike)
                    self._note_change()
                if change.type == "ADDED":
                    self._watch_owners(kept.kind, (change.object,))
            kept.version = str(change.object.get("metadata", {}).get("resourceVersion") or kept.version)
            if time.monotonic() > until_s:
                break

    def _note_lack(self, kept: _Kept, why: str) -> None:
        with self._lock:
            if kept.lacks != why:
                kept.lacks = why
                self._note_change()

    def _note_change(self) -> None:
        self._changes += 1
        self._lock.notify_all()

    def _watch_owners(self, kind: Kind, found: Iterable[Object]) -> None:
        """Kinds that own Workloads and are no Jobs are watched from the first one on."""
        if kind is not WORKLOAD:
            return
        for one in found:
            for owner in one["metadata"].get("ownerReferences") or ():
                version, name = str(owner.get("apiVersion", "")), str(owner.get("kind", ""))
                if owner.get("controller") and "/" in version and name not in ("Job", "Pod", "Workload", ""):
                    self._watch(kind_of(version, name))


def uid_of(one: Object) -> str:
    """What tells an object from one of the same name that came before or comes after it."""
    return str(one["metadata"].get("uid") or one["metadata"].get("name"))


class _Alike:
    """Parts of objects that are equal are kept once: most jobs ask for what others ask for."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Object] = {}

    def of(self, part: Object) -> Object:
        """The part, or an equal one that was seen before; neither is altered by anybody."""
        if len(self._kept) >= MOST_ALIKE:
            self._kept.clear()
        return self._kept.setdefault(msgspec.json.encode(part), part)


def _lean(kind: Kind, one: Object, *, alike: _Alike) -> Object:
    """An object without what nobody reads: what owns Workloads only as itself, pods only with what they ask for."""
    meta = _with_interned(one["metadata"], "namespace", "creationTimestamp")
    meta.pop("managedFields", None)
    if "ownerReferences" in meta:
        meta["ownerReferences"] = [_with_interned(each, "apiVersion", "kind") for each in meta["ownerReferences"]]
    if "labels" in meta:
        meta["labels"] = alike.of(meta["labels"])
    named = {"apiVersion": f"{kind.group}/{kind.version}" if kind.group else kind.version, "kind": kind.kind}
    if kind is JOB or kind not in _READ_WHOLE:
        return {**named, "metadata": meta}
    spec = one.get("spec") or {}
    if kind is WORKLOAD:
        pod_sets = [
            {**of, "template": _lean_template(of.get("template") or {}, alike)} for of in spec.get("podSets") or ()
        ]
        spec = {**_with_interned(spec, "queueName"), "podSets": pod_sets}
    elif kind is POD:
        spec = _asked_of(spec)
    return {**named, **one, "metadata": meta, "spec": spec}


def _lean_template(template: Object, alike: _Alike) -> Object:
    meta = template.get("metadata") or {}
    parts = {"labels": alike.of(meta.get("labels") or {}), "annotations": meta.get("annotations") or {}}
    return {"metadata": parts, "spec": alike.of(_asked_of(template.get("spec") or {}))}


def _with_interned(of: Object, *keys: str) -> Object:
    """An object whose texts under these keys are kept once for all objects."""
    return {key: sys.intern(value) if key in keys and type(value) is str else value for key, value in of.items()}


def _asked_of(spec: Object) -> Object:
    """Of a pod's spec where it may run, and how much its containers ask for."""
    kept: Object = {key: spec[key] for key in _WHERE if key in spec}
    for key in ("containers", "initContainers"):
        kept[key] = [
            {part: one[part] for part in ("resources", "restartPolicy") if part in one} for one in spec.get(key) or ()
        ]
    return kept
