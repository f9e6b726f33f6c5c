"""The `Active` condition of our AdmissionChecks: True while somebody watches over them, False as soon as nobody does.

While it is not True, Kueue reserves no quota in the queues that name the check: work waits without holding GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import ADMISSION_CHECK, ClusterApi, NotFound
from gpuyield.errors import SourceError
from gpuyield.model.kueue import Check
from gpuyield.model.marks import PLAN
from gpuyield.units import SECOND_MS, format_instant

BEAT_MS = 30 * SECOND_MS
"""So often what the condition says is written again, whatever it said before."""

LAG_MS = SECOND_MS


@dataclass(slots=True)
class _Said:
    is_active: bool
    message: str
    since: str
    at_ms: int


@dataclass(slots=True)
class Beat:
    """Writes the condition of checks by name: at once where it changes, else once in a while."""

    api: ClusterApi
    _said: dict[str, _Said] = field(default_factory=dict)

    def say(self, checks: Iterable[Check], *, is_active: bool, message: str, now_ms: int) -> list[SourceError]:
        """Make it so; what failed is tried again with the next call. `checks` are ours, as they are seen now."""
        failed: list[SourceError] = []
        for name, is_seen_active in ((one.name, one.active) for one in checks):
            before = self._said.get(name)
            changes = before is None or before.is_active is not is_active
            # Made anew, or written by another: what is seen lags behind our own word by less than LAG_MS.
            pause_ms = BEAT_MS if is_seen_active is is_active else LAG_MS
            if not changes and before is not None and 0 <= now_ms - before.at_ms < pause_ms:
                continue
            since = format_instant(now_ms - now_ms % SECOND_MS) if changes or before is None else before.since
            try:
                self.api.apply(ADMISSION_CHECK, _check(name, is_active, message, since), manager=PLAN, status=True)
            except NotFound:
                self._said.pop(name, None)
            except SourceError as err:
                failed.append(err)
            else:
                self._said[name] = _Said(is_active, message, since, now_ms)
        return failed


def _check(name: str, is_active: bool, message: str, since: str) -> dict[str, Any]:
    condition = {
        "type": "Active",
        "status": "True" if is_active else "False",
        "reason": "Enforcing" if is_active else "NotEnforcing",
        "message": message[:1024],
        "lastTransitionTime": since,
    }
    return {
        "apiVersion": f"{ADMISSION_CHECK.group}/{ADMISSION_CHECK.version}",
        "kind": ADMISSION_CHECK.kind,
        "metadata": {"name": name},
        "status": {"conditions": [condition]},
    }
