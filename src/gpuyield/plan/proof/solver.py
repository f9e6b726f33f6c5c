"""What the CP-SAT lane adds to a plan: a better schedule where it finds one, and its word, which proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from gpuyield.model.plan import GpuNeed, Proof
from gpuyield.plan.case import Case
from gpuyield.plan.instance.budget import Budget
from gpuyield.plan.instance.schedule import Schedule, meets_all
from gpuyield.plan.proof.cpsat import NAME, Word, ask
from gpuyield.plan.proof.cpsat_model import Aim, Question

ASK_WORK = 120_000
"""What one question may take, in placements of a job."""
FEW_TASKS = 12
"""So many jobs are settled without a solver."""


@dataclass(slots=True)
class Solver:
    """Asks about one case; `proof` is the last word that still stands."""

    case: Case
    seed: int
    budget: Budget
    proof: Proof | None = field(default=None)

    def deadlines(self, best: Schedule) -> Schedule:
        """A plan that meets all hard deadlines, where one is found; else the best one known."""
        word = self._ask(Question(aim=Aim.DEADLINES), best)
        if word.none_exists:
            self.proof = Proof(by=NAME, claim="infeasible")
        found = word.schedule
        return best if found is None or not meets_all(self.case.board, found) else found

    def on_time(self, best: Schedule, merit: Callable[[Schedule], tuple[object, ...]]) -> Schedule:
        """More weight on time; hard deadlines that are met stay met."""
        give_up = not meets_all(self.case.board, best)
        total = sum(
            (
                Fraction(task.weight)
                for task in self.case.board.tasks
                if task.deadline_ms is not None or task.due_ms is not None
            ),
            start=Fraction(0),
        )
        word = self._ask(Question(aim=Aim.ON_TIME, give_up=give_up), best)
        return self._better(word, best, merit, total)

    def makespan(self, best: Schedule, merit: Callable[[Schedule], tuple[object, ...]]) -> Schedule:
        """An earlier last end."""
        word = self._ask(Question(aim=Aim.MAKESPAN, end_ms=best.end_ms()), best)
        return self._better(word, best, merit, Fraction(1000))

    def cheapest(
        self,
        best: Schedule,
        merit: Callable[[Schedule], tuple[object, ...]],
        costs: Mapping[tuple[int, int], Fraction],
    ) -> Schedule:
        """Less money."""
        word = self._ask(Question(aim=Aim.CHEAPEST, costs=costs), best)
        return self._better(word, best, merit, Fraction(1))

    def _ask(self, question: Question, best: Schedule) -> Word:
        if len(self.case.board.tasks) <= FEW_TASKS:
            return Word()
        share = self.budget.share(min(max(ASK_WORK, self.budget.left // 5), self.budget.left // 2))
        word = ask(self.case, question, best, share, seed=self.seed)
        self.budget.settle(share)
        return word

    def _better(
        self, word: Word, best: Schedule, merit: Callable[[Schedule], tuple[object, ...]], unit: Fraction
    ) -> Schedule:
        if word.schedule is not None and merit(word.schedule) > merit(best):
            best = word.schedule
        if word.is_best and word.bound is not None and unit:
            self.proof = Proof(by=NAME, claim="optimal", bound=word.bound / unit)
        return best


def said_of_amount(need: GpuNeed) -> Proof | None:
    """The word on the fewest of a resource."""
    return None if need.said is None else Proof(by=NAME, claim="optimal", bound=Fraction(need.said))
