"""Actions as writes to the cluster. Each names the version it was decided on: what has changed is looked at again.

A write that was done is not done again for the same version of the same object, and one that fails is tried again
after a pause that grows. Nothing is ever written that stops work: neither Retry nor Rejected, nor a gate put on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, assert_never  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import (
    EVENT,
    WORKLOAD,
    AlreadyExists,
    ClusterApi,
    Conflict,
    Kind,
    NotFound,
    kind_of,
)
from gpuyield.collect.kueue.work import GATES, QUEUE_LABEL
from gpuyield.controller.actions import Action, MoveQueue, Park, Ready, Release, Return, Say, Topic
from gpuyield.controller.metrics import Metrics
from gpuyield.controller.writes import MOST_SAID, answered, of_version, second, without_our_gate
from gpuyield.errors import SourceError
from gpuyield.model.kueue import CheckEntry, CheckState, Work
from gpuyield.model.marks import (
    CONTROLLER,
    FIRST_PLANNED_START,
    PARKED,
    PARKED_WHY,
    PLAN,
    PLANNED_START,
    START_WHY,
)
from gpuyield.units import SECOND_MS

MOST_SAYS = 20
"""So much is said in one round, so that answers never wait for it."""
FIRST_SILENCE_MS, LONGEST_SILENCE_MS = 10 * SECOND_MS, 600 * SECOND_MS
"""After so long what changed of one topic is said again; the pause doubles."""

_WARNINGS = frozenset({Topic.AT_RISK, Topic.MISSED, Topic.DROPPED, Topic.IMPOSSIBLE})

FORGETS = 1_000
"""So many jobs that are gone may be remembered."""

FIRST_PAUSE_MS = SECOND_MS
LONGEST_PAUSE_MS = 60 * SECOND_MS

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failing:
    pause_ms: int
    until_ms: int


@dataclass(slots=True)
class _Spoken:
    topic: Topic
    pause_ms: int
    until_ms: int


@dataclass(slots=True)
class Writer:
    """Carries actions out; it remembers what it did, so that a snapshot that lags behind does no harm."""

    api: ClusterApi
    metrics: Metrics
    may_write: Callable[[], bool]
    _done: dict[tuple[str, str], str] = field(default_factory=dict)
    _failing: dict[tuple[str, str], _Failing] = field(default_factory=dict)
    _ours: frozenset[str] = frozenset()
    _said: dict[str, _Spoken] = field(default_factory=dict)
    _says: int = 0

    def forget_all_but(self, uids: Collection[str]) -> None:
        """Remember nothing of jobs that are gone."""
        known = {uid for _, uid in (*self._done, *self._failing)} | self._said.keys()
        if len(known) > 2 * len(uids) + FORGETS:
            self._done = {key: mark for key, mark in self._done.items() if key[1] in uids}
            self._failing = {key: one for key, one in self._failing.items() if key[1] in uids}
            self._said = {uid: one for uid, one in self._said.items() if uid in uids}

    def write(self, actions: Iterable[Action], now_ms: int, *, ours: Collection[str] = ()) -> int:
        """Do all of them, in their order; how many were done. `ours` are the names of our AdmissionChecks."""
        self._ours = frozenset(ours)
        self._says = 0
        return sum(self._write_one(action, now_ms) for action in actions if self.may_write())

    def _write_one(self, action: Action, now_ms: int) -> bool:
        key, mark = (type(action).__name__, action.work.uid), _mark(action)
        if self._done.get(key) == mark and not self._lost_its_message(action):
            return False
        if isinstance(action, Say) and not self._may_say(action, now_ms):
            return False
        failing = self._failing.get(key)
        if failing is not None and failing.until_ms - failing.pause_ms <= now_ms < failing.until_ms:
            return False
        try:
            self._do(action, now_ms)
        except (Conflict, NotFound):
            self.metrics.count("conflicts")
            return False
        except SourceError as err:
            self._note_failure(key, now_ms)
            _log.warning("%s of %s failed: %s", type(action).__name__, action.work.id, err)
            return False
        self._failing.pop(key, None)
        if isinstance(action, Say) and self._done.get(key) != mark:
            self._note_said(action, now_ms)
        self._done[key] = mark
        _log.info("%s %s: %s", type(action).__name__, action.work.id, action.said)
        return True

    def _note_failure(self, key: tuple[str, str], now_ms: int) -> None:
        self.metrics.count("errors")
        before = self._failing.get(key)
        pause_ms = FIRST_PAUSE_MS if before is None else min(LONGEST_PAUSE_MS, 2 * before.pause_ms)
        self._failing[key] = _Failing(pause_ms, now_ms + pause_ms)

    def _may_say(self, action: Say, now_ms: int) -> bool:
        """What is new is said at once, changes of it ever more seldom, and only so much in one round."""
        spoken = self._said.get(action.work.uid)
        waits = spoken is not None and spoken.until_ms - spoken.pause_ms <= now_ms < spoken.until_ms
        if self._says >= MOST_SAYS or (waits and spoken is not None and spoken.topic is action.topic):
            return False
        self._says += 1
        return True

    def _note_said(self, action: Say, now_ms: int) -> None:
        before = self._said.get(action.work.uid)
        pause_ms = FIRST_SILENCE_MS if before is None else min(LONGEST_SILENCE_MS, 2 * before.pause_ms)
        self._said[action.work.uid] = _Spoken(action.topic, pause_ms, now_ms + pause_ms)

    def _lost_its_message(self, action: Action) -> bool:
        """Whether Kueue has reset the check's entry since it was told there."""
        return isinstance(action, Say) and any(one.message == "" for one in self._pending(action.work))

    def _pending(self, work: Work) -> list[CheckEntry]:
        """Our entries in which something may be told."""
        if not work.active or work.evicted or work.finished_ms is not None:
            return []
        return [one for one in work.checks if one.name in self._ours and one.state is CheckState.PENDING]

    def _do(self, action: Action, now_ms: int) -> None:
        match action:
            case Release():
                self._release(action.work)
                self.metrics.count("releases")
            case MoveQueue():
                self._move(action.work, action.queue)
                self.metrics.count("releases")
            case Ready():
                self._answer(action.work, action.checks, CheckState.READY, action.said, now_ms)
                self.metrics.count("ready")
                self._mark_start(action)
            case Park():
                self._park(action)
                self.metrics.count("parks")
            case Return():
                self._return(action.work)
                self.metrics.count("returns")
            case Say():
                self._say(action, now_ms)
            case _:
                assert_never(action)

    def _release(self, work: Work) -> None:
        """Our name out of the gates, if they are still what they were."""
        operations = without_our_gate(work.annotations.get(GATES, ""))
        self.api.patch(_kind(work), work.name, work.namespace, operations=operations)

    def _move(self, work: Work, queue: str) -> None:
        metadata = {"labels": {QUEUE_LABEL: queue}, **of_version(work.job.version if work.job else "")}
        self.api.patch(_kind(work), work.name, work.namespace, merge={"metadata": metadata})

    def _answer(self, work: Work, checks: Iterable[str], state: CheckState, said: str, now_ms: int) -> None:
        """Our entries in the Workload's status, and nobody else's."""
        body = answered(work.workload, work.namespace, work.version, checks, state, said, now_ms)
        self.api.apply(WORKLOAD, body, manager=PLAN, status=True)

    def _mark_start(self, action: Ready) -> None:
        """What was planned, on the Workload: it outlives plan and controller. It begins without that, too."""
        times = {PLANNED_START: action.planned_ms, FIRST_PLANNED_START: action.first_ms}
        marks = {name: None if at_ms is None else second(at_ms) for name, at_ms in times.items()}
        merge = {"metadata": {"annotations": {**marks, START_WHY: action.said}}}
        try:
            self.api.patch(WORKLOAD, action.work.workload, action.work.namespace, merge=merge)
        except SourceError as err:
            self.metrics.count("errors")
            _log.warning("what was planned for %s is not marked: %s", action.work.id, err)

    def _park(self, action: Park) -> None:
        work = action.work
        until = "" if action.until_ms is None else second(action.until_ms)
        marks = {PARKED: until or "unknown", PARKED_WHY: action.said}
        metadata = {"annotations": marks, **of_version(work.version)}
        merge = {"metadata": metadata, "spec": {"active": False}}
        self.api.patch(WORKLOAD, work.workload, work.namespace, merge=merge)

    def _return(self, work: Work) -> None:
        metadata = {"annotations": {PARKED: None, PARKED_WHY: None}, **of_version(work.version)}
        merge = {"metadata": metadata, "spec": {"active": True}}
        self.api.patch(WORKLOAD, work.workload, work.namespace, merge=merge)

    def _say(self, action: Say, now_ms: int) -> None:
        """An event on the job and one on its Workload; what was said before is not said again."""
        work = action.work
        job = work.job
        regarding = [(f"{WORKLOAD.group}/{WORKLOAD.version}", WORKLOAD.kind, work.workload, work.workload_uid)]
        if job is not None and job.kind != WORKLOAD.kind:
            regarding.append((job.api_version, job.kind, job.name, job.uid))
        for api_version, kind, name, uid in regarding:
            try:
                self.api.create(EVENT, _event(action, api_version, kind, name, uid, now_ms))
            except AlreadyExists:
                continue
        pending = [one.name for one in self._pending(work)]
        if pending:
            self._answer(work, pending, CheckState.PENDING, action.said, now_ms)


def _event(action: Say, api_version: str, kind: str, name: str, uid: str, now_ms: int) -> dict[str, Any]:
    work = action.work
    digest = hashlib.sha256(f"{work.uid} {kind} {action.topic} {action.said}".encode()).hexdigest()[:16]
    at = second(now_ms)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{name[:200]}.{digest}", "namespace": work.namespace},
        "involvedObject": {
            "apiVersion": api_version,
            "kind": kind,
            "name": name,
            "namespace": work.namespace,
            **({"uid": uid} if uid else {}),
        },
        "type": "Warning" if action.topic in _WARNINGS else "Normal",
        "reason": str(action.topic),
        "message": action.said[:MOST_SAID],
        "source": {"component": CONTROLLER},
        "reportingComponent": CONTROLLER,
        "reportingInstance": "gpuyield",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def _kind(work: Work) -> Kind:
    """The kind of object behind a Workload."""
    return WORKLOAD if work.job is None else kind_of(work.job.api_version, work.job.kind)


def _mark(action: Action) -> str:
    """What an action was decided on: the same action on the same versions is done once."""
    if isinstance(action, Say):
        return f"{action.topic} {action.said}"
    job = action.work.job
    return f"{action.work.version} {job.version if job else ''}"
