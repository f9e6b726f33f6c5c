"""The `gpus` of a plan document: what is there, what suffices, and what is proven to be needed."""

from __future__ import annotations

from typing import Any  # JSON has no narrower type than this.

from .frame import loose_heads
from .plan_jobs import PlanJobs
from .problem import Problem
from .proofs import Proofs, is_obvious
from .question import Question
from .report import Findings, NotRechecked, Refused
from .runs import Run, peak, replay, witnessed_runs
from .values import field, record, whole

MOST = 10**9


def check_gpus(
    document: dict[str, Any],
    problem: Problem,
    chosen: str | None,
    jobs: PlanJobs,
    proofs: Proofs,
    findings: Findings,
) -> None:
    """Check `available`, `needed` and `lower_bound` of every resource that the document names.

    `chosen` is the resource of objective fewest-gpus, whose `needed` is the objective's value.
    """
    entries = record(field(document, "gpus", "the document"), "gpus")
    used = {name for job in problem.jobs.values() for shape in job.shapes for name in shape.demand}
    for resource, entry in entries.items():
        if resource not in problem.capacity and resource not in used:
            raise Refused(f'The inputs have no resource "{str(resource)[:60]}".')
        stated = record(entry, f"gpus.{resource}")
        with findings.claim(f"gpus.{resource}.available"):
            _check_available(stated, problem, resource)
        checker = _Amounts(document=document, problem=problem, resource=resource, stated=stated, jobs=jobs)
        needed = stated.get("needed")
        if needed is not None:
            with findings.claim(f"gpus.{resource}.needed"):
                checker.check_needed(len(entries), chosen)
        if stated.get("lower_bound") is not None:
            with findings.claim(f"gpus.{resource}.lower_bound"):
                checker.check_lower_bound(proofs)
    if chosen is not None and chosen not in entries:
        raise Refused(f"gpus has no {chosen}, the resource of the objective.")


def check_peaks(stated: Any, problem: Problem) -> None:
    """`peak_if_started_at_once`: what is held at most if every job starts at its head, in its first shape."""
    heads = loose_heads(problem)
    runs = []
    for name, job in problem.jobs.items():
        known = (one for one in job.shapes if job.is_over(one) or set(one.demand) <= set(problem.capacity))
        shape = next(known, None)
        if shape is not None:
            runs.append(Run(job=job, shape=shape, segments=((heads[name], heads[name] + shape.duration_ms),)))
    for resource, amount in record(stated, "peak_if_started_at_once").items():
        right = peak(runs, resource)
        if whole(amount, f"peak_if_started_at_once.{resource}") != right:
            raise Refused(f"It is {right} of {resource}.")


def _check_available(stated: dict[str, Any], problem: Problem, resource: str) -> None:
    steps = problem.capacity.get(resource)
    there = 0 if steps is None else steps.at(0)
    if whole(field(stated, "available", f"gpus.{resource}"), "available") != there:
        raise Refused(f"available is not {there}, the amount at the origin.")


class _Amounts:
    def __init__(
        self, *, document: dict[str, Any], problem: Problem, resource: str, stated: dict[str, Any], jobs: PlanJobs
    ) -> None:
        self.document, self.problem, self.resource = document, problem, resource
        self.stated, self.jobs = stated, jobs

    def check_needed(self, resources: int, chosen: str | None) -> None:
        """A plan on this constant amount meets all deadlines, and the document shows none on fewer."""
        needed = whole(self.stated["needed"], "needed", low=0, high=MOST)
        lower = self.stated.get("lower_bound")
        if lower is not None and needed < whole(lower, "lower_bound", low=0, high=MOST):
            raise Refused("needed is below lower_bound.")
        if "impossible" in self.jobs.given_up.values():
            raise Refused("A job is impossible: no amount is enough.")
        if chosen == self.resource and self.document["objective"].get("value") != needed:
            raise Refused("needed is not the objective's value.")
        problem = self.problem.with_constant(self.resource, needed)
        own = None if self.jobs.given_up else peak(self.jobs.runs.values(), self.resource)
        witness = self._witness(resources)
        if witness is None:
            if own is None or own > needed:
                if is_obvious(Question(problem=problem, printed=self.problem)):
                    raise Refused("It is too few: a job fits nowhere, or all together do not.")
                raise NotRechecked("It carries no witness.")
            runs: dict[str, Run] = self.jobs.runs
        else:
            runs = witnessed_runs(problem, self.jobs.runs, witness, "witness.needed")
            replay(problem, runs)
        fewest = min(peak(runs.values(), self.resource), needed if own is None else own)
        if fewest < needed:
            raise Refused(f"The document carries a plan on {fewest}, fewer than needed.")
        self._check_against_status(needed)

    def _check_against_status(self, needed: int) -> None:
        steps = self.problem.capacity.get(self.resource)
        if (
            self.problem.objective == "fewest-gpus"
            or steps is None
            or self.document["status"] in ("feasible", "optimal")
        ):
            return
        if steps.lowest(0, 10**16) >= needed:
            raise Refused(f"A plan on {needed} is known, so many are there, and the status is not feasible.")

    def check_lower_bound(self, proofs: Proofs) -> None:
        """Fewer, all the time, do not meet all deadlines."""
        amount = whole(self.stated["lower_bound"], "lower_bound", low=0, high=MOST)
        question = proofs.question_of_amount(self.resource, amount)
        obvious = amount == 0 or (not self._has_own(proofs) and is_obvious(question))
        proofs.prove(f"gpus.{self.resource}.lower_bound", question, obvious=obvious)

    def _has_own(self, proofs: Proofs) -> bool:
        return any(claim == f"gpus.{self.resource}.lower_bound" for claim, _ in proofs.bounds)

    def _witness(self, resources: int) -> Any:
        witness = self.document.get("witness")
        if witness is None:
            return None
        needed = record(witness, "witness").get("needed")
        if needed is None:
            return None
        entries = record(needed, "witness.needed")
        by_resource = self.resource in entries and self.resource not in self.problem.jobs
        if by_resource:
            return entries[self.resource]
        if resources > 1 and any(name not in self.problem.jobs for name in entries):
            return None
        return entries
