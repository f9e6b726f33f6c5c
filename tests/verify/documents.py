"""True plan documents for small problems, made by trying everything; no planner of ours is involved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from verify import brute
from verify.brute import UNIT_MS, Inputs, Plan, units
from verify.problems import make_inputs
from verify.trees import best_interval, grow, priced_bound

HOUR_S = 3600
EPOCH = datetime.fromisoformat("1970-01-01")
"""UTC, like every time of a document once its Z is cut off."""


def moment(inputs: Inputs, at_ms: int) -> str:
    """RFC 3339 of ms from the origin."""
    when = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=inputs["origin_ms"] + at_ms)
    text = when.strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{when.microsecond // 1000:03d}Z" if when.microsecond else f"{text}Z"


def true_document(seed: int) -> tuple[dict[str, Any], Inputs]:
    """A true document and its inputs, from a seed; not sealed yet."""
    rng = Random(seed)
    while True:
        inputs = make_inputs(rng)
        try:
            return make_document(inputs, rng), inputs
        except brute.Unanswerable:
            continue


def make_document(inputs: Inputs, rng: Random) -> dict[str, Any]:
    """A document that claims as much as is true of these inputs."""
    resource = inputs["resource"] or next(iter(inputs["capacity"]))
    least = brute.fewest(inputs, resource)
    plan, value, bound = _best(inputs, resource, least)
    hopeless = [job["id"] for job in inputs["jobs"] if brute.hopeless(_opened(inputs, resource), job["id"])]
    met = all(job["id"] in plan for job in inputs["jobs"] if job["deadline_ms"] is not None)
    document: dict[str, Any] = {
        "schema": "gpuyield/plan/v1alpha1",
        "origin": moment(inputs, 0),
        "objective": {"name": inputs["objective"], "value": value, "bound": None, "gap": None},
        "on_time": _shares(inputs, plan),
        "jobs": [_job(inputs, job, plan, hopeless) for job in inputs["jobs"]],
        "bounds": [],
        "witness": None,
        "proof": None,
        "explanation": ["a sentence"],
        "relaxations": [],
        "seed": 0,
        "engine": {"name": "brute", "version": "1"},
    }
    _add_bound(document, inputs, resource, bound, met)
    _add_prices(document, inputs, rng)
    _add_status(document, inputs, resource, hopeless, met)
    document["gpus"] = {resource: _gpus(document, inputs, resource, plan, least, hopeless, rng)}
    if document["status"] == "infeasible" and inputs["objective"] == "on-time":
        document["relaxations"] = _relaxations(inputs, resource)
    return document


def _opened(inputs: Inputs, resource: str) -> Inputs:
    """The inputs with the chosen resource unlimited, for fewest-gpus."""
    if inputs["objective"] != "fewest-gpus":
        return inputs
    return {**inputs, "capacity": {**inputs["capacity"], resource: [[0, brute.INFINITE]]}}


def _best(
    inputs: Inputs, resource: str, least: tuple[int, Plan] | None
) -> tuple[Plan, float | int | None, float | int | None]:
    known = brute.facts(_opened(inputs, resource))
    if inputs["objective"] == "fewest-gpus":
        return (known.best, None, None) if least is None else (least[1], least[0], least[0])
    if inputs["objective"] == "makespan":
        found = brute.soonest(inputs)
        plan = known.best if found is None else found[1]
        last = max((segments[-1][1] for _, segments in plan.values()), default=0)
        return plan, last * HOUR_S, None if found is None else last * HOUR_S
    return known.best, float(known.best_share), float(known.best_share)


def _job(inputs: Inputs, job: dict[str, Any], plan: Plan, hopeless: list[str]) -> dict[str, Any]:
    deadline = job["deadline_ms"]
    listed: dict[str, Any] = {
        "id": job["id"],
        "deadline": None if deadline is None else moment(inputs, deadline),
        "p_late": None,
        "why": "a sentence",
        "moved_because": None,
    }
    if job["id"] not in plan:
        status = "impossible" if job["id"] in hopeless else "dropped"
        return {
            **listed,
            "flavor": None,
            "gpus": None,
            "segments": [],
            "slack_s": None,
            "late_s": None,
            "status": status,
        }
    at, segments = plan[job["id"]]
    shape = job["shapes"][at]
    end_ms = segments[-1][1] * UNIT_MS
    late_s = 0 if job["due_ms"] is None else max(0, (end_ms - job["due_ms"]) // 1000)
    return {
        **listed,
        "flavor": shape["flavor"],
        "gpus": sum(shape["demand"].values()),
        "segments": [[moment(inputs, low * UNIT_MS), moment(inputs, high * UNIT_MS)] for low, high in segments],
        "slack_s": None if deadline is None else (deadline - end_ms) // 1000,
        "late_s": late_s,
        "status": "late" if late_s else "planned",
    }


def _shares(inputs: Inputs, plan: Plan) -> dict[str, float]:
    timed = [job for job in inputs["jobs"] if job["deadline_ms"] is not None or job["due_ms"] is not None]
    sums = {
        "weighted": [Fraction(0), Fraction(0)],
        "jobs": [Fraction(0), Fraction(0)],
        "gpu_time": [Fraction(0), Fraction(0)],
    }
    for job in timed:
        single = {**inputs, "jobs": [job]}
        met = brute.on_time_weight({**single, "jobs": [{**job, "weight": "1"}]}, plan) > 0
        sizes = [sum(shape["demand"].values()) * shape["duration_ms"] for shape in job["shapes"]]
        size = sizes[plan[job["id"]][0]] if job["id"] in plan else min(sizes)
        for name, part in (("weighted", Fraction(job["weight"])), ("jobs", Fraction(1)), ("gpu_time", Fraction(size))):
            sums[name][0] += part if met else 0
            sums[name][1] += part
    return {name: float(part / whole) if whole else 1.0 for name, (part, whole) in sums.items()}


def _add_bound(document: dict[str, Any], inputs: Inputs, resource: str, bound: float | int | None, met: bool) -> None:
    if bound is None:
        return
    name = inputs["objective"]
    certificate = None
    if name == "on-time" and bound < 1:
        certificate = grow(inputs, share=bound, must_meet=met)
    elif name == "fewest-gpus" and bound > 0:
        certificate = grow({**inputs, "capacity": {**inputs["capacity"], resource: [[0, int(bound) - 1]]}})
    elif name == "makespan" and bound > 0:
        last = int(bound) // HOUR_S * UNIT_MS - 1
        jobs = [{**job, "deadline_ms": min(last, job["deadline_ms"] or last)} for job in inputs["jobs"]]
        certificate = grow({**inputs, "jobs": jobs})
    if certificate is None and name == "on-time" and bound < 1:
        document["objective"].update(bound=1.0, gap=1.0 - document["objective"]["value"])
        return
    if certificate is None and name != "on-time" and bound > 0:
        return
    document["objective"].update(bound=bound, gap=0.0)
    if certificate is not None:
        document["bounds"].append({"claim": "objective.bound", "certificate": certificate})


def _add_prices(document: dict[str, Any], inputs: Inputs, rng: Random) -> None:
    """Where the bound is below 1, sometimes prove one by prices instead, if a few random ones do."""
    objective = document["objective"]
    if objective["name"] != "on-time" or objective["value"] == 1 or rng.random() < 0.3:
        return
    total = brute.timed_weight(inputs)
    for _ in range(20):
        scale = 10**12
        listed = [
            rng.choice([0, 0, rng.randint(1, 900)]) * scale // 1000 // UNIT_MS for _ in range(brute.horizon(inputs))
        ]
        prices = dict.fromkeys(inputs["capacity"], listed)
        weight, _ = priced_bound(inputs, prices, scale, hard_only=False)
        share = float(weight / total)
        if share >= 1:
            continue
        bound = format(Decimal(weight.numerator) / Decimal(weight.denominator), "f")
        certificate = {"kind": "prices", "bucket_ms": UNIT_MS, "scale": scale, "prices": prices, "bound": bound}
        document["bounds"] = [{"claim": "objective.bound", "certificate": certificate}]
        most = max(share, objective["value"])
        objective.update(bound=share, gap=(share - objective["value"]) / most if most else 0.0)
        return


def _add_status(document: dict[str, Any], inputs: Inputs, resource: str, hopeless: list[str], met: bool) -> None:
    objective = document["objective"]
    certificate = None
    if met:
        closed = objective["bound"] is not None and objective["value"] == objective["bound"]
        status = "optimal" if closed else "feasible"
    else:
        certificate = _why_not(_opened(inputs, resource), inputs, hopeless)
        status = "unknown" if certificate is None else "infeasible"
    proven = status in ("optimal", "infeasible")
    document.update(status=status, certificate=certificate, stopped_because="proven" if proven else "budget")


def _why_not(opened: Inputs, inputs: Inputs, hopeless: list[str]) -> dict[str, Any] | None:
    jobs = {job["id"]: job for job in inputs["jobs"]}
    listed = [found for name in hopeless if (found := _impossible(opened, jobs[name], jobs)) is not None]
    if hopeless and not listed:
        raise brute.Unanswerable("no simple reason")
    if listed:
        return {"kind": "impossible", "jobs": listed}
    for resource in opened["capacity"]:
        found = best_interval(opened, resource)
        if found is not None and found["extra_gpus"] > 0:
            return found
    return grow(opened)


def _impossible(inputs: Inputs, job: dict[str, Any], jobs: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """Why, for jobs that are so plainly."""
    fixed = job["started_ms"] if job["started_ms"] is not None else job["pinned_ms"]
    start = max(0, job["release_ms"]) if fixed is None else fixed
    held = [shape["duration_ms"] for shape in job["shapes"] if brute.is_held(inputs, shape)]
    shortest = min(held or [shape["duration_ms"] for shape in job["shapes"]])
    if job["deadline_ms"] is not None and job["deadline_ms"] - start < shortest:
        have = max(0, job["deadline_ms"] - start) // 1000
        return {"id": job["id"], "reason": "too-long", "need": shortest // 1000, "have": have}
    ends = [brute.earliest_end(inputs, jobs, one, alone=False) for one in job["after"]]
    known = [end * UNIT_MS for end in ends if end is not None]
    if fixed is None and job["after"] and job["deadline_ms"] is not None and len(known) == len(ends):
        last = max([start, *known]) + shortest
        if held and last > job["deadline_ms"]:
            return {"id": job["id"], "reason": "chain", "need": last // 1000, "have": job["deadline_ms"] // 1000}
    if len(job["shapes"]) > 1 or job["after"]:
        return None
    ((resource, need),) = job["shapes"][0]["demand"].items()
    for have in range(need - 1, -1, -1):
        smaller = {**job, "shapes": [{**job["shapes"][0], "demand": {resource: have}}]}
        if not brute.hopeless({**inputs, "jobs": [smaller]}, job["id"]):
            return {"id": job["id"], "reason": "too-wide", "need": need, "have": have}
    return None


def _gpus(
    document: dict[str, Any],
    inputs: Inputs,
    resource: str,
    plan: Plan,
    least: tuple[int, Plan] | None,
    hopeless: list[str],
    rng: Random,
) -> dict[str, Any]:
    available = next((have for at, have in reversed(inputs["capacity"][resource]) if at <= 0), 0)
    entry: dict[str, Any] = {"available": available, "needed": None, "lower_bound": None}
    if least is None or hopeless:
        return entry
    have, witness = least
    entry["needed"] = have
    if witness != plan:
        document["witness"] = {"needed": _witness(inputs, witness, plan)}
    if rng.random() < 0.5:
        found = best_interval({**inputs, "capacity": {**inputs["capacity"], resource: []}}, resource)
        if found is not None:
            entry["lower_bound"] = -(-found["required_gpu_ms"] // (found["to_ms"] - found["from_ms"]))
            found["capacity_gpu_ms"] = sum(
                brute.amount(inputs["capacity"], resource, at) * UNIT_MS
                for at in range(units(found["from_ms"]), units(found["to_ms"]))
            )
            lacking = found["required_gpu_ms"] - found["capacity_gpu_ms"]
            found["extra_gpus"] = max(0, -(-lacking // (found["to_ms"] - found["from_ms"])))
            document["bounds"].append({"claim": f"gpus.{resource}.lower_bound", "certificate": found})
    elif have > 0:
        found = grow({**inputs, "capacity": {**inputs["capacity"], resource: [[0, have - 1]]}})
        if found is not None:
            entry["lower_bound"] = have
            document["bounds"].append({"claim": f"gpus.{resource}.lower_bound", "certificate": found})
    return entry


def _witness(inputs: Inputs, witness: Plan, plan: Plan) -> dict[str, Any]:
    jobs = {job["id"]: job for job in inputs["jobs"]}
    found: dict[str, Any] = {}
    for name, (at, segments) in witness.items():
        if plan.get(name) == (at, segments):
            continue
        shape = jobs[name]["shapes"][at]
        same = name in plan and plan[name][0] == at
        if len(segments) == 1 and (same or (name not in plan and len(jobs[name]["shapes"]) == 1)):
            found[name] = moment(inputs, segments[0][0] * UNIT_MS)
        else:
            found[name] = {
                "flavor": shape["flavor"],
                "gpus": sum(shape["demand"].values()),
                "segments": [[moment(inputs, low * UNIT_MS), moment(inputs, high * UNIT_MS)] for low, high in segments],
            }
    return found


def _relaxations(inputs: Inputs, resource: str) -> list[dict[str, Any]]:
    plan = brute.facts(inputs).best
    found: list[dict[str, Any]] = []
    end = brute.horizon(inputs)
    for more in range(1, 7):
        steps = [[at, have + more] for at, have in inputs["capacity"][resource]]
        wider = {**inputs, "capacity": {**inputs["capacity"], resource: steps}}
        witness = brute.solve(wider)
        if witness is None:
            continue
        fewer = [[at, have + more - 1] for at, have in inputs["capacity"][resource]]
        tree = grow({**inputs, "capacity": {**inputs["capacity"], resource: fewer}})
        relaxation: dict[str, Any] = {"kind": "add-gpus", "resource": resource, "amount": more}
        relaxation.update({"from": moment(inputs, 0), "to": moment(inputs, (end + 5) * UNIT_MS)})
        relaxation.update(witness=_witness(inputs, witness, plan), irreducible=None)
        if tree is not None:
            relaxation.update(irreducible=True, certificates=[tree])
        found.append(relaxation)
        break
    found += _drops(inputs, plan)
    return found


def _drops(inputs: Inputs, plan: Plan) -> list[dict[str, Any]]:
    names = [job["id"] for job in inputs["jobs"]]
    for dropped in brute.subsets(names):
        witness = brute.solve(without(inputs, set(dropped)))
        if witness is None:
            continue
        trees = [grow(without(inputs, set(dropped) - {name})) for name in dropped]
        relaxation: dict[str, Any] = {"kind": "drop", "jobs": list(dropped), "irreducible": None}
        relaxation["witness"] = _witness(inputs, witness, plan)
        if all(tree is not None for tree in trees):
            relaxation.update(irreducible=True, certificates=trees)
        return [relaxation]
    return []


def without(inputs: Inputs, names: set[str]) -> Inputs:
    """The inputs without some jobs."""
    jobs = [
        {**job, "after": [one for one in job["after"] if one not in names]}
        for job in inputs["jobs"]
        if job["id"] not in names
    ]
    return {**inputs, "jobs": jobs}
