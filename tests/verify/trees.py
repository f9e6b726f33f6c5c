"""Certificates grown by trying everything: the tightest interval, and a search tree."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from verify import brute
from verify.brute import UNIT_MS, Inputs, Option, amount, options

MOST_NODES = 3_000
Domain = dict[str, list[Option]]


def domains(inputs: Inputs) -> Domain:
    """For each job the runs that keep its own times and its place in the order; capacity is left aside."""
    end = brute.horizon(inputs)
    found: Domain = {}
    for job in inputs["jobs"]:
        limit = end if job["deadline_ms"] is None else min(end, job["deadline_ms"] // UNIT_MS)
        held = [
            option
            for option in options(job, limit)
            if all(
                need <= max((amount(inputs["capacity"], name, at) for at in range(end)), default=0)
                for name, need in job["shapes"][option[0]]["demand"].items()
            )
        ]
        found[job["id"]] = held
    return prune(inputs, found)


def prune(inputs: Inputs, found: Domain) -> Domain:
    """Without the runs that the order of jobs rules out."""
    changed = True
    while changed:
        changed = False
        for job in inputs["jobs"]:
            for before in job["after"]:
                first = min((o[1][-1][1] for o in found[before]), default=brute.INFINITE)
                kept = [o for o in found[job["id"]] if o[1][0][0] >= first]
                last = max((o[1][0][0] for o in found[job["id"]]), default=-brute.INFINITE)
                earlier = [o for o in found[before] if o[1][-1][1] <= last] if kept else found[before]
                if len(kept) < len(found[job["id"]]) or len(earlier) < len(found[before]):
                    found = {**found, job["id"]: kept, before: earlier}
                    changed = True
    return found


def binds(job: dict[str, Any], inputs: Inputs) -> bool:
    """The job must run by some time."""
    if job["deadline_ms"] is not None or job["started_ms"] is not None or job["pinned_ms"] is not None:
        return True
    return any(job["id"] in other["after"] and binds(other, inputs) for other in inputs["jobs"])


def forced(inputs: Inputs, job: dict[str, Any], runs: list[Option], resource: str, low: int, high: int) -> int:
    """The least GPU units that any of these runs spends in a span."""
    if not binds(job, inputs):
        return 0
    return min(
        (
            job["shapes"][at]["demand"].get(resource, 0)
            * sum(max(0, min(high, end) - max(low, start)) for start, end in segments)
            for at, segments in runs
        ),
        default=0,
    )


def best_interval(inputs: Inputs, resource: str) -> dict[str, Any] | None:
    """The overloaded interval with most extra GPUs, then the longest, then the earliest; None where there is none."""
    if any(job["restart_ms"] is not None for job in inputs["jobs"]):
        return None
    held = {**inputs, "capacity": {name: [[0, brute.INFINITE]] for name in {resource, *inputs["capacity"]}}}
    found, best = domains(held), None
    end = brute.horizon(inputs)
    for low in range(end):
        for high in range(low + 1, end + 1):
            parts = {job["id"]: forced(inputs, job, found[job["id"]], resource, low, high) for job in inputs["jobs"]}
            required = sum(parts.values())
            there = sum(amount(inputs["capacity"], resource, at) for at in range(low, high))
            extra = -((there - required) // (high - low))
            if required > there and (best is None or (extra, high - low, -low) > best[0]):
                best = (extra, high - low, -low), low, high, parts, there
    if best is None:
        return None
    (extra, _, _), low, high, parts, there = best
    return {
        "kind": "interval",
        "resource": resource,
        "from_ms": low * UNIT_MS,
        "to_ms": high * UNIT_MS,
        "capacity_gpu_ms": there * UNIT_MS,
        "required_gpu_ms": sum(parts.values()) * UNIT_MS,
        "extra_gpus": extra,
        "jobs": [{"id": name, "forced_gpu_ms": part * UNIT_MS} for name, part in parts.items() if part],
    }


def grow(inputs: Inputs, *, share: float | None = None, must_meet: bool = True) -> dict[str, Any] | None:
    """A search tree that shows that not all deadlines can be met, or that no more than `share` can be on time."""
    if any(job["restart_ms"] is not None for job in inputs["jobs"]):
        return None
    if share is not None and not must_meet:
        freed = [
            job if job["deadline_ms"] is None else {**job, "deadline_ms": None, "started_ms": None, "pinned_ms": None}
            for job in inputs["jobs"]
        ]
        start = {**inputs, "jobs": freed}
    else:
        start = inputs
    grower = _Grower(inputs, share)
    if not grower.grow(start, domains(start), [], Fraction(0)) or len(grower.nodes) > MOST_NODES:
        return None
    return {"kind": "search", "grid_ms": UNIT_MS, "branches": grower.nodes}


class _Grower:
    def __init__(self, inputs: Inputs, share: float | None) -> None:
        self.inputs, self.share, self.nodes = inputs, share, list[dict[str, Any]]()
        jobs = inputs["jobs"]
        self.timed = [j for j in jobs if j["deadline_ms"] is not None or j["due_ms"] is not None]
        self.total = sum((Fraction(job["weight"]) for job in self.timed), start=Fraction(0))

    def grow(self, inputs: Inputs, found: Domain, decided: list[str], missed: Fraction) -> bool:
        if len(self.nodes) > MOST_NODES:
            return False
        closed = self._closed(inputs, found, missed)
        if closed is not None:
            self.nodes.append(closed)
            return True
        must = [job for job in inputs["jobs"] if binds(job, inputs)]
        wide = [job for job in must if len(found[job["id"]]) > 1]
        free = [job for job in self.timed if self.share is not None and job["id"] not in decided]
        if free:
            return self._decide(inputs, found, free[0], decided, missed)
        if not wide:
            return False
        return self._narrow(inputs, found, min(wide, key=lambda job: len(found[job["id"]])), decided, missed)

    def _closed(self, inputs: Inputs, found: Domain, missed: Fraction) -> dict[str, Any] | None:
        if self.share is not None and self.total - missed <= (Fraction(self.share) + Fraction(1, 10**9)) * self.total:
            return {"closed": "weight"}
        for job in inputs["jobs"]:
            if binds(job, inputs) and not found[job["id"]]:
                return {"closed": "impossible", "id": job["id"]}
        end = brute.horizon(inputs)
        for resource in inputs["capacity"]:
            for low in range(end):
                for high in range(low + 1, end + 1):
                    required = sum(forced(inputs, j, found[j["id"]], resource, low, high) for j in inputs["jobs"])
                    if required > sum(amount(inputs["capacity"], resource, at) for at in range(low, high)):
                        span = {"from_ms": low * UNIT_MS, "to_ms": high * UNIT_MS}
                        return {"closed": "interval", "resource": resource, **span}
        return None

    def _decide(self, inputs: Inputs, found: Domain, job: dict[str, Any], decided: list[str], missed: Fraction) -> bool:
        self.nodes.append({"split": "on-time", "id": job["id"]})
        ends = [job[key] for key in ("deadline_ms", "due_ms") if job[key] is not None]
        times = {key: job[key] for key in ("started_ms", "pinned_ms")}
        bound = [{**j, "deadline_ms": min(ends), **times} if j["id"] == job["id"] else j for j in inputs["jobs"]]
        kept = {**inputs, "jobs": bound}
        decided = [*decided, job["id"]]
        return self.grow(kept, domains(kept), decided, missed) and self.grow(
            inputs, found, decided, missed + Fraction(job["weight"])
        )

    def _narrow(self, inputs: Inputs, found: Domain, job: dict[str, Any], decided: list[str], missed: Fraction) -> bool:
        name = job["id"]
        shapes = sorted({at for at, _ in found[name]})
        if len(shapes) > 1:
            self.nodes.append({"split": "shape", "id": name})
            parts = [[o for o in found[name] if o[0] == at] for at in shapes]
        else:
            starts = sorted(segments[0][0] for _, segments in found[name])
            middle = starts[len(starts) // 2]
            self.nodes.append({"split": "start", "id": name, "at_ms": middle * UNIT_MS})
            parts = [
                [o for o in found[name] if o[1][0][0] < middle],
                [o for o in found[name] if o[1][0][0] >= middle],
            ]
        return all(self.grow(inputs, prune(inputs, {**found, name: part}), decided, missed) for part in parts)


def priced_bound(inputs: Inputs, prices: dict[str, list[int]], scale: int, *, hard_only: bool) -> tuple[Fraction, int]:
    """The weight that these prices (per unit of one hour) allow on time, and how many jobs it speaks of.

    With `hard_only` every job with a deadline weighs 1. The bound is a sum of weights of jobs that can be run at all.
    """
    worth = Fraction(0)
    for name, listed in prices.items():
        worth += Fraction(sum(p * amount(inputs["capacity"], name, at) * UNIT_MS for at, p in enumerate(listed)), scale)
    weights: list[Fraction] = []
    count = 0
    for job in inputs["jobs"]:
        ends = [
            job[key] for key in (("deadline_ms",) if hard_only else ("deadline_ms", "due_ms")) if job[key] is not None
        ]
        if not ends:
            continue
        count += 1
        weight = Fraction(1) if hard_only else Fraction(job["weight"])
        alone = [one if one["id"] == job["id"] else {**one, "deadline_ms": None} for one in inputs["jobs"]]
        found = domains(inputs if hard_only else {**inputs, "jobs": alone})[job["id"]]
        costs = [
            sum(
                Fraction(prices[name][unit] * need * UNIT_MS, scale)
                for name, need in job["shapes"][at]["demand"].items()
                for low, high in segments
                for unit in range(max(0, low), high)
                if name in prices and unit < len(prices[name])
            )
            for at, segments in found
            if segments[-1][1] * UNIT_MS <= min(ends)
        ]
        if costs:
            weights.append(weight)
            worth += max(Fraction(0), weight - min(costs))
    reachable = {Fraction(0)}
    for weight in weights:
        reachable |= {one + weight for one in reachable}
    return max((one for one in reachable if one <= worth), default=Fraction(0)), count
