"""The decide document and its canonical inputs (contracts, section 7).

`certificate` is a whole plan document: for `not_needed` the plan that meets every deadline, for `needed` the proof
that none exists. Its own canonical inputs are the object `plan` of the decision's inputs, so that it is checked as
any plan is; `inputs_digest` inside it is that of exactly that object's canonical bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any  # a JSON document

from gpuyield.decide.money import total
from gpuyield.model.decision import DecideInputs, Decision, DecisionStatus, Lever, Shortage
from gpuyield.model.document import canonical_bytes, gaps_document, inputs_digest, schema_name
from gpuyield.model.plan import ObservedRow
from gpuyield.model.waterfall import Holder
from gpuyield.plan import plan_document, plan_inputs
from gpuyield.units import Money, Window, format_instant


def decision_inputs(decision: Decision) -> dict[str, Any]:
    """The canonical inputs: integers and decimal strings only; `plan` are those of the plan that decides."""
    inputs = decision.inputs
    return {
        "schema": schema_name("decide-inputs"),
        "now_ms": inputs.now_ms,
        "cluster": inputs.cluster,
        "zone": inputs.zone,
        "window": _window_ms(inputs.window),
        "horizon_ms": inputs.horizon_ms,
        "plan": None if decision.problem is None else plan_inputs(decision.problem),
        "hopeless": dict(decision.hopeless),
        "has_other_work": inputs.has_other_work,
        "incomplete_jobs": sorted(inputs.incomplete_jobs),
        "observed_jobs": inputs.observed_jobs,
        "observed_window": _window_ms(inputs.observed_window),
        "reclaimable": dict(inputs.reclaimable),
        "holders": [_holder(one) for one in inputs.holders],
        "services": [
            {
                "name": one.name,
                "gpus": dict(one.gpus),
                "measured": one.measured,
                "has_objective": one.has_objective,
                "spare_replicas": one.spare_replicas,
            }
            for one in inputs.services
        ],
        "coverage": None
        if inputs.coverage is None
        else {
            "declared_gpu_ms": inputs.coverage.declared_gpu_ms,
            "total_gpu_ms": inputs.coverage.total_gpu_ms,
        },
        "prices": {
            resource: {"gpu_hour": _decimal(rate.gpu_hour), "currency": rate.gpu_hour.currency, "source": rate.source}
            for resource, rate in inputs.prices.items()
        },
        "offers": {
            resource: [
                {
                    "kind": one.kind,
                    "gpu_hour": _decimal(one.gpu_hour),
                    "currency": one.gpu_hour.currency,
                    "min_gpus": one.min_gpus,
                    "lead_time_ms": one.lead_time_ms,
                }
                for one in offers
            ]
            for resource, offers in inputs.offers.items()
        },
        "sources": [{"path": one.path, "sha256": one.sha256, "rows": one.rows} for one in inputs.sources],
    }


def decision_document(decision: Decision) -> dict[str, Any]:
    """The document; `inputs_digest` is that of `decision_inputs`."""
    return {
        "schema": schema_name("decide"),
        "status": str(decision.status),
        "headline": decision.headline,
        "lead": list(decision.lead),
        "reasons": list(decision.reasons),
        "scope": {"batch": str(decision.scope.batch), "services": str(decision.scope.services)},
        "coverage": _coverage(decision.inputs),
        "order_by": _instant(decision.order_by_ms),
        "first_shortage": _first_shortage(decision),
        "levers": _levers(decision),
        "conditional": [_row(one) for one in decision.inputs.observed],
        "shortage": _shortage(decision.shortage),
        "hopeless": [
            {"id": job, "earliest_end": format_instant(end)} for job, end in sorted(decision.hopeless.items())
        ],
        "flip_points": [{"what": one.what, "sentence": one.sentence, **one.figures} for one in decision.flip_points],
        "next_experiment": None
        if decision.next_experiment is None
        else {"sentence": decision.next_experiment.sentence, "command": decision.next_experiment.command},
        "certificate": _certificate(decision),
        "gaps": gaps_document(decision.gaps),
        "inputs_digest": inputs_digest(canonical_bytes(decision_inputs(decision))),
    }


def _certificate(decision: Decision) -> dict[str, Any] | None:
    if decision.problem is None or decision.plan is None:
        return None
    claims = {DecisionStatus.NOT_NEEDED: "met", DecisionStatus.NEEDED: "infeasible"}
    claim = claims.get(decision.status)
    return {"kind": "plan", "claim": claim, "plan": plan_document(decision.problem, decision.plan)}


def _levers(decision: Decision) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = []
    freed: dict[str, int] = {}
    moneys: list[Money | None] = []
    saved: int | None = 0
    for number, lever in enumerate(decision.levers, start=1):
        for flavor, gpus in lever.gpus_freed.items():
            freed[flavor] = freed.get(flavor, 0) + gpus
        if lever.money_per_month is not None or lever.gpus_freed or lever.gpus_added:
            moneys.append(lever.money_per_month)
        saved = None if saved is None or lever.deadlines_saved is None else saved + lever.deadlines_saved
        cumulative = {"gpus_freed": dict(freed), "money_per_month": _money(total(moneys)), "deadlines_saved": saved}
        listed.append(_lever(number, lever) | {"cumulative": cumulative})
    return listed


def _lever(number: int, lever: Lever) -> dict[str, Any]:
    return {
        "id": f"{number}-{lever.kind}",
        "lever": str(lever.kind),
        "change": lever.change,
        "gpus_freed": dict(lever.gpus_freed),
        "gpus_added": dict(lever.gpus_added),
        "money_per_month": _money(lever.money_per_month),
        "deadlines_saved": lever.deadlines_saved,
        "risk": lever.risk,
        "undo": lever.undo,
        "provenance": lever.provenance,
        "holders" if lever.kind == "reclaim" else "details": [dict(one) for one in lever.details],
    }


def _first_shortage(decision: Decision) -> dict[str, str | None]:
    at_ms = decision.shortage.from_ms if decision.shortage and decision.status is DecisionStatus.NEEDED else None
    # Declared work is no forecast: where a shortage is proven, all three are the same instant.
    return dict.fromkeys(("p10", "p50", "p90"), _instant(at_ms))


def _shortage(shortage: Shortage | None) -> dict[str, Any] | None:
    if shortage is None:
        return None
    return {
        "resource": shortage.resource,
        "at_least": shortage.at_least,
        "sufficient": shortage.sufficient,
        "from": _instant(shortage.from_ms),
        "to": _instant(shortage.to_ms),
        "named": shortage.is_named,
    }


def _row(row: ObservedRow) -> dict[str, Any]:
    return {
        "finish_within": row.finish_within,
        "gpus_needed": row.gpus_needed,
        "lower_bound": row.lower_bound,
        "available": sum(need.available for need in row.plan.gpus),
        "impossible": row.impossible,
    }


def _coverage(inputs: DecideInputs) -> float | None:
    found = inputs.coverage
    if found is None or not found.total_gpu_ms:
        return None
    return float(Fraction(found.declared_gpu_ms, found.total_gpu_ms))


def _holder(holder: Holder) -> dict[str, Any]:
    return {
        "namespace": holder.namespace,
        "workload": holder.workload,
        "team": holder.team,
        "flavor": holder.flavor,
        "gpus": holder.gpus,
        "gpus_now": holder.gpus_now,
        "idle_gpu_ms": holder.idle_gpu_ms,
        "since_ms": holder.since_ms,
        "longest": _window_ms(holder.longest),
    }


def _money(money: Money | None) -> dict[str, str] | None:
    if money is None:
        return None
    return {"amount": f"{money.amount.quantize(Decimal('0.01')):f}", "currency": money.currency}


def _decimal(money: Money) -> str:
    return format(money.amount.quantize(Decimal("0.000001")).normalize(), "f")


def _window_ms(window: Window | None) -> Mapping[str, int] | None:
    return None if window is None else {"from_ms": window.from_ms, "to_ms": window.to_ms}


def _instant(at_ms: int | None) -> str | None:
    return None if at_ms is None else format_instant(at_ms)
