"""When a run is broken off: conditions of the user's, and an end to errors that only go on.

`'error over 20%'`, `'ttft p99 over 5s'`, `'e2e p50 over 30s'`, `'in_flight over 5000'`, looked at over the answers of
the last ten seconds.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyield.errors import DeclarationError
from gpuyield.measure.sender.messages import Progress
from gpuyield.model.measure import ResponseStatus

_LOOK_BACK_S = 10.0
_FEWEST = 20
_SUSTAINED = 0.5
_FORM = re.compile(
    r"(?P<what>error|ttft|e2e|in_flight)(?:\s+p(?P<percent>\d{1,2}))?\s+over\s+(?P<limit>\d+(?:\.\d+)?)(?P<unit>%|ms|s)?"
)
_FORMS = "Write 'error over 20%', 'ttft p99 over 5s', 'e2e p50 over 30s' or 'in_flight over 5000'."
_BROKEN = frozenset(
    {
        ResponseStatus.HTTP_ERROR,
        ResponseStatus.ERROR_EVENT,
        ResponseStatus.CUT_OFF,
        ResponseStatus.MALFORMED,
        ResponseStatus.CONNECT_FAILED,
    }
)
"""What more load does not explain, unlike a refusal or a timeout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must not happen: `limit` is a ratio, seconds, or requests; `percentile` is 0..1."""

    text: str
    what: str
    limit: float
    percentile: float = 0.0


def parse_condition(text: str) -> Condition:
    """The condition of `--abort-if`.

    Raises:
        DeclarationError: None of the forms; the fix has the right spelling.
    """
    found = _FORM.fullmatch(" ".join(text.split()))
    if found is None:
        raise DeclarationError(f"'{_shown(text)}' is no condition.", where="--abort-if", fix=_FORMS)
    what, unit, percent = found["what"], found["unit"] or "", found["percent"]
    wanted = {"error": ("%",), "in_flight": ("",)}.get(what, ("ms", "s"))
    if unit not in wanted or (percent is None) is (what in ("ttft", "e2e")) or percent == "0":
        raise DeclarationError(f"'{_shown(text)}' is no condition.", where="--abort-if", fix=_FORMS)
    factor = {"%": 0.01, "ms": 0.001}.get(unit, 1.0)
    return Condition(
        text=" ".join(text.split()),
        what=what,
        limit=float(found["limit"]) * factor,
        percentile=int(percent or 0) / 100,
    )


class Aborter:
    """Watches the workers' progress. `why` is empty while all is well."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self._conditions = conditions
        self._seen: deque[tuple[float, Progress]] = deque()
        self.why = ""
        self.fix = ""

    def goes_on(self, told: Sequence[Progress], *, now_s: float | None = None) -> bool:
        """Whether to go on, now that the workers are there."""
        now_s = time.monotonic() if now_s is None else now_s
        known = {id(one) for _, one in self._seen}
        self._seen.extend((now_s, one) for one in told if id(one) not in known)
        while self._seen and self._seen[0][0] < now_s - _LOOK_BACK_S:
            self._seen.popleft()
        recent = [one for _, one in self._seen]
        statuses = [status for one in recent for status in one.statuses]
        broken = sum(ResponseStatus(status) in _BROKEN for status in statuses)
        if len(statuses) >= _FEWEST and broken > _SUSTAINED * len(statuses):
            self.why = f"{broken} of the last {len(statuses)} requests failed: the run was stopped."
            self.fix = "See the server's log; try a single request, or a lower rate."
            return False
        for condition in self._conditions:
            value = _value(condition, recent, statuses, told)
            if value is not None and value > condition.limit:
                self.why = f"'{condition.text}' holds: the run was stopped."
                self.fix = "Lower --max-rate, or loosen --abort-if."
                return False
        return True


def _value(
    condition: Condition, recent: Sequence[Progress], statuses: Sequence[int], told: Sequence[Progress]
) -> float | None:
    match condition.what:
        case "in_flight":
            return float(sum(one.in_flight for one in told))
        case "error":
            if len(statuses) < _FEWEST:
                return None
            return sum(status != ResponseStatus.OK for status in statuses) / len(statuses)
        case "ttft":
            values = sorted(one for part in recent for one in part.first_s)
        case _:
            values = sorted(one for part in recent for one in part.whole_s)
    if len(values) < _FEWEST:
        return None
    return values[min(len(values) - 1, math.ceil(condition.percentile * len(values)) - 1)]


def _shown(text: str) -> str:
    line = "".join(one if one.isprintable() else " " for one in text)
    return line if len(line) <= 60 else line[:57] + "..."
