"""When jobs began, beside when they were planned to: the proof that a plan was enforced."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyield.units import MINUTE_MS

ON_TIME_MS = MINUTE_MS
"""A start this near to the planned one is as planned: Kueue and the kubelet take their time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A job of a planned queue that began; times are epoch ms, None is not known.

    `planned_ms` is the start of the plan in force when it was let go, `first_ms` the first one that any plan gave it.
    `because` is why it began when it did ("": nobody of ours let it go).
    """

    uid: str
    namespace: str
    name: str
    queue: str
    gpus: int
    planned_ms: int | None
    first_ms: int | None
    started_ms: int
    because: str

    @property
    def late_ms(self) -> int | None:
        """How much later than planned it began; less than 0 is earlier."""
        return None if self.planned_ms is None else self.started_ms - self.planned_ms

    @property
    def moved_ms(self) -> int | None:
        """How much later than it was first told it began."""
        return None if self.first_ms is None else self.started_ms - self.first_ms

    @property
    def is_as_planned(self) -> bool:
        """Whether it began when the plan in force said."""
        return self.late_ms is not None and abs(self.late_ms) <= ON_TIME_MS
