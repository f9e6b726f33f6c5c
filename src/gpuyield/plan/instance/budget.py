"""How much searching is left: counted in placements, so that the same budget gives the same bytes everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuyield.model.plan import StoppedBecause


def never() -> bool:
    """The stop callback of a search without a time limit."""
    return False


@dataclass(slots=True)
class Budget:
    """Work left, in placements of a job; `should_stop` is a cap from outside, such as a clock."""

    left: int
    should_stop: Callable[[], bool] = never
    stopped: StoppedBecause | None = None

    def spend(self, amount: int) -> bool:
        """Take an amount of work; False once nothing is left or somebody says stop."""
        if self.stopped is StoppedBecause.TIME:
            return False
        if self.should_stop():
            self.stopped = StoppedBecause.TIME
            return False
        if self.left < amount:
            self.stopped = StoppedBecause.BUDGET
            return False
        self.left -= amount
        return True

    def share(self, part: int) -> Budget:
        """At most `part` of what is left, as a budget of its own; give the rest back with `settle`."""
        granted = max(0, min(part, self.left))
        self.left -= granted
        return Budget(left=granted, should_stop=self.should_stop)

    def settle(self, shared: Budget) -> None:
        """Take back what a share did not use; only a stop from outside carries over."""
        self.left += shared.left
        shared.left = 0
        if shared.stopped is StoppedBecause.TIME:
            self.stopped = StoppedBecause.TIME
