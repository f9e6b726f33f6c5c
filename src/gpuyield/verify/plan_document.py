"""Check a plan document against its canonical inputs: every claim in it that they can decide."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .alone import Alone
from .certificates import refute
from .frame import Frame
from .gpus import check_gpus, check_peaks
from .plan_jobs import PlanJobs, check_dropped, read_jobs
from .problem import Problem, chosen_resource, read_problem
from .proofs import Proofs, attainable_share, is_obvious, unlimited
from .question import Question
from .relaxations import check_relaxations
from .report import Findings, NotRechecked, Refused
from .runs import check_capacity, check_order, check_quotas, peak
from .shares import TOLERANCE, check_cost, check_gap, check_share, least_cost, near, shares
from .values import choice, decimal, field, items, number, record, seconds_ms, text, whole

STATUSES = ("optimal", "feasible", "infeasible", "unknown")
STOPS = ("proven", "budget", "time")
_KNOWN = {
    *("schema", "status", "origin", "objective", "gpus", "on_time", "jobs", "certificate", "bounds", "witness"),
    *("proof", "explanation", "relaxations", "inputs_digest", "seed", "stopped_because", "engine"),
    *("peak_if_started_at_once", "placement", "durations"),
}


def check_plan(document: dict[str, Any], inputs: Any, findings: Findings) -> None:
    """Fill in the findings for a plan document; the digest is checked already."""
    try:
        problem = read_problem(inputs)
        del inputs  # Of ten thousand jobs they are as large as all that is checked from here on.
        _check_header(document, problem)
        view = _View.of(document, problem)
    except Refused as err:
        findings.refuse("the document and its inputs", str(err))
        return
    findings.vouch("origin")
    jobs = read_jobs(document, view.open_problem, Frame(view.open_problem), Alone(view.open_problem), findings)
    if findings.refused:
        findings.skip("everything else", "It rests on the jobs, which are refused.")
        return
    _check_together(jobs, view, findings)
    if findings.refused:
        findings.skip("everything else", "It rests on the runs, which are refused.")
        return
    _check_shares(document, problem, jobs, findings)
    _Judge(document=document, view=view, jobs=jobs, findings=findings).check()
    _check_words(document, findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """The problem, and what objective fewest-gpus makes of it."""

    problem: Problem
    open_problem: Problem
    resource: str | None
    value: Any

    @classmethod
    def of(cls, document: dict[str, Any], problem: Problem) -> _View:
        objective = record(field(document, "objective", "the document"), "objective")
        if text(field(objective, "name", "objective"), "objective.name") != problem.objective:
            raise Refused(f"objective.name is not {problem.objective}, as in the inputs.")
        value = field(objective, "value", "objective")
        if problem.objective != "fewest-gpus":
            return cls(problem=problem, open_problem=problem, resource=None, value=value)
        resource = chosen_resource(problem)
        if value is not None:
            whole(value, "objective.value", low=0, high=10**9)
        return cls(problem=problem, open_problem=unlimited(problem, resource), resource=resource, value=value)

    def capacity_problem(self) -> Problem:
        """The problem whose capacity the plan must keep."""
        if self.resource is None or self.value is None:
            return self.open_problem
        return self.problem.with_constant(self.resource, self.value)


def _check_header(document: dict[str, Any], problem: Problem) -> None:
    if problem.moment(field(document, "origin", "the document"), "origin") != 0:
        raise Refused("origin is not that of the inputs.")
    choice(field(document, "status", "the document"), "status", STATUSES)
    choice(field(document, "stopped_because", "the document"), "stopped_because", STOPS)
    field(document, "certificate", "the document")
    objective = record(field(document, "objective", "the document"), "objective")
    for name in ("value", "bound", "gap"):
        field(objective, name, "objective")
    whole(field(document, "seed", "the document"), "seed")


def _check_together(jobs: PlanJobs, view: _View, findings: Findings) -> None:
    with findings.claim("jobs: predecessors end first"):
        check_order(jobs.runs, view.problem)
    with findings.claim("jobs: capacity is never exceeded"):
        check_capacity(jobs.runs.values(), view.capacity_problem().capacity)
    if view.problem.quotas.rows:
        with findings.claim("jobs: quotas are kept"):
            check_quotas(jobs.runs.values(), view.problem.quotas)
    with findings.claim("jobs: only hard deadlines are given up"):
        check_dropped(jobs, view.problem, view.capacity_problem().capacity)
    if view.resource is not None and view.value is None:
        findings.skip(f"jobs: capacity of {view.resource}", "The document names no amount of it.")


def _check_shares(document: dict[str, Any], problem: Problem, jobs: PlanJobs, findings: Findings) -> None:
    right = shares(problem, jobs.runs)
    for name in ("weighted", "jobs", "gpu_time"):
        with findings.claim(f"on_time.{name}"):
            stated = record(field(document, "on_time", "the document"), "on_time")
            check_share(field(stated, name, "on_time"), right[name], f"on_time.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Objective, bounds, GPUs, status and relaxations of a document whose runs hold."""

    document: dict[str, Any]
    view: _View
    jobs: PlanJobs
    findings: Findings

    @property
    def meets_all(self) -> bool:
        """No job with a hard deadline or a fixed start is given up."""
        return not any(self.view.problem.jobs[name].is_hard for name in self.jobs.given_up)

    def check(self) -> None:
        """All of it."""
        document, findings = self.document, self.findings
        hard = frozenset(name for name, job in self.view.problem.jobs.items() if job.is_hard)
        proofs = Proofs(
            self.view.problem,
            self.view.open_problem,
            document["certificate"],
            hard if self.meets_all else frozenset(),
            is_optimal=document["status"] == "optimal",
        )
        bounds = document.get("bounds")
        if bounds is not None:
            with findings.claim("bounds: well formed"):
                proofs.read_bounds(bounds, findings)
        objective = record(document["objective"], "objective")
        value = self._check_value(objective)
        if self.view.problem.objective == "cheapest" or "currency" in objective:
            with findings.claim("objective.currency"):
                self._check_currency(objective.get("currency"))
        bound = self._check_bound(objective, value, proofs)
        with findings.claim("gpus"):
            check_gpus(document, self.view.problem, self.view.resource, self.jobs, proofs, findings)
        self._check_unused(proofs)
        with findings.claim("status"):
            self._check_status(value, bound)
        relaxations = document.get("relaxations")
        if relaxations is not None:
            try:
                check_relaxations(relaxations, self.view.open_problem, self.jobs.runs, findings)
            except Refused as err:
                findings.refuse("relaxations", str(err))
        if document.get("peak_if_started_at_once") is not None:
            with findings.claim("peak_if_started_at_once"):
                check_peaks(document["peak_if_started_at_once"], self.view.problem)
        self._check_proof(value, objective)

    def _check_value(self, objective: dict[str, Any]) -> Fraction | None:
        value = objective["value"]
        name = self.view.problem.objective
        found: list[Fraction | None] = []
        with self.findings.claim("objective.value"):
            if value is None:
                if name in ("on-time", "makespan") or (self.meets_all and not self.jobs.given_up):
                    raise Refused("objective.value is null, and the document carries a plan.")
                found.append(None)
            elif name == "on-time":
                check_share(value, shares(self.view.problem, self.jobs.runs)["weighted"], "objective.value")
                found.append(number(value, "objective.value"))
            elif name == "fewest-gpus":
                found.append(self._check_fewest(value))
            elif name == "makespan":
                last = max([0, *(run.end_ms for run in self.jobs.runs.values())])
                if seconds_ms(value, "objective.value") != last:
                    raise Refused(f"objective.value is not {last / 1000:g} s.")
                found.append(Fraction(last, 1000))
            else:
                found.append(decimal(value, "objective.value"))
                check_cost(found[0], self.view.problem, self.jobs.runs)
        return found[0] if found else None

    def _check_currency(self, stated: Any) -> None:
        right = self.view.problem.currency
        if stated != right:
            raise Refused(f"objective.currency is not {'null' if right is None else right}, as in the inputs.")

    def _check_fewest(self, value: int) -> Fraction:
        resource = self.view.resource or ""
        if not self.meets_all or self.jobs.given_up:
            raise Refused("objective.value is the fewest that meet all deadlines, and not all are met.")
        held = peak(self.jobs.runs.values(), resource)
        if held != value:
            raise Refused(f"objective.value is {value}, and the plan holds {held} of {resource} at most.")
        return Fraction(value)

    def _check_bound(self, objective: dict[str, Any], value: Fraction | None, proofs: Proofs) -> Fraction | None:
        bound, gap = objective["bound"], objective["gap"]
        found: list[Fraction] = []
        if bound is None:
            if gap is not None:
                self.findings.refuse("objective.gap", "There is no bound.")
            return None
        with self.findings.claim("objective.bound"):
            found.append(self._proven_bound(bound, value, proofs))
        with self.findings.claim("objective.gap"):
            if value is None or not found:
                if gap is not None:
                    raise Refused("There is no value or no bound.")
            else:
                check_gap(gap, value, found[0])
        return found[0] if found else None

    def _proven_bound(self, bound: Any, value: Fraction | None, proofs: Proofs) -> Fraction:
        name, claim = self.view.problem.objective, "objective.bound"
        if name == "on-time":
            share = number(bound, claim)
            if not 0 <= share <= 1:
                raise Refused("objective.bound is no share.")
            if value is not None and share < value and not near(share, value):
                raise Refused("objective.bound is below objective.value.")
            obvious = share + TOLERANCE >= 1 or share + TOLERANCE >= attainable_share(self.view.open_problem)
            proofs.prove(claim, proofs.question_of_weight(share), obvious=obvious)
            return share
        if name == "fewest-gpus":
            amount = whole(bound, claim, low=0, high=10**9)
            question = proofs.question_of_amount(self.view.resource or "", amount)
            exact = Fraction(amount)
        elif name == "makespan":
            end_ms = seconds_ms(bound, claim)
            question, exact = proofs.question_of_end(end_ms), Fraction(end_ms, 1000)
            amount = end_ms
        else:
            return self._least_money(decimal(bound, claim), value)
        if value is not None and exact > value:
            raise Refused("objective.bound is above objective.value.")
        proofs.prove(claim, question, obvious=amount <= 0 or is_obvious(question))
        return exact

    def _least_money(self, bound: Fraction, value: Fraction | None) -> Fraction:
        """The bound on money needs no certificate: each job in its cheapest usable shape."""
        if not self.meets_all or self.jobs.given_up:
            raise Refused("Not every job runs in time: nothing bounds what that would cost.")
        least = least_cost(self.view.problem)
        if bound > least and not near(bound, least):
            raise Refused(
                f"Each job in its cheapest usable shape costs {float(least):.12g}, less than objective.bound."
            )
        if value is not None and bound > value and not near(bound, value):
            raise Refused("objective.bound is above objective.value.")
        return bound

    def _check_unused(self, proofs: Proofs) -> None:
        """Bounds behind claims that the document does not make."""
        known = {"objective.bound", *(f"gpus.{name}.lower_bound" for name in self.document.get("gpus") or {})}
        for at, (claim, _) in enumerate(proofs.bounds):
            if claim not in known or self._is_null(claim):
                self.findings.refuse(f"bounds[{at}]", f'The document claims no "{claim[:60]}".')

    def _is_null(self, claim: str) -> bool:
        if claim == "objective.bound":
            return self.document["objective"].get("bound") is None
        name = claim.removeprefix("gpus.").removesuffix(".lower_bound")
        entry = self.document["gpus"].get(name)
        return not isinstance(entry, dict) or entry.get("lower_bound") is None

    def _check_status(self, value: Fraction | None, bound: Fraction | None) -> None:
        status = self.document["status"]
        if status in ("feasible", "optimal"):
            self._check_met(status, value, bound)
        elif self.meets_all:
            raise Refused(f"It is {status}, and the plan in the document meets all hard deadlines.")
        elif status == "infeasible":
            if self.document.get("certificate") is None:
                raise Refused("It is infeasible without a certificate.")
            refute(self.document["certificate"], Question(problem=self.view.open_problem, printed=self.view.problem))
        else:
            self._check_unknown()

    def _check_met(self, status: str, value: Fraction | None, bound: Fraction | None) -> None:
        if not self.meets_all:
            raise Refused(f"It is {status}, and a hard deadline is given up.")
        closed = value is not None and bound is not None and near(value, bound)
        if status == "optimal" and not closed:
            raise Refused("It is optimal, and no proven bound equals the value.")
        if self.document["stopped_because"] == "proven" and not closed:
            raise Refused("Nothing is proven, as stopped_because says.")
        if self.document.get("certificate") is not None and status == "feasible":
            raise Refused("All deadlines are met, and there is a certificate that they cannot be.")

    def _check_unknown(self) -> None:
        if self.document.get("certificate") is not None:
            raise Refused("It is unknown and carries a certificate.")
        if self.document["stopped_because"] == "proven":
            raise Refused("Nothing is proven, as stopped_because says.")
        for name, why in self.jobs.given_up.items():
            if why == "impossible" and self.view.problem.jobs[name].is_hard:
                raise Refused(f'It is unknown, and "{name[:60]}" is impossible.')

    def _check_proof(self, value: Fraction | None, objective: dict[str, Any]) -> None:
        proof = self.document.get("proof")
        if proof is None:
            return
        with self.findings.claim("proof"):
            stated = record(proof, "proof")
            by = text(field(stated, "by", "proof"), "proof.by")
            claim = choice(field(stated, "claim", "proof"), "proof.claim", ("optimal", "infeasible"))
            if claim == "infeasible" and self.meets_all:
                raise Refused("It claims that not all deadlines can be met, and this plan meets them.")
            bound = stated.get("bound")
            if bound is not None and not isinstance(bound, str) and value is not None:
                self._check_word(number(bound, "proof.bound"), value)
            raise NotRechecked(f"It is the word of {by[:40]}; the status does not rest on it.")

    def _check_word(self, bound: Fraction, value: Fraction) -> None:
        low, high = (value, bound) if self.view.problem.objective == "on-time" else (bound, value)
        if low > high and not near(low, high):
            raise Refused("Its bound contradicts the plan in the document.")


def _check_words(document: dict[str, Any], findings: Findings) -> None:
    """What is text or of no consequence: types are checked, truth is not."""
    try:
        for at, one in enumerate(items(document.get("explanation", []), "explanation")):
            text(one, f"explanation[{at}]")
        if document.get("engine") is not None:
            record(document["engine"], "engine")
    except Refused as err:
        findings.refuse("the document", str(err))
    findings.skip("explanation, jobs[].why, jobs[].moved_because, jobs[].p_late, seed, engine", "Words and estimates.")
    for name in sorted({"placement", "durations"} & set(map(str, document))):
        findings.skip(name, "An estimate beside the plan: no status and no proof rests on it.")
    for name in sorted(set(map(str, document)) - _KNOWN):
        findings.skip(name[:60], "This checker does not know the field.")
