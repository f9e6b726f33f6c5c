"""The answer of `gpuyield measure`: what would be sent, each probe in a line, and the rate that is certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Documents are JSON.

from gpuyield.model.document import schema_name
from gpuyield.model.measure import Phase, Probe, ProbeStatus
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Kind, Table
from gpuyield.units import format_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What would be sent. `expected_s` is how long it most often takes when a response takes `e2e_s`."""

    url: str
    model: str
    tls: bool
    objectives: Sequence[str]
    level: str
    max_rps: float
    arrivals: str
    requests: str
    expected_s: float
    e2e_s: float
    max_duration_s: float | None


def announcement(what: Announcement) -> tuple[str, ...]:
    """Target, rates and length, before anything is sent."""
    model = f", model {what.model}" if what.model else ""
    limit = "" if what.max_duration_s is None else f", at most {_length(what.max_duration_s)}"
    lines = [
        f"Load for {what.url}{model}: {what.arrivals} arrivals, never more than {what.max_rps:g} requests a second.",
        f"Objectives: {'; '.join(what.objectives)}. Requests: {what.requests}.",
        f"Level {what.level}: about {_length(what.expected_s)} when a response takes {what.e2e_s:g} s{limit}.",
    ]
    if what.tls:
        lines.append("TLS costs the sender several times more; inside a cluster plain HTTP measures better.")
    return tuple(lines)


def announced_answer(what: Announcement, *, command: str) -> Answer:
    """The answer without --apply."""
    return Answer(
        document={
            "schema": schema_name("measure-announcement"),
            "url": what.url,
            "model": what.model,
            "objectives": list(what.objectives),
            "level": what.level,
            "max_rps": what.max_rps,
            "arrival": what.arrivals,
            "requests": what.requests,
            "expected_s": what.expected_s,
            "e2e_s": what.e2e_s,
            "max_duration_s": what.max_duration_s,
            "applied": False,
        },
        headline=("Nothing was sent.", *announcement(what)),
        next=(Next(command=command, why="sends this load"),),
    )


def probe_line(probe: Probe) -> str:
    """A probe that has just ended."""
    begin = f"{probe.plan.phase} at {probe.plan.rate_rps:g} requests/s, {count(probe.requests, 'request')}"
    if probe.status is ProbeStatus.INVALID:
        return f"{begin}: invalid. {probe.reason}"
    if probe.plan.phase is Phase.CEILING:
        served = "" if probe.served_rps is None else f": {probe.served_rps:.4g} a second were served"
        return f"{begin}{served}."
    kept = "; ".join(
        f"{one.objective} missed by {one.bounds.share:.1%} (at most {one.bounds.hi:.1%})" for one in probe.tallies
    )
    return f"{begin}: {probe.status}, {probe.reason}. {kept}."


def measured_answer(
    document: Mapping[str, Any], *, exit_code: int, notes: Sequence[str], next_: Sequence[Next]
) -> Answer:
    """The answer from the document."""
    result = document["result"]
    return Answer(
        document=document,
        headline=(*_headline(document["service"], result), *filter(None, [busy_sentence(document)])),
        tables=(_probes(document["probes"]),),
        notes=tuple(notes),
        next=tuple(next_),
        exit_code=exit_code,
    )


def _headline(service: str, result: Mapping[str, Any]) -> list[str]:
    certified, refuted, estimate = (result[key] for key in ("certified_rps", "refuted_rps", "estimate_rps"))
    lines = []
    if certified is not None:
        lines.append(f"{service} sustains {certified:g} requests a second: certified, {result['confidence']:.0%} sure.")
    else:
        lines.append(f"No rate is certified for {service}: {_STOPPED.get(result['stopped_because'], 'undecided')}.")
    if refuted is not None:
        lines.append(f"{refuted:g} requests a second are refuted: the objectives do not hold there.")
    if certified is None and estimate is not None:
        lines.append(f"The estimate is {estimate:g} requests a second; it is not certified.")
    if result["limited_by"] is not None:
        lines.append(f"It is limited by {result['limited_by']}.")
    return lines


def busy_sentence(document: Mapping[str, Any]) -> str | None:
    """How busy GPUs look at a rate below the certified one; None where nobody saw it."""
    seen = document.get("busy_and_more")
    if seen is None:
        return None
    return (
        f"GPUs {seen['gpu_busy']:.0%} busy at {seen['rate_rps']:.4g} requests a second, "
        f"{seen['more_requests']:.0%} more requests possible.".replace("%", " %")
    )


_STOPPED = {
    "quick": "the level quick only estimates",
    "not_certified": "no confirmation passed",
    "contradiction": "the rate that passed was refuted too: the service changed, or chance struck",
    "time": "the time was over",
    "invalid": "the sender could not keep its schedule, or the service changed",
    "not_serving": "not one response was whole",
}


def _probes(probes: Sequence[Mapping[str, Any]]) -> Table:
    columns = (
        Column("phase", "phase"),
        Column("rate_rps", "requests/s", Kind.NUMBER),
        Column("requests", "requests", Kind.COUNT),
        Column("failed", "failed", Kind.COUNT),
        Column("achieved_rps", "got/s", Kind.NUMBER),
        Column("goodput_rps", "good/s", Kind.NUMBER),
        Column("status", "status"),
        Column("reason", "why"),
    )
    rows = tuple(tuple(_cell(probe, column.key) for column in columns) for probe in probes)
    return Table(title="Probes", columns=columns, rows=rows)


def _cell(probe: Mapping[str, Any], key: str) -> Any:
    # Why a probe is invalid is said in whole below the table.
    value = probe[key].partition(":")[0] if key == "reason" else probe.get(key)
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _length(seconds: float) -> str:
    return format_duration(max(1, round(seconds)) * 1000)
