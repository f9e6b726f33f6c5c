"""Check a measure document: its bounds, statuses and rates are worked out again from integer counts per batch.

What is vouched for: counts, attainment with its bounds, backlog, the status of each probe, what is certified and
refuted at which confidence, how far the load is from the recorded one. Not for: the raw records behind the counts,
quantiles, the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .batches import Bounds, Counts, attainment_bounds, backlog_grows, backlog_slope, is_behind
from .likeness import check_likeness
from .report import Findings, NotRechecked, Refused
from .values import check_near, choice, decimal, field, items, record, text, whole

MEASURE_INPUTS = "gpuyield/measure-inputs/v1alpha1"
PHASES = ("ceiling", "search", "confirm", "refute")
LEVELS = ("quick", "standard", "strict")
MOST_PROBES, MOST_BATCHES, MOST_REQUESTS = 1_000, 10_000, 10**8
MOST_INVALID = 3
_SECOND_NS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe of the inputs, and what follows from its counts."""

    phase: str
    rate: Fraction
    is_valid: bool
    stated: dict[str, Any]
    counts: Mapping[str, Counts]
    bounds: Mapping[str, Bounds]
    in_flight: tuple[int, ...]
    grows: bool
    behind: bool
    broken: bool
    holds: bool

    @property
    def status(self) -> str:
        """What the counts say."""
        if not self.is_valid:
            return "invalid"
        if self.phase == "ceiling":
            return "undecided"
        if self.broken or self.grows or self.behind:
            return "fail"
        return "pass" if self.holds else "undecided"


def check_measure(document: dict[str, Any], inputs: Any, findings: Findings) -> None:
    """Fill in the findings for a measure document; the digest is checked already."""
    stated = record(inputs, "inputs")
    if stated.get("schema") != MEASURE_INPUTS:
        raise Refused(f"inputs.schema is not {MEASURE_INPUTS}.")
    judge = _Judge(document, stated, findings)
    judge.check()


class _Judge:
    """The document, the inputs, and the probes as they follow from the inputs."""

    def __init__(self, document: dict[str, Any], inputs: dict[str, Any], findings: Findings) -> None:
        self.document, self.inputs, self.findings = document, inputs, findings
        self.level = choice(field(inputs, "level", "inputs"), "inputs.level", LEVELS)
        self.alpha = _share(field(inputs, "alpha", "inputs"), "inputs.alpha", high=Fraction(1, 2))
        self.tries = [_share(one, "inputs.tries") for one in items(field(inputs, "tries", "inputs"), "inputs.tries")]
        self.refutes = whole(field(inputs, "refutes", "inputs"), "inputs.refutes", low=0, high=100)
        if sum(self.tries) > 1:
            raise Refused("inputs.tries share out more than all of alpha.")
        self.allowed = self._allowed()
        self.probes = self._probes()

    def check(self) -> None:
        """All of it."""
        with self.findings.claim("level"):
            if self.document.get("level") != self.level or self.document.get("service") != self.inputs.get("service"):
                raise Refused("Level or service is not that of the inputs.")
        with self.findings.claim("objectives"):
            self._check_objectives()
        with self.findings.claim("config.digest"):
            config = record(field(self.document, "config", "the document"), "config")
            if config.get("digest") != self.inputs.get("config_digest"):
                raise Refused("It is not that of the inputs.")
        if {"load", "profiles"} <= self.inputs.keys():
            with self.findings.claim("load"):
                if self.document.get("load") != self.inputs["load"]:
                    raise Refused("It is not that of the inputs.")
            with self.findings.claim("representative"):
                check_likeness(self.document, self.inputs["profiles"])
        else:
            self.findings.skip("load, representative", "Inputs of an older version do not hold them.")
        stated = items(field(self.document, "probes", "the document"), "probes")
        if len(stated) != len(self.probes):
            self.findings.refuse("probes", "There are more or fewer than in the inputs.")
            return
        for at, (one, probe) in enumerate(zip(stated, self.probes, strict=True)):
            with self.findings.claim(f"probes[{at}]"):
                self._check_probe(record(one, f"probes[{at}]"), probe)
        result = record(field(self.document, "result", "the document"), "result")
        with self.findings.claim("result.certified_rps"):
            self._check_rate(result, "certified_rps", self._certified())
        with self.findings.claim("result.refuted_rps"):
            self._check_rate(result, "refuted_rps", self._refuted())
        with self.findings.claim("result.confidence"):
            check_near(result, "confidence", float(1 - self.alpha), "result")
        with self.findings.claim("result.certified_rps_per_gpu"):
            self._check_per_gpu(result)
        self.findings.skip("result.estimate_rps, result.limited_by, result.stopped_because", "What a belief says.")
        self.findings.skip("quantiles, goodput, sender, config", "They rest on the raw records and on the service.")

    def _allowed(self) -> dict[str, Fraction]:
        found: dict[str, Fraction] = {}
        for entry in items(field(self.inputs, "objectives", "inputs"), "inputs.objectives"):
            one = record(entry, "an objective")
            name = text(field(one, "name", "an objective"), "objective.name")
            found[name] = 1 - _share(field(one, "share", "an objective"), "objective.share")
        if not found or len(found) != len(self.inputs["objectives"]):
            raise Refused("inputs.objectives are none, or two have the same name.")
        return found

    def _probes(self) -> list[Probe]:
        listed = items(field(self.inputs, "probes", "inputs"), "inputs.probes")
        if len(listed) > MOST_PROBES:
            raise NotRechecked("There are too many probes.")
        found: list[Probe] = []
        for at, entry in enumerate(listed):
            confirmed = sum(1 for one in found if one.is_valid and one.phase == "confirm")
            refuted = sum(1 for one in found if one.is_valid and one.phase == "refute")
            found.append(self._probe(record(entry, f"inputs.probes[{at}]"), at, confirmed, refuted))
        if sum(1 for one in found if not one.is_valid) > MOST_INVALID:
            # A probe that failed could be called invalid and tried again without end.
            raise Refused(f"More than {MOST_INVALID} probes are invalid.")
        return found

    def _probe(self, stated: dict[str, Any], at: int, confirmed: int, refuted: int) -> Probe:
        where = f"inputs.probes[{at}]"
        phase = choice(field(stated, "phase", where), f"{where}.phase", PHASES)
        is_valid = field(stated, "valid", where)
        if type(is_valid) is not bool:
            raise Refused(f"{where}.valid is neither true nor false.")
        keep, break_ = self._alphas(phase, is_valid, confirmed, refuted, where)
        listed = record(field(stated, "attainment", where), f"{where}.attainment")
        if set(listed) != set(self.allowed):
            raise Refused(f"{where}.attainment is not of the objectives.")
        counts = {name: _counts(listed[name], f"{where}.attainment.{name[:60]}") for name in self.allowed}
        bounds = {name: attainment_bounds(counts[name], keep=keep, break_=break_) for name in self.allowed}
        in_flight = tuple(
            whole(one, f"{where}.in_flight", low=-MOST_REQUESTS, high=MOST_REQUESTS)
            for one in _short(field(stated, "in_flight", where), f"{where}.in_flight")
        )
        if any(len(one.attempts) != len(in_flight) - 1 for one in counts.values()):
            raise Refused(f"{where}.in_flight is not at the edges of the batches.")
        arrived = whole(field(stated, "late_arrivals", where), f"{where}.late_arrivals", low=0, high=MOST_REQUESTS)
        completed = whole(
            field(stated, "late_completions", where), f"{where}.late_completions", low=0, high=MOST_REQUESTS
        )
        return Probe(
            phase=phase,
            rate=_rate(field(stated, "rate_rps", where), f"{where}.rate_rps"),
            is_valid=is_valid,
            stated=stated,
            counts=counts,
            bounds=bounds,
            in_flight=in_flight,
            grows=backlog_grows(in_flight),
            behind=is_behind(in_flight, arrived, completed),
            broken=any(bounds[name].lo > self.allowed[name] for name in self.allowed),
            holds=all(bounds[name].hi <= self.allowed[name] for name in self.allowed),
        )

    def _alphas(self, phase: str, is_valid: bool, confirmed: int, refuted: int, where: str) -> tuple[float, float]:
        """What a false pass and a false refutation of a probe may cost, shared by the objectives."""
        keep = break_ = self.alpha
        if phase == "confirm" and is_valid:
            if self.level == "quick" or confirmed >= len(self.tries):
                raise Refused(f"{where} is one confirmation more than alpha was set aside for.")
            keep = self.alpha * self.tries[confirmed]
        if phase == "refute" and is_valid:
            if refuted >= self.refutes:
                raise Refused(f"{where} is one refutation more than alpha was set aside for.")
            break_ = self.alpha / self.refutes
        elif phase == "refute":
            break_ = self.alpha / max(1, self.refutes)
        if phase == "confirm" and not is_valid and confirmed < len(self.tries):
            keep = self.alpha * self.tries[confirmed]
        return float(keep / len(self.allowed)), float(break_ / len(self.allowed))

    def _check_objectives(self) -> None:
        listed = items(field(self.document, "objectives", "the document"), "objectives")
        known = {one["name"]: one for one in self.inputs["objectives"]}
        if [record(one, "an objective").get("name") for one in listed] != list(known):
            raise Refused("They are not those of the inputs.")
        for one in listed:
            right = known[one["name"]]
            if one.get("metric") != right.get("metric") or one.get("check") != right.get("check"):
                raise Refused(f'"{str(one["name"])[:60]}" looks at something else than in the inputs.')
            check_near(one, "share", float(decimal(right["share"], "share")), "an objective")
            limit = right.get("at_most_us")
            if limit is not None:
                check_near(one, "at_most_s", whole(limit, "at_most_us", low=0) / 1e6, "an objective")
            elif one.get("at_most_s") is not None:
                raise Refused("A limit is stated that the inputs do not have.")

    def _check_probe(self, stated: dict[str, Any], probe: Probe) -> None:
        if stated.get("phase") != probe.phase or stated.get("seed") != probe.stated.get("seed"):
            raise Refused("Phase or seed is not that of the inputs.")
        check_near(stated, "rate_rps", float(probe.rate), "a probe")
        for name in ("requests", "completed", "failed"):
            right = whole(field(probe.stated, name, "a probe"), name, low=0, high=MOST_REQUESTS)
            if field(stated, name, "a probe") != right:
                raise Refused(f"{name} is not {right}.")
        if any(sum(one.attempts) != probe.stated["requests"] for one in probe.counts.values()):
            raise Refused("The batches do not add up to its requests.")
        if probe.stated["completed"] + probe.stated["failed"] > probe.stated["requests"]:
            raise Refused("More ended than were sent.")
        if stated.get("status") != probe.status:
            raise Refused(f"status is not {probe.status}.")
        backlog = record(field(stated, "backlog", "a probe"), "backlog")
        batch_s = whole(field(probe.stated, "batch_ns", "a probe"), "batch_ns", low=1, high=10**18) / _SECOND_NS
        if backlog.get("grows") is not probe.grows:
            raise Refused("backlog.grows is not what the counts say.")
        check_near(backlog, "slope", backlog_slope(probe.in_flight) / batch_s, "backlog")
        attained = record(field(stated, "attainment", "a probe"), "attainment")
        if probe.phase != "ceiling" and set(attained) != set(probe.bounds):
            raise Refused("attainment is not of the objectives.")
        for name, entry in attained.items():
            if name not in probe.bounds:
                raise Refused("attainment names another objective.")
            _check_attainment(record(entry, "attainment"), probe.counts[name], probe.bounds[name])

    def _certified(self) -> Fraction | None:
        certified, refuted = self._raw_rates()
        return None if certified is None or (refuted is not None and refuted <= certified) else certified

    def _refuted(self) -> Fraction | None:
        certified, refuted = self._raw_rates()
        return None if refuted is None or (certified is not None and refuted <= certified) else refuted

    def _raw_rates(self) -> tuple[Fraction | None, Fraction | None]:
        passed = [one.rate for one in self.probes if one.phase == "confirm" and one.status == "pass"]
        broken = [
            one.rate
            for one in self.probes
            if one.phase == "refute" and one.is_valid and (one.broken or (one.grows and one.behind))
        ]
        return max(passed, default=None), min(broken, default=None)

    def _check_rate(self, result: dict[str, Any], name: str, right: Fraction | None) -> None:
        stated = field(result, name, "result")
        if right is None:
            if stated is not None:
                raise Refused("It is not null, and no probe shows it.")
        elif stated is None:
            raise Refused(f"It is null, and a probe shows {float(right):g}.")
        else:
            check_near(result, name, float(right), "result")

    def _check_per_gpu(self, result: dict[str, Any]) -> None:
        replicas, each = self.inputs.get("replicas"), self.inputs.get("gpus_per_replica")
        if result.get("replicas") != replicas or result.get("gpus_per_replica") != each:
            raise Refused("replicas or gpus_per_replica are not those of the inputs.")
        certified = self._certified()
        if certified is None or replicas is None or each is None:
            if field(result, "certified_rps_per_gpu", "result") is not None:
                raise Refused("It is not null, and cannot be known.")
            return
        gpus = whole(replicas, "replicas", low=1, high=10**6) * whole(each, "gpus_per_replica", low=1, high=10**6)
        check_near(result, "certified_rps_per_gpu", float(certified / gpus), "result")


def _check_attainment(stated: dict[str, Any], counts: Counts, bounds: Bounds) -> None:
    right = {
        "n": sum(counts.attempts),
        "pending": sum(counts.pending),
        "met": sum(counts.attempts) - sum(counts.misses) - sum(counts.pending),
    }
    for name, value in right.items():
        if field(stated, name, "attainment") != value or type(stated[name]) is not int:
            raise Refused(f"{name} is not {value}.")
    check_near(stated, "lo", 1 - bounds.hi, "attainment")
    check_near(stated, "hi", 1 - bounds.lo, "attainment")
    check_near(stated, "n_eff", bounds.n_eff, "attainment")
    check_near(stated, "inflation", bounds.inflation, "attainment")


def _counts(value: Any, where: str) -> Counts:
    stated = record(value, where)
    columns = {
        name: tuple(
            whole(one, f"{where}.{name}", low=0, high=MOST_REQUESTS)
            for one in _short(field(stated, name, where), f"{where}.{name}")
        )
        for name in ("attempts", "misses", "pending")
    }
    attempts, misses, pending = columns["attempts"], columns["misses"], columns["pending"]
    if not len(attempts) == len(misses) == len(pending) or sum(attempts) > MOST_REQUESTS:
        raise Refused(f"{where} has columns of different length, or too many requests.")
    if any(missed + open_ > tried for tried, missed, open_ in zip(attempts, misses, pending, strict=True)):
        raise Refused(f"{where} has a batch with more misses than attempts.")
    return Counts(attempts=attempts, misses=misses, pending=pending)


def _short(value: Any, where: str) -> list[Any]:
    found = items(value, where)
    if len(found) > MOST_BATCHES:
        raise Refused(f"{where} has more than {MOST_BATCHES} entries.")
    return found


def _share(value: Any, where: str, *, high: Fraction = Fraction(1)) -> Fraction:
    found = decimal(value, where)
    if not 0 < found <= high:
        raise Refused(f"{where} is not above 0 and at most {high}.")
    return found


def _rate(value: Any, where: str) -> Fraction:
    found = decimal(value, where)
    if not 0 < found <= 10**9:
        raise Refused(f"{where} is no rate.")
    return found
