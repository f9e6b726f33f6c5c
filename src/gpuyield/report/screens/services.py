"""The answer of `gpuyield services`: objectives kept round the clock, demand, and the headroom left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.model.document import gaps_document, schema_name, window_document
from gpuyield.model.service_capacity import ServiceCapacity
from gpuyield.model.services import Attained, Demand, ObjectiveKept, Services, ServiceState
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.account import gap_notes, zone_of_gaps
from gpuyield.report.sentences import count, in_percent, listed
from gpuyield.report.tables import Cell, Column, Kind, Table
from gpuyield.units import format_instant


def services_document(found: Services) -> dict[str, Any]:
    """The document (contracts, section 4)."""
    return {
        "schema": schema_name("services"),
        "window": window_document(found.window),
        "services": [_service(one) for one in found.services],
        "gaps": gaps_document(found.gaps),
    }


def services_answer(found: Services, *, zone: ZoneInfo) -> Answer:
    """Each service in a row, its objectives in another, and what is not known with its reason."""
    unknown = [one for one in found.services if one.headroom_rps is None]
    return Answer(
        document=services_document(found),
        headline=(services_finding(found) + ".", *filter(None, map(busy_line, found.services))),
        tables=tuple(table for table in (services_table(found, zone), objectives_table(found)) if table.rows),
        notes=(
            *(f"{one.name}: its headroom is not known. {one.reason[:1].upper()}{one.reason[1:]}." for one in unknown),
            *gap_notes(found.gaps, zone=zone),
        ),
        next=(
            Next(command="gpuyield decide", why="what the services' needs mean for the next purchase"),
            Next(command="gpuyield report --out report.html", why="one page, with the curve of each measured service"),
        ),
        zone=zone_of_gaps(found.gaps, zone),
    )


def services_finding(found: Services) -> str:
    """How many have headroom, lack it, or are not known."""
    if not found.services:
        return "No service is declared"
    known = [one for one in found.services if one.headroom_rps is not None]
    short = [one.name for one in known if one.headroom_rps is not None and one.headroom_rps < 0]
    text = f"Headroom is known for {len(known)} of {count(len(found.services), 'service')}"
    return f"{text}; {listed(short)} got more than is certified" if short else text


def busy_line(state: ServiceState) -> str | None:
    """`chat: GPUs 92 % busy, 38 % more requests possible.` None where either is not known."""
    if state.gpu_busy is None or state.more_requests is None or state.more_requests < 0:
        return None
    busy, more = in_percent(state.gpu_busy), in_percent(state.more_requests)
    return f"{state.name}: GPUs {busy} busy, {more} more requests possible."


def services_table(found: Services, zone: ZoneInfo) -> Table:
    """One row a service."""
    rows: list[tuple[Cell, ...]] = []
    for one in found.services:
        capacity, demand = one.capacity, one.demand
        rows.append(
            (
                one.name,
                _short(demand.peak_rps) if demand else None,
                None if capacity is None or capacity.certified_rps is None else _short(float(capacity.certified_rps)),
                one.replicas,
                _short(one.headroom_rps),
                one.gpu_busy,
                None if capacity is None else capacity.started_ms,
                _standing(one),
            )
        )
    columns = (
        Column("service", "service"),
        Column("peak_rps", "peak requests/s", Kind.NUMBER),
        Column("certified_rps", "certified", Kind.NUMBER),
        Column("replicas", "replicas", Kind.COUNT),
        Column("headroom_rps", "headroom", Kind.NUMBER),
        Column("gpu_busy", "GPUs busy", Kind.RATIO),
        Column("measured_at", "measured", Kind.INSTANT),
        Column("evidence", "evidence"),
    )
    return Table(title="Services", columns=columns, rows=tuple(rows), zone=zone)


def objectives_table(found: Services) -> Table:
    """One row an objective: what share of answered requests kept it, and in how many hours it was missed."""
    rows: list[tuple[Cell, ...]] = []
    for state in found.services:
        for one in state.objectives:
            whole = one.whole
            surely, perhaps = one.hours_missed
            rows.append(
                (
                    state.name,
                    one.objective.name,
                    float(one.objective.share),
                    None if whole is None or not whole.n else whole.lo / whole.n,
                    None if whole is None or not whole.n else whole.hi / whole.n,
                    None if whole is None else whole.n,
                    None if whole is None else surely,
                    None if whole is None else perhaps,
                )
            )
    columns = (
        Column("service", "service"),
        Column("objective", "objective"),
        Column("share", "wanted", Kind.RATIO),
        Column("lo", "kept at least", Kind.RATIO),
        Column("hi", "at most", Kind.RATIO),
        Column("requests", "requests", Kind.COUNT),
        Column("hours_missed", "hours missed", Kind.COUNT),
        Column("hours_perhaps_missed", "perhaps", Kind.COUNT),
    )
    return Table(title="Objectives, of answered requests", columns=columns, rows=tuple(rows))


def _service(state: ServiceState) -> dict[str, Any]:
    return {
        "service": state.name,
        "team": state.team,
        "objectives": [_objective(one) for one in state.objectives],
        "demand": None if state.demand is None else _demand(state.demand),
        "capacity": None if state.capacity is None else _capacity(state.capacity, expired=state.is_expired),
        "replicas": state.replicas,
        "gpu_busy": state.gpu_busy,
        "headroom_rps": state.headroom_rps,
        "more_requests": state.more_requests,
        "reason": state.reason or None,
    }


def _objective(one: ObjectiveKept) -> dict[str, Any]:
    surely, perhaps = one.hours_missed
    return {
        "name": one.objective.name,
        "share": float(one.objective.share),
        "attainment": None if one.whole is None else _attained(one.whole),
        "hours": [{"from": format_instant(hour), **_attained(found)} for hour, found in one.hours],
        "hours_missed": None if one.whole is None else {"lo": surely, "hi": perhaps},
        "budget_left": None if one.whole is None else _budget(one.whole, float(one.objective.share)),
    }


def _attained(found: Attained) -> dict[str, Any]:
    return {
        "n": found.n,
        "lo": found.lo / found.n if found.n else None,
        "hi": found.hi / found.n if found.n else None,
    }


def _budget(found: Attained, share: float) -> Mapping[str, float] | None:
    """The part of the allowed misses that is left; below 0 where more were missed than allowed."""
    allowed = (1 - share) * found.n
    if not allowed:
        return None
    return {"lo": 1 - (found.n - found.lo) / allowed, "hi": 1 - (found.n - found.hi) / allowed}


def _demand(found: Demand) -> dict[str, Any]:
    return {"peak_rps": found.peak_rps, "most_rps": found.most_rps, "bins": found.bins, "of": found.of}


def _capacity(found: ServiceCapacity, *, expired: bool) -> dict[str, Any]:
    def rate(value: Any) -> float | None:
        return None if value is None else float(value)

    return {
        "certified_rps": rate(found.certified_rps),
        "refuted_rps": rate(found.refuted_rps),
        "certified_rps_per_replica": rate(found.certified_rps_per_replica),
        "replicas": found.replicas,
        "confidence": float(found.confidence),
        "level": found.level,
        "measured_at": format_instant(found.started_ms),
        "expires_at": None if found.expires_ms is None else format_instant(found.expires_ms),
        "expired": expired,
        "provenance": str(found.provenance),
        "config_digest": found.config_digest,
        "inputs_digest": found.inputs_digest,
    }


def _standing(state: ServiceState) -> str:
    if state.capacity is None:
        return "never measured"
    return "expired" if state.is_expired else f"measured {state.capacity.provenance}"


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
