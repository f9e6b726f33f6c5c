"""The levers in order, one file each: a lever looks at the case and returns what it would change, or nothing."""

from collections.abc import Callable

from gpuyield.decide.case import Case
from gpuyield.decide.levers.buy import buy
from gpuyield.decide.levers.reclaim import reclaim
from gpuyield.decide.levers.reschedule import reschedule
from gpuyield.model.decision import Lever

LEVERS: tuple[Callable[[Case], Lever | None], ...] = (reschedule, reclaim, buy)

__all__ = ["LEVERS"]
