"""The answer of `gpuyield measure`: what would be sent, each probe in a line, and the rate that is certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import tzinfo
from typing import Any  # Documents are JSON.

from gpuyield.model.document import schema_name
from gpuyield.model.measure import Phase, Probe, ProbeStatus
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count, in_percent
from gpuyield.report.tables import Column, Kind, Table, format_local, format_span
from gpuyield.units import MINUTE_MS, format_duration, parse_instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """A model that grades. `expected_at_most`: questions of a search that sends all of its load at the highest rate."""

    url: str
    model: str
    expected_at_most: int
    at_most: int


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
    judge: Judging | None = None


def announcement(what: Announcement) -> tuple[str, ...]:
    """Target, rates and length, before anything is sent."""
    model = f", model {what.model}" if what.model else ""
    limit = "" if what.max_duration_s is None else f", at most {_length(what.max_duration_s)}"
    lines = [
        f"Load for {what.url}{model}: {what.arrivals} arrivals, never more than {what.max_rps:g} requests a second.",
        f"Objectives: {'; '.join(what.objectives)}. Requests: {what.requests}.",
        f"Level {what.level}: about {_length(what.expected_s)} when a response takes {what.e2e_s:g} s{limit}.",
    ]
    if what.judge is not None:
        lines += [
            f"Judge: {what.judge.model} at {what.judge.url} gets each measured request and its answer after the probe.",
            f"One question each, up to {what.judge.expected_at_most:,}; never more than {what.judge.at_most:,}.",
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
            "judge": None if what.judge is None else asdict(what.judge),
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
    return Answer(
        document=document,
        headline=(*headline_of(document), *filter(None, [busy_sentence(document)])),
        tables=(probes_table(document["probes"]),),
        notes=tuple(notes),
        next=tuple(next_),
        exit_code=exit_code,
    )


def headline_of(document: Mapping[str, Any]) -> list[str]:
    """The rates in words, the answer first."""
    service, result = document["service"], document["result"]
    certified, refuted, estimate = (result[key] for key in ("certified_rps", "refuted_rps", "estimate_rps"))
    lines = []
    if certified is not None:
        lines.append(
            f"{service} sustains {certified:g} requests a second: certified, {in_percent(result['confidence'])} sure."
        )
    else:
        lines.append(f"No rate is certified for {service}: {_STOPPED.get(result['stopped_because'], 'undecided')}.")
    lines += filter(None, [representative_sentence(document)])
    if refuted is not None:
        lines.append(f"{refuted:g} requests a second are refuted: the objectives do not hold there.")
    if certified is None and estimate is not None:
        lines.append(f"The estimate is {estimate:g} requests a second; it is not certified.")
    if result["limited_by"] is not None:
        lines.append(f"It is limited by {result['limited_by']}.")
    return lines


def representative_sentence(document: Mapping[str, Any]) -> str | None:
    """Whether that load is like what the service gets; None where it was not compared."""
    found = document.get("representative")
    if found is None:
        return None
    if found["far"]:
        return (
            f"It was not measured with the service's own load: {'; '.join(found['far'])}. Another load, another rate."
        )
    near = [
        f"{name} lengths differ by {in_percent(found[key])}"
        for name, key in (("prompt", "prompt_distance"), ("output", "output_distance"))
        if found[key] is not None
    ]
    if found["burst_ratio"] is not None:
        near.append(f"bursts are {found['burst_ratio']:.2g} times those of the service")
    return f"The load is like the service's: {'; '.join(near)}." if near else None


def objective_line(document: Mapping[str, Any]) -> str:
    """What had to be kept."""
    told = [f"{objective_words(one)} for {one['share'] * 100:g} %" for one in document["objectives"]]
    return f"Objectives: {'; '.join(told)}."


def objective_words(one: Mapping[str, Any]) -> str:
    """An objective of a document without its share, such as `ttft within 800 ms`."""
    if one["at_most_s"] is not None:
        return f"{one['name']} within {one['at_most_s'] * 1000:g} ms"
    if one["at_least"] is not None:
        return f"{one['name']} of at least {one['at_least']:g}"
    return str(one["name"])


def is_expired(document: Mapping[str, Any], *, now_ms: int) -> bool:
    """Whether a measurement is too old to rest anything on."""
    ends = document["result"]["expires_at"]
    return ends is not None and parse_instant(ends) <= now_ms


def aged(document: Mapping[str, Any], *, now_ms: int, zone: tzinfo) -> str:
    """When it was measured, how long ago, and whether it still counts."""
    at_ms = parse_instant(document["started_at"])
    age = max(0, now_ms - at_ms)
    ago = "just now" if age < MINUTE_MS else f"{format_span(age)} ago"
    expired = ", expired" if is_expired(document, now_ms=now_ms) else ""
    return f"{format_local(at_ms, zone)} ({ago}{expired})"


def busy_sentence(document: Mapping[str, Any]) -> str | None:
    """How busy GPUs look at a rate below the certified one; None where nobody saw it."""
    seen = document.get("busy_and_more")
    if seen is None:
        return None
    return (
        f"GPUs {in_percent(seen['gpu_busy'])} busy at {seen['rate_rps']:.4g} requests a second, "
        f"{in_percent(seen['more_requests'])} more requests possible."
    )


_STOPPED = {
    "quick": "the level quick only estimates",
    "not_certified": "no confirmation passed",
    "contradiction": "the rate that passed was refuted too: the service changed, or chance struck",
    "time": "the time was over",
    "invalid": "the sender could not keep its schedule, or the service changed",
    "not_serving": "not one response was whole",
}


def probes_table(probes: Sequence[Mapping[str, Any]]) -> Table:
    """Each probe: what was sent, what came back, and what it says."""
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
