"""How much more one configuration sustains than another, from the counts of two measurements. No I/O here.

Four bounds make the interval of the ratio: what holds of each and what does not. Each gets a quarter of what may be
wrong, and is worked out anew from the counts per batch: the rates that a measurement states were shown with four times
as much. Like those they rest on a rate that holds at all lower ones, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # canonical inputs are JSON

from gpuyield.measure.backlog import backlog_grows, is_behind
from gpuyield.measure.judge import tally_bounds
from gpuyield.model.measure import Backlog, Bounds, Phase

BOUNDS = 4
"""What holds and what does not, of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The highest rate shown to hold, and the lowest shown not to; None where none is."""

    holds_rps: float | None
    breaks_rps: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """Capacity of the second over that of the first; None where nothing bounds it on that side."""

    confidence: float
    lo: float | None
    hi: float | None


def reach_of(inputs: Mapping[str, Any], *, alpha: float) -> Reach:
    """What the counts of a measurement show when each of the two rates may be wrong with a probability of `alpha`.

    Alpha is shared by the tries and the objectives as it was when the probes were planned: their number and length were
    fixed before they ran. A backlog that grows stops a rate from holding, but its test has a level of its own, so that
    alone it breaks none here.
    """
    tries = [float(one) for one in inputs["tries"]]
    allowed = {one["name"]: 1 - float(one["share"]) for one in inputs["objectives"]}
    confirmed = _valid(inputs, Phase.CONFIRM)
    refuted = _valid(inputs, Phase.REFUTE)
    each = alpha / len(allowed)
    holds = [
        float(probe["rate_rps"])
        for share, probe in zip(tries, confirmed, strict=False)
        if all(bounds.hi <= allowed[name] for name, bounds in _bounds(probe, keep=each * share, break_=each).items())
        and not _grows(probe)
    ]
    breaks = [
        float(probe["rate_rps"])
        for probe in refuted[: inputs["refutes"]]
        if any(
            bounds.lo > allowed[name]
            for name, bounds in _bounds(probe, keep=each, break_=each / inputs["refutes"]).items()
        )
    ]
    most, least = max(holds, default=None), min(breaks, default=None)
    if most is not None and least is not None and least <= most:
        # The service changed, or chance struck: neither is claimed.
        return Reach(holds_rps=None, breaks_rps=None)
    return Reach(holds_rps=most, breaks_rps=least)


def ratio_of(first: Reach, second: Reach, *, confidence: float) -> Ratio:
    """The interval of the ratio."""

    def over(top: float | None, bottom: float | None) -> float | None:
        return None if top is None or bottom is None else top / bottom

    return Ratio(
        confidence=confidence,
        lo=over(second.holds_rps, first.breaks_rps),
        hi=over(second.breaks_rps, first.holds_rps),
    )


def ratio_at(first: Mapping[str, Any], second: Mapping[str, Any], *, confidence: float) -> Ratio:
    """The interval of the ratio of two measurements, right with that probability as a whole (Bonferroni)."""
    alpha = (1 - confidence) / BOUNDS
    return ratio_of(reach_of(first, alpha=alpha), reach_of(second, alpha=alpha), confidence=confidence)


def differences(
    first: Mapping[str, Any], second: Mapping[str, Any], *, inputs: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> list[str]:
    """Why two measurements cannot be compared: what of load and objectives is not the same, as sentences."""
    found = []
    if _objectives(inputs[0]) != _objectives(inputs[1]):
        found.append("they were measured against other objectives")
    if first["arrival"] != second["arrival"]:
        found.append(f"requests arrived as {first['arrival']} in the first and as {second['arrival']} in the second")
    loads = first.get("load"), second.get("load")
    if None in loads:
        found.append("one of them does not say which requests it sent (it is of an older version)")
    else:
        ours, theirs = loads
        assert ours is not None
        assert theirs is not None
        if ours["requests_sha256"] != theirs["requests_sha256"]:
            made_up = "made-up" in ours["requests"] and "made-up" in theirs["requests"]
            found.append("other requests were sent" + (" (give both the same --seed)" if made_up else ""))
        if (ours["protocol"], ours["streams"]) != (theirs["protocol"], theirs["streams"]):
            found.append("they were asked in another protocol, or only one of them was asked to stream")
    judge, other = (one.get("judge") or {} for one in (first, second))
    if judge.get("model") != other.get("model"):
        found.append("another model judged their answers")
    elif judge.get("prompt_sha256") != other.get("prompt_sha256"):
        found.append("the model that judged their answers was asked something else")
    return found


def _objectives(inputs: Mapping[str, Any]) -> list[Any]:
    return sorted(inputs["objectives"], key=lambda one: str(one["name"]))


def _valid(inputs: Mapping[str, Any], phase: Phase) -> Sequence[Mapping[str, Any]]:
    return [one for one in inputs["probes"] if one["valid"] and one["phase"] == phase]


def _bounds(probe: Mapping[str, Any], *, keep: float, break_: float) -> Mapping[str, Bounds]:
    return {
        name: tally_bounds(one["attempts"], one["misses"], one["pending"], keep=keep, break_=break_)
        for name, one in probe["attainment"].items()
    }


def _grows(probe: Mapping[str, Any]) -> bool:
    backlog = Backlog(
        in_flight=tuple(probe["in_flight"]),
        slope=0.0,
        grows=backlog_grows(probe["in_flight"]),
        late_arrivals=probe["late_arrivals"],
        late_completions=probe["late_completions"],
    )
    return backlog.grows or is_behind(backlog)
