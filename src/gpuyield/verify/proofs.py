"""What a plan document proves: its certificate, its bounds, and what is obvious without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .alone import is_impossible
from .certificates import refute
from .interval import overloads
from .problem import Problem
from .question import Question
from .report import Findings, Refused
from .steps import FOREVER, Spans, Steps
from .values import field, items, record, text


class Proofs:
    """Answers "is this bound proven?" from the certificates that one document carries.

    `problem` is the inputs', `open_problem` the one the status speaks of (with objective fewest-gpus the chosen
    resource is unlimited in it).
    """

    def __init__(
        self, problem: Problem, open_problem: Problem, certificate: Any, must_meet: frozenset[str], *, is_optimal: bool
    ) -> None:
        self.problem, self.open_problem = problem, open_problem
        self.certificate = certificate
        self.must_meet, self.is_optimal = must_meet, is_optimal
        self.bounds: list[tuple[str, Any]] = []

    def read_bounds(self, value: Any, findings: Findings) -> None:
        """The `bounds` of the document, well formed."""
        for at, entry in enumerate(items(value, "bounds")):
            try:
                bound = record(entry, f"bounds[{at}]")
                claim = text(field(bound, "claim", f"bounds[{at}]"), f"bounds[{at}].claim")
                self.bounds.append((claim, field(bound, "certificate", f"bounds[{at}]")))
            except Refused as err:
                findings.refuse(f"bounds[{at}]", str(err))

    def question_of_amount(self, resource: str, amount: int) -> Question:
        """Are fewer than `amount` of a resource, all the time, too few?"""
        fewer = self.problem.with_constant(resource, amount - 1)
        return Question(problem=fewer, printed=self.problem, looser=unlimited(self.problem, resource), all_run=True)

    def question_of_end(self, end_ms: int) -> Question:
        """Can nothing end everything before `end_ms`?"""
        jobs = {
            name: replace(job, deadline_ms=end_ms - 1 if job.deadline_ms is None else min(job.deadline_ms, end_ms - 1))
            for name, job in self.open_problem.jobs.items()
        }
        return Question(problem=self.open_problem.with_jobs(jobs), printed=self.problem)

    def question_of_weight(self, share: Fraction) -> Question:
        """Can no plan have more than this share of the weight on time?"""
        return Question(problem=self.open_problem, printed=self.problem, weight_above=share, must_meet=self.must_meet)

    def prove(self, claim: str, question: Question, *, obvious: bool) -> None:
        """Refuse unless the claim is obvious or one of the document's certificates proves it.

        Every certificate that the document puts behind this claim must hold; that of an optimal plan is behind its
        bound.
        """
        own = [(at, certificate) for at, (name, certificate) in enumerate(self.bounds) if name == claim]
        for at, certificate in own:
            try:
                refute(certificate, question)
            except Refused as err:
                raise Refused(f"bounds[{at}] does not prove it: {err}") from err
        if self.is_optimal and claim == "objective.bound" and self.certificate is not None:
            refute(self.certificate, question)
            return
        if own or obvious:
            return
        if self.certificate is None:
            raise Refused("No certificate proves it.")
        try:
            refute(self.certificate, question)
        except Refused as err:
            raise Refused(f"No certificate proves it; `certificate` does not: {err}") from err


def is_obvious(question: Question) -> bool:
    """A job fits nowhere even alone, or everything that must end by one instant does not fit before it."""
    frame = question.frame
    jobs = question.problem.jobs
    if any(is_impossible(question.alone, frame, job) for job in jobs.values()):
        return True
    last = max((job.deadline_ms for job in jobs.values() if job.deadline_ms is not None), default=0)
    if last <= 0:
        return False
    return any(overloads(frame, resource, Spans([(0, last)])) for resource in question.problem.capacity)


def attainable_share(problem: Problem) -> Fraction:
    """The share of timed weight that is left when jobs that cannot be on time even alone are missed."""
    free = {name: replace(job, deadline_ms=None, due_ms=None) for name, job in problem.jobs.items()}
    question = Question(problem=problem.with_jobs(free), printed=problem)
    total = left = Fraction(0)
    for name, job in problem.jobs.items():
        if not job.is_timed:
            continue
        total += job.weight
        if question.frame.shapes[name] and question.alone.can_meet(job, question.frame.heads[name], job.wanted_ms):
            left += job.weight
    return left / total if total else Fraction(1)


def unlimited(problem: Problem, resource: str) -> Problem:
    """The same with more of a resource than can be used."""
    return problem.with_constant(resource, FOREVER)


def with_more(problem: Problem, resource: str, amount: int, window: tuple[int, int]) -> Problem:
    """The same with more of a resource in a window."""
    steps = problem.capacity.get(resource, Steps([]))
    changed: Mapping[str, Steps] = {**problem.capacity, resource: steps.plus(amount, *window)}
    return replace(problem, capacity=dict(changed))
