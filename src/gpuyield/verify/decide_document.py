"""Check a decide document: its plan is checked as any plan is, then what the status and the figures rest on.

Its inputs hold those of the plan as the object `plan`; the certificate holds the plan document itself.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .decide_money import check_levers, offers_of
from .plan_document import check_plan
from .problem import Problem, read_problem, topological
from .report import Findings, NotRechecked, Refused
from .shares import near
from .values import choice, field, instant, items, number, record, text, whole

DECIDE_INPUTS = "gpuyield/decide-inputs/v1alpha1"
STATUSES = ("not_needed", "needed", "unknown")
CLAIMS = {"not_needed": "met", "needed": "infeasible", "unknown": None}
_SPANNED = ("interval", "wide-gangs", "dual-feasible")
_KNOWN = {
    *("schema", "status", "headline", "lead", "reasons", "scope", "coverage", "order_by", "first_shortage", "levers"),
    *("conditional", "shortage", "hopeless", "flip_points", "next_experiment", "certificate", "gaps", "inputs_digest"),
}


def check_decide(document: dict[str, Any], inputs: Any, findings: Findings) -> None:
    """Fill in the findings for a decide document; the digest is checked already."""
    stated = record(inputs, "inputs")
    if stated.get("schema") != DECIDE_INPUTS:
        raise Refused(f"inputs.schema is not {DECIDE_INPUTS}.")
    problem = None if field(stated, "plan", "inputs") is None else read_problem(stated["plan"])
    judge = _Judge(document=document, inputs=stated, problem=problem, findings=findings)
    judge.check()
    for name in sorted(set(map(str, document)) - _KNOWN):
        findings.skip(name[:60], "This checker does not know the field.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    document: dict[str, Any]
    inputs: dict[str, Any]
    problem: Problem | None
    findings: Findings

    def check(self) -> None:
        """All of it."""
        plan = self._check_certificate()
        with self.findings.claim("scope"):
            self._check_scope()
        with self.findings.claim("coverage"):
            self._check_coverage()
        with self.findings.claim("hopeless"):
            self._check_hopeless()
        with self.findings.claim("shortage"):
            self._check_shortage(plan)
        with self.findings.claim("status"):
            self._check_status(plan)
        with self.findings.claim("order_by"):
            self._check_order_by()
        with self.findings.claim("first_shortage"):
            self._check_first_shortage()
        check_levers(self.document, self.inputs, self.findings)
        with self.findings.claim("conditional"):
            self._check_conditional()
        words = "headline, lead, reasons, flip_points, next_experiment, gaps"
        self.findings.skip(words, "Words, and what other problems would say.")

    def _check_certificate(self) -> dict[str, Any] | None:
        certificate = field(self.document, "certificate", "the document")
        if certificate is None:
            return None
        with self.findings.claim("certificate"):
            stated = record(certificate, "certificate")
            if stated.get("kind") != "plan" or self.problem is None:
                raise Refused("It is no plan, or the inputs hold none.")
            plan = record(field(stated, "plan", "certificate"), "certificate.plan")
            self._check_plan(plan)
            return plan
        return None

    def _check_plan(self, plan: dict[str, Any]) -> None:
        if plan.get("schema") != "gpuyield/plan/v1alpha1":
            raise Refused("certificate.plan is no plan document.")
        data = json.dumps(self.inputs["plan"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        if plan.get("inputs_digest") != f"sha256:{hashlib.sha256(data).hexdigest()}":
            raise Refused("certificate.plan.inputs_digest is not that of the inputs' plan.")
        inner = Findings()
        check_plan(plan, self.inputs["plan"], inner)
        for claim in inner.vouched:
            self.findings.vouch(f"certificate.plan.{claim}")
        for one in inner.refused:
            self.findings.refuse(f"certificate.plan.{one.claim}", one.reason)
        for one in inner.skipped:
            self.findings.skip(f"certificate.plan.{one.claim}", one.reason)
        if inner.refused:
            raise Refused("Its plan is refused.")

    def _check_status(self, plan: dict[str, Any] | None) -> None:
        status = choice(field(self.document, "status", "the document"), "status", STATUSES)
        certificate = self.document["certificate"]
        found = None if plan is None else plan.get("status")
        if certificate is not None and certificate.get("claim") != CLAIMS[status]:
            raise Refused("certificate.claim is not what the status rests on.")
        if status == "not_needed" and found not in ("feasible", "optimal"):
            raise Refused("It is not_needed without a plan that meets all deadlines.")
        if status == "unknown":
            if found in ("feasible", "optimal"):
                raise Refused("It is unknown, and its plan meets all deadlines.")
            if not items(field(self.document, "reasons", "the document"), "reasons"):
                raise Refused("It is unknown without a reason.")
        if status != "needed":
            return
        if found != "infeasible" or self.document.get("shortage") is None:
            raise Refused("It is needed without a proof that not all deadlines can be met, or without a shortage.")
        self._check_nothing_missing()

    def _check_nothing_missing(self) -> None:
        """`needed` rests on a price and on services that are measured."""
        resource = text(field(record(self.document["shortage"], "shortage"), "resource", "shortage"), "resource")
        if not offers_of(self.inputs, resource):
            raise Refused(f"It is needed, and the inputs have no price for {resource}.")
        for at, entry in enumerate(items(field(self.inputs, "services", "inputs"), "inputs.services")):
            service = record(entry, f"inputs.services[{at}]")
            held = record(field(service, "gpus", "a service"), "gpus").get(resource, 0)
            sure = service.get("measured") is True and service.get("has_objective") is True
            if whole(held, f"inputs.services[{at}].gpus", low=0) > 0 and not sure:
                raise Refused("It is needed, and a service without a measurement holds the same GPUs.")

    def _check_scope(self) -> None:
        scope = record(field(self.document, "scope", "the document"), "scope")
        rows = items(field(self.document, "conditional", "the document"), "conditional")
        batch = "declared" if self.problem is not None else "observed" if rows else "none"
        services = items(field(self.inputs, "services", "inputs"), "inputs.services")
        every = all(isinstance(one, dict) and one.get("measured") is True for one in services)
        serving = "none" if not services else "measured" if every else "held_at_observed"
        if scope.get("batch") != batch or scope.get("services") != serving:
            raise Refused(f"scope is not batch {batch}, services {serving}.")

    def _check_coverage(self) -> None:
        known, stated = field(self.inputs, "coverage", "inputs"), field(self.document, "coverage", "the document")
        if known is None:
            total = declared = 0
        else:
            coverage = record(known, "inputs.coverage")
            declared = whole(field(coverage, "declared_gpu_ms", "coverage"), "declared_gpu_ms", low=0, high=10**20)
            total = whole(field(coverage, "total_gpu_ms", "coverage"), "total_gpu_ms", low=0, high=10**20)
        if not total:
            if stated is not None:
                raise Refused("coverage is not null, and nothing is known.")
            return
        if not near(number(stated, "coverage"), Fraction(declared, total)):
            raise Refused(f"coverage is not {declared / total:.12g}.")

    def _check_hopeless(self) -> None:
        """Deadlines that no number of GPUs keeps are moved to the earliest possible end, and named."""
        known = record(field(self.inputs, "hopeless", "inputs"), "inputs.hopeless")
        listed: dict[str, int] = {}
        for at, entry in enumerate(items(field(self.document, "hopeless", "the document"), "hopeless")):
            one = record(entry, f"hopeless[{at}]")
            name = text(field(one, "id", "hopeless"), "hopeless.id")
            listed[name] = instant(field(one, "earliest_end", "hopeless"), "earliest_end")
        if listed != known or len(listed) != len(self.document["hopeless"]):
            raise Refused("hopeless is not that of the inputs.")
        if self.problem is None:
            if known:
                raise Refused("hopeless names jobs, and there are none.")
            return
        ends = _earliest_ends(self.problem)
        for name, end_ms in known.items():
            job = self.problem.jobs.get(name)
            at_ms = whole(end_ms, f"inputs.hopeless.{name[:60]}") - self.problem.origin_ms
            if job is None or job.deadline_ms != at_ms or ends[name] != at_ms:
                raise Refused(f'"{name[:60]}" could end at another time, or its deadline is another one.')

    def _check_shortage(self, plan: dict[str, Any] | None) -> None:
        shortage = field(self.document, "shortage", "the document")
        if shortage is None:
            return
        stated = record(shortage, "shortage")
        if plan is None or plan.get("status") != "infeasible" or self.problem is None:
            raise Refused("There is no proof behind it.")
        resource = text(field(stated, "resource", "shortage"), "shortage.resource")
        at_least = whole(field(stated, "at_least", "shortage"), "shortage.at_least", low=1)
        proven = self._proven_missing(plan, resource)
        if at_least > proven:
            raise Refused(f"{at_least} of {resource} are said to be missing, and {proven} are proven to be.")
        sufficient = field(stated, "sufficient", "shortage")
        if sufficient is not None and not self._is_shown(
            plan, resource, whole(sufficient, "shortage.sufficient", low=at_least)
        ):
            raise Refused("Nothing in its plan shows that so many suffice.")
        self._check_span(stated, plan)

    def _proven_missing(self, plan: dict[str, Any], resource: str) -> int:
        certificate = plan["certificate"]
        gpus = record(plan["gpus"], "gpus").get(resource) or {}
        found = [1]
        if certificate["kind"] in ("interval", "cut") and certificate["resource"] == resource:
            found.append(certificate["extra_gpus"])
        if gpus.get("lower_bound") is not None:
            found.append(gpus["lower_bound"] - gpus["available"])
        if certificate["kind"] == "impossible" and self.problem is not None:
            steps = self.problem.capacity.get(resource)
            there = 0 if steps is None else steps.at(0)
            for listed in certificate["jobs"]:
                shapes = self.problem.jobs[listed["id"]].shapes
                quickest = min(shapes, key=lambda shape: shape.duration_ms)
                found.append(quickest.demand.get(resource, 0) - there)
        return max(found)

    def _is_shown(self, plan: dict[str, Any], resource: str, amount: int) -> bool:
        gpus = record(plan["gpus"], "gpus").get(resource) or {}
        if gpus.get("needed") is not None and gpus["needed"] - gpus["available"] <= amount:
            return True
        return any(
            one.get("kind") == "add-gpus" and one.get("resource") == resource and one["amount"] <= amount
            for one in plan.get("relaxations") or []
        )

    def _check_span(self, stated: dict[str, Any], plan: dict[str, Any]) -> None:
        origin_ms = 0 if self.problem is None else self.problem.origin_ms
        certificates = [plan["certificate"], *(one["certificate"] for one in plan.get("bounds") or [])]
        spans = {(one["from_ms"], one["to_ms"]) for one in certificates if one and one["kind"] in _SPANNED}
        low, high = field(stated, "from", "shortage"), field(stated, "to", "shortage")
        if low is None and high is None:
            return
        span = (instant(low, "shortage.from") - origin_ms, instant(high, "shortage.to") - origin_ms)
        if span not in spans:
            raise Refused("No certificate of its plan speaks of this span.")

    def _check_order_by(self) -> None:
        order_by, shortage = field(self.document, "order_by", "the document"), self.document.get("shortage")
        begin = None if shortage is None else record(shortage, "shortage").get("from")
        if order_by is None:
            if self.document.get("status") == "needed" and begin is not None:
                raise Refused("order_by is null, and the shortage has a date.")
            return
        if self.document.get("status") != "needed" or begin is None:
            raise Refused("order_by is not null, and no purchase with a date is needed.")
        resource = text(field(record(shortage, "shortage"), "resource", "shortage"), "shortage.resource")
        lead_times = {offer.lead_time_ms for offer in offers_of(self.inputs, resource)}
        if instant(begin, "shortage.from") - instant(order_by, "order_by") not in lead_times:
            raise Refused("order_by is not the beginning of the shortage less a lead time.")

    def _check_first_shortage(self) -> None:
        stated = record(field(self.document, "first_shortage", "the document"), "first_shortage")
        shortage = self.document.get("shortage")
        needed = self.document.get("status") == "needed" and shortage is not None
        right = record(shortage, "shortage").get("from") if needed else None
        if any(stated.get(name) != right for name in ("p10", "p50", "p90")):
            raise Refused("first_shortage is not the beginning of the proven shortage.")

    def _check_conditional(self) -> None:
        rows = items(field(self.document, "conditional", "the document"), "conditional")
        for at, entry in enumerate(rows):
            row = record(entry, f"conditional[{at}]")
            needed, lower = row.get("gpus_needed"), row.get("lower_bound")
            for name, value in (("gpus_needed", needed), ("lower_bound", lower)):
                if value is not None:
                    whole(value, f"conditional[{at}].{name}", low=0)
            if needed is not None and lower is not None and needed < lower:
                raise Refused(f"conditional[{at}].gpus_needed is below lower_bound.")
        if rows:
            raise NotRechecked("The plans behind the rows are not in the document.")


def _earliest_ends(problem: Problem) -> dict[str, int]:
    """When each job could end at the earliest with GPUs without number."""
    ends: dict[str, int] = {}
    for name in topological(problem.jobs):
        job = problem.jobs[name]
        behind = [ends[one] for one in job.after] if job.fixed_ms is None else []
        ends[name] = max([job.earliest_ms, *behind]) + min(shape.duration_ms for shape in job.shapes)
    return ends
