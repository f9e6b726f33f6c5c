"""Says what is false in a plan document, by trying everything; short, and sharing nothing with the checker.

Good for the small problems of `problems.py` and what mutations make of them. A document that makes this raise is
malformed, and so false. Silence means "nothing false found": a true document, or one whose proof is merely too weak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

from verify import brute
from verify.brute import UNIT_MS, Inputs, amount
from verify.documents import EPOCH, without
from verify.trees import binds, domains, priced_bound

Segments = list[tuple[int, int]]
Rule = Callable[[str, Any, Any], bool]
Runs = dict[str, tuple[dict[str, Any], Segments]]
EPSILON = 1e-9


class Untrue(Exception):
    """A claim that is not so."""


def is_false(document: dict[str, Any], inputs: Inputs) -> str | None:
    """The first claim found to be false or malformed; None where there is none.

    Raises:
        Unanswerable: The inputs have times between whole units, which are not tried.
    """
    try:
        _Truth(document, inputs).tell()
    except Untrue as err:
        return str(err)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, AssertionError, LookupError) as err:
        return f"malformed: {err!r}"
    return None


def claim(holds: bool, what: str) -> None:
    """Raise unless it holds."""
    if not holds:
        raise Untrue(what)


def _of_shape(name: str, shape: int) -> Rule:
    """Whether a job runs in one of its shapes; what others do is free."""
    return lambda one, option, placed: one != name or (option is not None and option[0] == shape)


def whole(value: Any, low: int = 0) -> int:
    """An integer."""
    claim(type(value) is int and value >= low, f"{value!r} is no whole number")
    return int(value)


def real(value: Any) -> float:
    """A finite number."""
    claim(type(value) in (int, float) and math.isfinite(value), f"{value!r} is no number")
    return float(value)


def same(one: float, other: float) -> bool:
    """Equal but for rounding."""
    return abs(one - other) <= EPSILON * max(1.0, abs(other))


class _Truth:
    def __init__(self, document: dict[str, Any], inputs: Inputs) -> None:
        self.document, self.inputs = document, inputs
        self.jobs = {job["id"]: job for job in inputs["jobs"]}
        self.hard = [name for name, job in self.jobs.items() if job["deadline_ms"] is not None]
        if not inputs["capacity"]:
            raise brute.Unanswerable("without any capacity")
        self.resource: str = inputs["resource"] or next(iter(inputs["capacity"]))
        self.opened = dict(inputs)
        if inputs["objective"] == "fewest-gpus":
            self.opened["capacity"] = {**inputs["capacity"], self.resource: [[0, brute.INFINITE]]}

    def tell(self) -> None:
        document = self.document
        claim(document["schema"] == "gpuyield/plan/v1alpha1", "schema")
        self.check_inputs()
        claim(self.ms(document["origin"]) == 0, "origin")
        whole(document["seed"])
        claim(document["stopped_because"] in ("proven", "budget", "time"), "stopped_because")
        runs = self.runs()
        self.keeps(runs, self.plan_capacity())
        self.shares(runs)
        for name in set(self.jobs) - set(runs) - set(self.hard):
            if all(before in runs for before in self.jobs[name]["after"]):
                claim(not self.has_room(name, runs), f"{name}: dropped")
        met = all(name in runs for name in self.hard)
        self.objective(runs, met)
        self.gpus(runs)
        self.status(met)
        for at, relaxation in enumerate(document.get("relaxations") or []):
            self.relaxation(relaxation, runs, at)

    def check_inputs(self) -> None:
        claim(len(self.jobs) == len(self.inputs["jobs"]), "ids are not unique")
        brute.horizon(self.inputs)
        claim(self.inputs["schema"] == "gpuyield/plan-inputs/v1alpha1", "inputs schema")
        for job in self.jobs.values():
            claim(Fraction(job["weight"]) >= 0, "weight")
            claim(all(one in self.jobs for one in job["after"]), "after")
            claim(not self.waits_for(job["id"], job["id"], set()), "a circle")
            for shape in job["shapes"]:
                whole(shape["duration_ms"], 1)
                for need in shape["demand"].values():
                    whole(need)
            for key in ("release_ms", "deadline_ms", "due_ms", "restart_ms", "started_ms", "pinned_ms"):
                claim((job[key] is None and key != "release_ms") or type(job[key]) is int, key)
        for steps in self.inputs["capacity"].values():
            claim(all(type(x) is int for step in steps for x in step), "capacity")
            claim(all(a[0] < b[0] for a, b in pairwise(steps)), "capacity order")

    def waits_for(self, name: str, goal: str, seen: set[str]) -> bool:
        fresh = set(self.jobs[name]["after"]) - seen
        return goal in fresh or any(self.waits_for(one, goal, seen | fresh) for one in fresh if one in self.jobs)

    def ms(self, text: str) -> int:
        claim(text.endswith("Z"), "no Z")
        whole_part, _, rest = text[:-1].partition(".")
        since = datetime.fromisoformat(whole_part) - EPOCH
        return (since.days * 86_400 + since.seconds) * 1000 + int((rest + "000")[:3]) - int(self.inputs["origin_ms"])

    def plan_capacity(self) -> dict[str, Any]:
        capacity = dict(self.opened["capacity"])
        value = self.document["objective"]["value"]
        if self.inputs["objective"] == "fewest-gpus" and value is not None:
            capacity[self.resource] = [[-(10**12), whole(value)]]
        return capacity

    def runs(self) -> Runs:
        found: Runs = {}
        names = [entry["id"] for entry in self.document["jobs"]]
        claim(sorted(names) == sorted(self.jobs), "not every job once")
        for entry in self.document["jobs"]:
            name, status = entry["id"], entry["status"]
            job = self.jobs[name]
            claim(status in ("planned", "late", "dropped", "impossible"), "job status")
            deadline = entry["deadline"]
            claim((None if deadline is None else self.ms(deadline)) == job["deadline_ms"], f"{name}: deadline")
            segments = [(self.ms(a), self.ms(b)) for a, b in entry["segments"]]
            claim((status in ("planned", "late")) == bool(segments), f"{name}: segments")
            if not segments:
                claim(entry["slack_s"] is None and entry["late_s"] in (None, 0), f"{name}: times without a run")
                claim(entry["flavor"] in [None, *(s["flavor"] for s in job["shapes"])], f"{name}: flavor")
                claim(entry["gpus"] in [None, *(sum(s["demand"].values()) for s in job["shapes"])], f"{name}: gpus")
                hopeless = brute.hopeless(self.opened, name)
                claim((status == "impossible") == hopeless, f"{name}: impossible or not")
                continue
            shape = self.shape(job, entry["flavor"], whole(entry["gpus"]), segments)
            self.own_times(job, segments)
            end = segments[-1][1]
            late = 0 if job["due_ms"] is None else max(0, end - job["due_ms"])
            claim(same(real(entry["late_s"]) * 1000, late), f"{name}: late_s")
            claim((status == "late") == (late > 0), f"{name}: late or planned")
            if job["deadline_ms"] is not None:
                claim(same(real(entry["slack_s"]) * 1000, job["deadline_ms"] - end), f"{name}: slack_s")
            else:
                claim(entry["slack_s"] is None, f"{name}: slack_s")
            found[name] = (shape, segments)
        return found

    def shape(self, job: dict[str, Any], flavor: Any, gpus: int, segments: Segments) -> dict[str, Any]:
        claim(all(a < b for a, b in segments), "an empty segment")
        claim(all(one[1] <= two[0] for one, two in pairwise(segments)), "segments overlap")
        pauses = (len(segments) - 1) * (job["restart_ms"] or 0)
        claim(len(segments) == 1 or job["restart_ms"] is not None, "paused")
        length = sum(b - a for a, b in segments) - pauses
        fit = [
            s
            for s in job["shapes"]
            if (s["flavor"], sum(s["demand"].values()), s["duration_ms"]) == (flavor, gpus, length)
        ]
        claim(bool(fit), f"{job['id']}: no such shape")
        return dict(fit[0])

    def own_times(self, job: dict[str, Any], segments: Segments) -> None:
        fixed = job["started_ms"] if job["started_ms"] is not None else job["pinned_ms"]
        start, end = segments[0][0], segments[-1][1]
        if fixed is not None:
            claim(start == fixed, f"{job['id']}: moved")
        else:
            claim(start >= max(0, job["release_ms"]), f"{job['id']}: before its release")
        claim(job["deadline_ms"] is None or end <= job["deadline_ms"], f"{job['id']}: after its deadline")

    def keeps(self, runs: Runs, capacity: dict[str, Any], jobs: dict[str, Any] | None = None) -> None:
        for name, (_, segments) in runs.items():
            for before in (jobs or self.jobs)[name]["after"]:
                claim(before in runs and runs[before][1][-1][1] <= segments[0][0], f"{name}: before {before}")
        instants = {0, *(a for _, s in runs.values() for a, _ in s), *(at for c in capacity.values() for at, _ in c)}
        for at in instants:
            if at < 0:
                continue
            for resource in {r for shape, _ in runs.values() for r in shape["demand"]}:
                there = next((have for from_ms, have in reversed(capacity.get(resource, [])) if from_ms <= at), 0)
                claim(self.load(runs, resource, at) <= there, f"too much {resource} at {at}")

    def has_room(self, name: str, runs: Runs) -> bool:
        job = {**self.jobs[name], "restart_ms": None}
        for at, segments in brute.options(job, brute.horizon(self.inputs) + 20):
            spans = [(a * UNIT_MS, b * UNIT_MS) for a, b in segments]
            try:
                self.keeps({**runs, name: (job["shapes"][at], spans)}, self.plan_capacity())
            except Untrue:
                continue
            return True
        return False

    def load(self, runs: Runs, resource: str, at: int) -> int:
        return sum(
            shape["demand"].get(resource, 0)
            for shape, segments in runs.values()
            if any(a <= at < b for a, b in segments)
        )

    def peak(self, runs: Runs, resource: str) -> int:
        instants = {0, *(a for _, s in runs.values() for a, _ in s if a > 0)}
        return max(self.load(runs, resource, at) for at in instants)

    def on_time(self, job: dict[str, Any], runs: Runs) -> bool:
        ends = [job[key] for key in ("deadline_ms", "due_ms") if job[key] is not None]
        return job["id"] in runs and runs[job["id"]][1][-1][1] <= min(ends)

    def share(self, runs: Runs, size: Callable[[dict[str, Any]], Fraction]) -> float:
        timed = [j for j in self.jobs.values() if j["deadline_ms"] is not None or j["due_ms"] is not None]
        total = sum((size(job) for job in timed), start=Fraction(0))
        met = sum((size(job) for job in timed if self.on_time(job, runs)), start=Fraction(0))
        return float(met / total) if total else 1.0

    def shares(self, runs: Runs) -> None:
        def gpu_time(job: dict[str, Any]) -> Fraction:
            shapes = [runs[job["id"]][0]] if job["id"] in runs else job["shapes"]
            return Fraction(min(sum(s["demand"].values()) * s["duration_ms"] for s in shapes))

        stated = self.document["on_time"]
        self.weighted = self.share(runs, lambda job: Fraction(job["weight"]))
        claim(same(real(stated["weighted"]), self.weighted), "on_time.weighted")
        claim(same(real(stated["jobs"]), self.share(runs, lambda job: Fraction(1))), "on_time.jobs")
        claim(same(real(stated["gpu_time"]), self.share(runs, gpu_time)), "on_time.gpu_time")

    def objective(self, runs: Runs, met: bool) -> None:
        objective = self.document["objective"]
        name, value, bound = objective["name"], objective["value"], objective["bound"]
        claim(name == self.inputs["objective"], "objective.name")
        least = brute.fewest(self.inputs, self.resource) if name == "fewest-gpus" else None
        soonest = brute.soonest(self.inputs) if name == "makespan" else None
        if name == "on-time":
            claim(same(real(value), self.weighted), "objective.value")
        elif name == "makespan":
            last = max((s[-1][1] for _, s in runs.values()), default=0)
            claim(same(real(value) * 1000, last), "objective.value")
        elif value is not None:
            claim(met and len(runs) == len(self.jobs) and self.peak(runs, self.resource) == value, "objective.value")
        else:
            claim(not met, "objective.value")
        if bound is None:
            claim(objective["gap"] is None, "objective.gap")
            return
        if name == "on-time":
            claim(0 <= real(bound) <= 1 and bound >= value - EPSILON, "objective.bound")
            claim(bound >= float(brute.facts(self.opened).best_share) - EPSILON, "objective.bound is beaten")
        elif name == "makespan":
            claim(soonest is None or real(bound) * 1000 <= soonest[0] * UNIT_MS, "objective.bound is beaten")
            claim(real(bound) <= value, "objective.bound above value")
        else:
            claim(least is None or whole(bound) <= least[0], "objective.bound is beaten")
        if value is not None:
            most = max(abs(value), abs(bound))
            claim(same(real(objective["gap"]), abs(value - bound) / most if most else 0.0), "objective.gap")
        certificate = self.document["certificate"] if self.document["status"] == "optimal" else None
        listed = [b["certificate"] for b in self.document.get("bounds") or [] if b["claim"] == "objective.bound"]
        for one in [*listed, *([] if certificate is None else [certificate])]:
            self.bound_certificate(one, name, bound, met)

    def bound_certificate(self, certificate: dict[str, Any], name: str, bound: float, met: bool) -> None:
        if name == "on-time":
            Certificate(self.opened, share=bound, must_meet=met).check(certificate)
        elif name == "fewest-gpus":
            self.amount_certificate(certificate, self.resource, int(bound))
        else:
            last = round(bound * 1000) - 1
            jobs = [{**job, "deadline_ms": min(last, job["deadline_ms"] or last)} for job in self.inputs["jobs"]]
            Certificate({**self.inputs, "jobs": jobs}).check(certificate)

    def amount_certificate(self, certificate: dict[str, Any], resource: str, bound: int) -> None:
        fewer = {**self.inputs["capacity"], resource: [[-(10**6) * UNIT_MS, bound - 1]]}
        plenty = {**fewer, resource: [[-(10**6) * UNIT_MS, brute.INFINITE]]}
        looser = {**self.inputs, "capacity": plenty}
        Certificate({**self.inputs, "capacity": fewer}, printed=self.inputs, looser=looser).check(certificate)

    def gpus(self, runs: Runs) -> None:
        known = {"objective.bound"}
        document_witness = self.document.get("witness")
        for resource, entry in self.document["gpus"].items():
            claim(resource in self.inputs["capacity"], "no such resource")
            there = next((have for at, have in reversed(self.inputs["capacity"][resource]) if at <= 0), 0)
            claim(whole(entry["available"]) == there, "available")
            needed, lower = entry.get("needed"), entry.get("lower_bound")
            least = brute.fewest(self.inputs, resource)
            if lower is not None:
                known.add(f"gpus.{resource}.lower_bound")
                claim(least is None or whole(lower) <= least[0], "lower_bound is beaten")
                for bound in self.document.get("bounds") or []:
                    if bound["claim"] == f"gpus.{resource}.lower_bound":
                        self.amount_certificate(bound["certificate"], resource, lower)
            if needed is not None:
                shown = (document_witness or {}).get("needed") is not None or self.peak(runs, resource) <= needed
                claim(not shown or (least is not None and whole(needed) >= least[0]), "needed is too few")
                claim(lower is None or lower <= needed, "needed below lower_bound")
                claim(all(entry["status"] != "impossible" for entry in self.document["jobs"]), "needed, and impossible")
                if resource == self.resource and self.inputs["objective"] == "fewest-gpus":
                    claim(needed == self.document["objective"]["value"], "needed is not the value")
                self.needed(needed, resource, runs)
        claims = {bound["claim"] for bound in self.document.get("bounds") or []}
        claim(claims <= known, "a bound behind nothing")

    def needed(self, needed: int, resource: str, runs: Runs) -> None:
        stated = (self.document.get("witness") or {}).get("needed")
        if stated is not None and len(self.document["gpus"]) > 1:
            stated = stated.get(resource)
        capacity = {**self.inputs["capacity"], resource: [[-(10**12), needed]]}
        peaks = [self.peak(runs, resource)] if len(runs) == len(self.jobs) else []
        if stated is not None:
            witnessed = self.witnessed(runs, stated, self.jobs)
            self.replay(witnessed, capacity, self.jobs)
            peaks.append(self.peak(witnessed, resource))
        claim(not peaks or min(peaks) >= needed, "fewer are shown")

    def witnessed(self, runs: Runs, stated: dict[str, Any], jobs: dict[str, Any]) -> Runs:
        found = {name: run for name, run in runs.items() if name in jobs}
        for name, entry in stated.items():
            job = jobs[name]
            if isinstance(entry, dict):
                segments = [(self.ms(a), self.ms(b)) for a, b in entry["segments"]]
                shape = self.shape(job, entry["flavor"], whole(entry["gpus"]), segments)
            else:
                claim(name in runs or len(job["shapes"]) == 1, "a witness without a shape")
                shape = runs[name][0] if name in runs else job["shapes"][0]
                start = self.ms(entry)
                segments = [(start, start + shape["duration_ms"])]
            found[name] = (shape, segments)
        return found

    def replay(self, runs: Runs, capacity: dict[str, Any], jobs: dict[str, Any]) -> None:
        claim(set(runs) == set(jobs), "a witness without a job")
        for name, (_, segments) in runs.items():
            self.own_times(jobs[name], segments)
        self.keeps(runs, capacity, jobs)

    def status(self, met: bool) -> None:
        status, certificate = self.document["status"], self.document["certificate"]
        objective, stopped = self.document["objective"], self.document["stopped_because"]
        closed = objective["value"] is not None and objective["bound"] is not None
        closed = closed and same(real(objective["value"]), real(objective["bound"]))
        if status in ("feasible", "optimal"):
            claim(met, "status: not all are met")
            claim(status == "feasible" or closed, "status: not optimal")
            claim(stopped != "proven" or closed, "nothing is proven")
            claim(certificate is None or status == "optimal", "certificate of a feasible plan")
            return
        claim(status in ("infeasible", "unknown"), "status")
        claim(not met, "status: all are met")
        if status == "infeasible":
            Certificate(self.opened, printed=self.inputs).check(certificate)
        else:
            claim(certificate is None and stopped != "proven", "unknown, with a proof")
            hopeless = [e["id"] for e in self.document["jobs"] if e["status"] == "impossible"]
            claim(not any(name in self.hard for name in hopeless), "unknown, and a job is impossible")
            for resource, entry in self.document["gpus"].items():
                steps = self.inputs["capacity"][resource]
                lowest = min(have for _, have in steps) if steps and steps[0][0] <= 0 else 0
                needed = entry.get("needed")
                claim(needed is None or needed > lowest, "unknown, and a plan is known")

    def relaxation(self, stated: dict[str, Any], runs: Runs, at: int) -> None:
        eased = self.eased(stated, 0)
        claim(stated["kind"] in ("add-gpus", "move-deadline", "drop"), "relaxation kind")
        jobs = {job["id"]: job for job in eased["jobs"]}
        # Without a witness it is shown by nothing: the contract has it listed as not re-checked.
        if stated.get("witness") is not None:
            self.replay(self.witnessed(runs, stated["witness"], jobs), eased["capacity"], jobs)
            claim(self.possible(eased), f"relaxation {at} does not suffice")
        if stated.get("irreducible") is None:
            return
        claim(stated["irreducible"] is True, "irreducible")
        proofs = stated["certificates"] if "certificates" in stated else [stated["certificate"]]
        steps = len(stated["jobs"]) if stated["kind"] != "add-gpus" else 1
        for step in range(1, steps + 1):
            smaller = self.eased(stated, step)
            claim(not self.possible(smaller), f"relaxation {at} is reducible")
            claim(any(self.proves(one, smaller) for one in proofs), f"relaxation {at} has no proof")

    def proves(self, certificate: dict[str, Any], inputs: Inputs) -> bool:
        try:
            Certificate(inputs, printed=self.inputs).check(certificate)
        except Untrue:
            return False
        return True

    def possible(self, inputs: Inputs) -> bool:
        floor = {
            **inputs,
            "jobs": [
                {**job, "deadline_ms": None if job["deadline_ms"] is None else job["deadline_ms"] // UNIT_MS * UNIT_MS}
                for job in inputs["jobs"]
            ],
        }
        return brute.solve(floor) is not None

    def eased(self, stated: dict[str, Any], less: int) -> Inputs:
        """The inputs after the relaxation; `less` = n makes its n-th part smaller by one."""
        if stated["kind"] == "drop":
            names = [name for at, name in enumerate(stated["jobs"], 1) if at != less]
            claim(len(stated["jobs"]) == len(set(stated["jobs"])) > 0, "drop")
            claim(set(stated["jobs"]) <= set(self.jobs), "drop of no job")
            return without(self.opened, set(names))
        if stated["kind"] == "move-deadline":
            moved = {entry["id"]: round(real(entry["by_s"]) * 1000) for entry in stated["jobs"]}
            claim(all(by > 0 for by in moved.values()) and len(moved) == len(stated["jobs"]) > 0, "move")
            claim(set(moved) <= set(self.hard), "move of no deadline")
            if less:
                moved[stated["jobs"][less - 1]["id"]] -= 1
            jobs = [
                {**job, "deadline_ms": job["deadline_ms"] + moved[job["id"]]} if job["id"] in moved else job
                for job in self.inputs["jobs"]
            ]
            return {**self.opened, "jobs": jobs}
        low, high = self.ms(stated["from"]), self.ms(stated["to"])
        more, resource = whole(stated["amount"], 1) - less, stated["resource"]
        claim(low < high and isinstance(resource, str), "add-gpus")
        capacity = self.opened["capacity"].get(resource, [])
        cuts = sorted({low, high, *(at for at, _ in capacity)})
        steps = []
        for cut in cuts:
            have = next((a for at, a in reversed(capacity) if at <= cut), 0)
            steps.append([cut, have + (more if low <= cut < high else 0)])
        return {**self.opened, "capacity": {**self.opened["capacity"], resource: steps}}


class Certificate:
    """Whether a certificate is true: its figures, and that it rules out what it says."""

    def __init__(
        self,
        inputs: Inputs,
        *,
        printed: Inputs | None = None,
        looser: Inputs | None = None,
        share: float | None = None,
        must_meet: bool = True,
    ) -> None:
        self.inputs, self.printed = inputs, printed or inputs
        self.jobs = {job["id"]: job for job in inputs["jobs"]}
        self.share, self.must_meet = share, must_meet
        self.looser = looser or self.inputs

    def check(self, stated: dict[str, Any]) -> None:
        """Raise `Untrue` where it is not true."""
        kinds = {"interval": self.spans, "cut": self.spans, "wide-gangs": self.wide, "impossible": self.impossible}
        if stated["kind"] in ("search", "prices"):
            {"search": self.search, "prices": self.prices}[stated["kind"]](stated)
            return
        claim(self.share is None, "says nothing of weight")
        kinds[stated["kind"]](stated)

    def alone(self, name: str) -> list[Any]:
        """All runs of a job that keep deadlines and order, whatever the load."""
        return domains(self.inputs)[name] or domains(self.looser)[name]

    def least_ms(self, name: str, spans: Segments) -> int:
        return min((self.within(segments, spans) for _, segments in self.alone(name)), default=0)

    def within(self, segments: Any, spans: Segments) -> int:
        return sum(max(0, min(high, b * UNIT_MS) - max(low, a * UNIT_MS)) for low, high in spans for a, b in segments)

    def spans(self, stated: dict[str, Any]) -> None:
        spans = [(stated["from_ms"], stated["to_ms"])] if stated["kind"] == "interval" else stated["windows"]
        spans = [(whole(a), whole(b)) for a, b in spans]
        claim(all(a < b for a, b in spans) and all(a[1] <= b[0] for a, b in pairwise(spans)) and bool(spans), "spans")
        names = [entry["id"] for entry in stated["jobs"]]
        claim(len(names) == len(set(names)) and set(names) <= set(self.jobs), "interval jobs")
        total, resource = 0, stated["resource"]
        for entry in stated["jobs"]:
            job, part = self.jobs[entry["id"]], whole(entry["forced_gpu_ms"])
            most = 0
            for one in (self.inputs, self.looser):
                runs = domains(one)[entry["id"]] if binds(job, self.inputs) else []
                parts = [job["shapes"][at]["demand"].get(resource, 0) * self.within(s, spans) for at, s in runs]
                most = max(most, min(parts, default=0))
            claim(part <= most, "forced_gpu_ms")
            total += part
        length = sum(b - a for a, b in spans)
        held, printed = (self.held(one, resource, spans) for one in (self.inputs, self.printed))
        claim(whole(stated["required_gpu_ms"]) == total and total > held, "required_gpu_ms")
        claim(whole(stated["capacity_gpu_ms"]) in (held, printed), "capacity_gpu_ms")
        lacking = total - stated["capacity_gpu_ms"]
        claim(whole(stated["extra_gpus"]) == max(0, math.ceil(Fraction(lacking, length))), "extra_gpus")

    def held(self, inputs: Inputs, resource: str, spans: Segments) -> int:
        total, steps = 0, inputs["capacity"].get(resource, [])
        for (from_ms, have), (until, _) in pairwise([*steps, [10**15, 0]]):
            total += sum(have * max(0, min(until, b) - max(from_ms, a)) for a, b in spans)
        return total

    def wide(self, stated: dict[str, Any]) -> None:
        span = (whole(stated["from_ms"]), whole(stated["to_ms"]))
        names = [entry["id"] for entry in stated["jobs"]]
        claim(span[0] < span[1] and len(names) == len(set(names)) > 1, "wide-gangs")
        resource = stated["resource"]
        claim(set(names) <= set(self.jobs), "wide-gangs of no job")
        usable = {name: {at for at, _ in self.alone(name)} for name in names}
        claim(all(usable.values()) and all(binds(self.jobs[name], self.inputs) for name in names), "they need not run")
        needs = sorted(
            min(self.jobs[name]["shapes"][at]["demand"].get(resource, 0) for at in usable[name]) for name in names
        )
        there = max(amount(self.inputs["capacity"], resource, at) for at in range(brute.horizon(self.inputs)))
        claim(needs[0] + needs[1] > there, "two fit")
        claim(sum(self.least_ms(name, [span]) for name in names) > span[1] - span[0], "they fit in turn")

    def impossible(self, stated: dict[str, Any]) -> None:
        names = [entry["id"] for entry in stated["jobs"]]
        claim(len(names) == len(set(names)) > 0 and set(names) <= set(self.jobs), "impossible jobs")
        for entry in stated["jobs"]:
            job = self.jobs[entry["id"]]
            claim(brute.hopeless(self.inputs, entry["id"]), "it is possible")
            fixed = job["started_ms"] if job["started_ms"] is not None else job["pinned_ms"]
            start = max(0, job["release_ms"]) if fixed is None else fixed
            need, have, shapes = real(entry["need"]), real(entry["have"]), job["shapes"]
            claim(need > have, "need and have")
            reason = entry["reason"]
            if reason == "too-long":
                claim(need * 1000 in [s["duration_ms"] for s in shapes], "need")
                claim(have * 1000 == max(0, job["deadline_ms"] - start), "have")
            elif reason == "too-wide":
                claim(need in [n for s in shapes for n in s["demand"].values()], "need")
                bare = {**job, "after": []}
                claim(brute.hopeless({**self.inputs, "jobs": [bare]}, job["id"]), "not too wide")
                if len(shapes) == 1:
                    claim(have == self.most(bare, int(need)), "have")
            elif reason == "chain":
                claim(bool(job["after"]) and have * 1000 == job["deadline_ms"], "have")
                loose = {name: {**one, "deadline_ms": None} for name, one in self.jobs.items()}
                right = []
                for jobs in (self.jobs, loose):
                    ends = [brute.earliest_end(self.inputs, jobs, one, alone=False) for one in job["after"]]
                    known = max([start, *(end * UNIT_MS for end in ends if end is not None)])
                    right += [known + s["duration_ms"] for s in shapes]
                claim(need * 1000 in right, "need")
            else:
                raise Untrue("reason")

    def most(self, job: dict[str, Any], need: int) -> int:
        ((resource, _),) = job["shapes"][0]["demand"].items()
        for have in range(need - 1, 0, -1):
            smaller = {**job, "shapes": [{**job["shapes"][0], "demand": {resource: have}}]}
            if not brute.hopeless({**self.inputs, "jobs": [smaller]}, job["id"]):
                return have
        return 0

    def search(self, stated: dict[str, Any]) -> None:
        grid, nodes = stated.get("grid_ms", 1), list(stated["branches"])
        whole(grid, 1)
        times = [t for job in self.jobs.values() for t in (job["release_ms"], job["started_ms"], job["pinned_ms"])]
        times += [shape["duration_ms"] for job in self.jobs.values() for shape in job["shapes"]]
        times += [at for steps in self.inputs["capacity"].values() for at, _ in steps if at > 0]
        claim(all(not time or time % grid == 0 for time in times), "grid_ms")
        self.replay(nodes, [])
        claim(not nodes, "nodes left over")

    def replay(self, nodes: list[dict[str, Any]], rules: list[Rule]) -> None:
        claim(bool(nodes), "an open branch")
        node = nodes.pop(0)
        if "closed" in node:
            claim(node["closed"] in ("interval", "cut", "wide-gangs", "impossible", "weight"), "closed")
            claim(not self.has_plan(rules), "a branch is closed that holds a plan")
            return
        split = node["split"]
        if split == "order":
            for rule in self.orders(node["first"], node["second"], rules):
                self.replay(nodes, [*rules, rule])
            return
        name = node["id"]
        claim(name in self.jobs, "no such job")
        for rule in self.parts(split, name, node):
            self.replay(nodes, [*rules, rule])

    def orders(self, one: str, two: str, rules: list[Rule]) -> list[Rule]:
        jobs = [self.jobs[one], self.jobs[two]]
        claim(one != two and all(job["restart_ms"] is None for job in jobs), "order")
        for first in (o for o in self.alone(one) if all(rule(one, o, {}) for rule in rules)):
            for second in (o for o in self.alone(two) if all(rule(two, o, {}) for rule in rules)):
                claim(self.clash(jobs[0], first[0], jobs[1], second[0]), "they may run at once")

        def before(first: str, second: str) -> Rule:
            def rule(name: str, option: Any, placed: Any) -> bool:
                both = {**placed, name: option}
                if option is None or first not in both or second not in both:
                    return True
                return bool(both[first][1][-1][1] <= both[second][1][0][0])

            return rule

        return [before(one, two), before(two, one)]

    def clash(self, one: dict[str, Any], at: int, two: dict[str, Any], other: int) -> bool:
        first, second = one["shapes"][at]["demand"], two["shapes"][other]["demand"]
        end = brute.horizon(self.inputs)
        return any(
            need + second.get(name, 0) > max(amount(self.inputs["capacity"], name, unit) for unit in range(end))
            for name, need in first.items()
        )

    def parts(self, split: str, name: str, node: dict[str, Any]) -> list[Rule]:
        if split == "start":
            at = whole(node["at_ms"], -(10**15))
            return [
                lambda one, o, placed: one != name or (o is not None and o[1][0][0] * UNIT_MS < at),
                lambda one, o, placed: one != name or (o is not None and o[1][0][0] * UNIT_MS >= at),
            ]
        if split == "shape":
            shapes = sorted({at for at, _ in self.alone(name)})
            return [_of_shape(name, at) for at in shapes]
        claim(split == "on-time" and self.share is not None, "split")
        job = self.jobs[name]
        ends = [job[key] for key in ("deadline_ms", "due_ms") if job[key] is not None]

        def kept(one: str, option: Any, placed: Any) -> bool:
            return one != name or (option is not None and option[1][-1][1] * UNIT_MS <= min(ends))

        return [kept, lambda one, o, placed: one != name or not kept(one, o, placed)]

    def has_plan(self, rules: list[Rule]) -> bool:
        def allowed(name: str, option: Any, placed: Any) -> bool:
            return all(rule(name, option, placed) for rule in rules)

        floor = [
            {**j, "deadline_ms": None if j["deadline_ms"] is None else j["deadline_ms"] // UNIT_MS * UNIT_MS}
            for j in self.inputs["jobs"]
        ]
        inputs = {**self.inputs, "jobs": floor}
        if self.share is None:
            return brute.solve(inputs, allowed=allowed) is not None
        may_drop = not self.must_meet
        plan = brute.solve(
            inputs, allowed=allowed, may_drop=may_drop, worth=lambda plan: brute.on_time_weight(self.inputs, plan)
        )
        if plan is None:
            return False
        total = brute.timed_weight(self.inputs)
        return brute.on_time_weight(self.inputs, plan) > Fraction(self.share) * total + Fraction(1, 10**8)

    def prices(self, stated: dict[str, Any]) -> None:
        bucket, scale = whole(stated["bucket_ms"], 1), whole(stated["scale"], 1)
        prices = {name: [whole(price) for price in listed] for name, listed in stated["prices"].items()}
        if bucket != UNIT_MS:
            raise brute.Unanswerable("buckets other than one unit")
        best, jobs = priced_bound(self.inputs, prices, scale, hard_only=self.share is None)
        claim(Fraction(stated["bound"]) >= best, "bound")
        if self.share is None:
            claim(Fraction(stated["bound"]) < jobs, "bound proves nothing")
        else:
            total = brute.timed_weight(self.inputs)
            claim(Fraction(stated["bound"]) <= Fraction(self.share) * total + Fraction(1, 10**8), "bound is too weak")
