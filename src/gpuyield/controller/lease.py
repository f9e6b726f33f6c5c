"""Who of several replicas leads: one Lease, held by renewing it.

Nobody's clock is trusted but one's own: a Lease that has not changed for its whole length, as seen from here, is stale.
The leader stops to lead before others may take it over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from gpuyield.collect.kubernetes import LEASE, AlreadyExists, ClusterApi, Conflict, NotFound
from gpuyield.collect.kueue.shapes import Object
from gpuyield.errors import SourceError
from gpuyield.model.marks import CONTROLLER

LENGTH_S = 15
RENEW_S = 3.0
MARGIN_S = 5.0
"""The leader stops so long before its Lease ends."""

_log = logging.getLogger(__name__)


class Lease:
    """This replica's part in the election; `start` takes part, `stop` gives the Lease back."""

    def __init__(
        self,
        api: ClusterApi,
        namespace: str,
        identity: str,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._api, self._namespace, self.identity = api, namespace, identity
        self._monotonic, self._changed = monotonic, changed
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._held_until_s: float | None = None
        self._seen: tuple[str, str] | None = None
        self._seen_s = 0.0
        self._holder = ""
        self._length_s = LENGTH_S

    def start(self) -> None:
        """Take part, in a thread of its own."""
        self._thread = threading.Thread(target=self._take_part, name="lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Give the Lease back, so that another replica leads at once."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        if self.leads():
            self._held_until_s = None
            try:
                found = self._api.get(LEASE, CONTROLLER, self._namespace)
                self._write(found, "")
            except SourceError as err:
                _log.warning("the Lease is not given back: %s", err)

    def leads(self) -> bool:
        """Whether this replica may write now."""
        until_s = self._held_until_s
        return until_s is not None and self._monotonic() < until_s

    def is_stale(self) -> bool:
        """Whether somebody led, and has not been heard of for as long as its Lease says."""
        with self._lock:
            return bool(self._holder) and not self.leads() and self._is_over()

    def holder(self) -> str:
        """Who leads as far as is known; "" for nobody."""
        return self._holder

    def try_once(self) -> None:
        """Renew it, or take it where nobody holds it any more. Raises SourceError."""
        began_s = self._monotonic()
        try:
            found = self._api.get(LEASE, CONTROLLER, self._namespace)
        except NotFound:
            try:
                self._api.create(LEASE, self._body(self.identity, None, 0))
            except AlreadyExists:
                return
            self._note_held(began_s)
            return
        spec = found.get("spec") or {}
        holder = str(spec.get("holderIdentity") or "")
        with self._lock:
            mark = (holder, str(spec.get("renewTime", "")))
            if mark != self._seen:
                self._seen, self._seen_s = mark, self._monotonic()
            self._holder = holder
            self._length_s = int(spec.get("leaseDurationSeconds") or LENGTH_S)
            may_take = holder in ("", self.identity) or self._is_over()
        if not may_take:
            self._held_until_s = None
            return
        try:
            self._write(found, self.identity)
        except Conflict:
            return
        self._note_held(began_s)

    def _take_part(self) -> None:
        while not self._stop.is_set():
            led = self.leads()
            try:
                self.try_once()
            except (SourceError, ValueError) as err:
                # A Lease that somebody wrote nonsense into is one, too: it is not renewed, and so nobody leads.
                _log.warning("the Lease: %s", err)
            if led is not self.leads():
                _log.info("%s %s", self.identity, "leads" if self.leads() else "no longer leads")
                self._changed()
            self._stop.wait(RENEW_S)

    def _is_over(self) -> bool:
        return self._monotonic() - self._seen_s > self._length_s

    def _note_held(self, since_s: float) -> None:
        self._holder = self.identity
        self._held_until_s = since_s + LENGTH_S - MARGIN_S

    def _write(self, found: Object, holder: str) -> None:
        spec = found.get("spec") or {}
        changes = int(spec.get("leaseTransitions") or 0) + (spec.get("holderIdentity") != holder)
        body = self._body(holder, spec.get("acquireTime") if spec.get("holderIdentity") == holder else None, changes)
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        self._api.patch(LEASE, CONTROLLER, self._namespace, merge=body)

    def _body(self, holder: str, acquired: str | None, changes: int) -> Object:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": CONTROLLER, "namespace": self._namespace},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": LENGTH_S,
                "acquireTime": acquired or now,
                "renewTime": now,
                "leaseTransitions": changes,
            },
        }
