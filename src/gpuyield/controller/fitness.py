"""Whether plans can be enforced safely on this cluster: asked before anything is started, and again once in a while.

Where Kueue does not look at gates, every job comes into its quota before we are asked. That is safe as long as nobody
is preempted for it: the check holds it, and it is parked. Where queues preempt, nothing safe is left, and it is said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any  # Objects of the API server are JSON.

from gpuyield.collect.kubernetes import CLUSTER_QUEUE, ClusterApi, NotFound
from gpuyield.collect.kueue.queues import checks_of
from gpuyield.controller.canary import Finding, Gate, look_at_gate
from gpuyield.controller.lint import preempts
from gpuyield.errors import SourceError

AGAIN_S = 60.0
"""What was clear is looked at again after so long; what was not, after a twelfth of it."""

NEEDED = "0.16"
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Fitness:
    """Looks at one cluster; `namespace` is where the canary is offered."""

    api: ClusterApi
    namespace: str
    monotonic: Callable[[], float]
    gate: Finding = field(default=Finding(gate=Gate.UNKNOWN, said="it has not been asked yet"))
    _refusal: str = ""
    _next_s: float | None = None

    def refusal(self, checks: frozenset[str]) -> str:
        """Why nothing can be enforced here, as a sentence; "" where it can. `checks` are the names of ours."""
        if self._next_s is None or self.monotonic() >= self._next_s:
            before = self.gate.gate
            self._refusal = self._look(checks)
            clear = not self._refusal and self.gate.gate is not Gate.UNKNOWN
            self._next_s = self.monotonic() + (AGAIN_S if clear else AGAIN_S / 12)
            if self.gate.gate is not before:
                _log.warning("the gate is %s%s", self.gate.gate, f": {self.gate.said}" if self.gate.said else "")
        return self._refusal

    def _look(self, checks: frozenset[str]) -> str:
        try:
            queues = self.api.list(CLUSTER_QUEUE).items
        except NotFound:
            return f"Kueue serves no v1beta2 of its API here: version {NEEDED} or later is needed."
        except SourceError as err:
            return f"the queues cannot be read: {err}"
        self.gate = look_at_gate(self.api, self.namespace)
        match self.gate.gate:
            case Gate.HONOURED:
                return ""
            case Gate.UNKNOWN:
                return f"it is not clear whether Kueue honours the gate: {self.gate.said.rstrip('.')}"
            case Gate.IGNORED:
                return self._without_gate(queues, checks)

    def _without_gate(self, queues: Iterable[dict[str, Any]], checks: frozenset[str]) -> str:
        preempting = sorted(
            one["metadata"]["name"] for one in queues if checks.intersection(checks_of(one)) and preempts(one)
        )
        if not preempting:
            return ""
        names = ", ".join(preempting[:5])
        return (
            f"Kueue ignores the gate (its feature AdmissionGatedBy is off), and ClusterQueue {names} preempts: a job"
            " that comes too early would stop others before we are asked. Switch the feature on, or set preemption to"
            " Never: gpuyield controller lint."
        )
