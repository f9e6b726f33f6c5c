"""One measured service: what is certified and refuted, the share that keeps its objectives at each rate, witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.report.facts import Document
from gpuyield.report.page import Chart, Section
from gpuyield.report.rate_charts import STATUS_WORDS, Rates, good_rates, kept_shares, waiting_requests, witnessed
from gpuyield.report.screens.measure import aged, busy_sentence, objective_words, probes_table
from gpuyield.report.sentences import in_percent, sentence
from gpuyield.report.tables import Cell, Column, Kind, Table

_MOST_OBJECTIVES = 3

_HOW = (
    "Requests are sent at times fixed in advance and judged from those times. A bar is the bound behind the claim: the "
    "wider of the t interval on batches of time and the exact binomial one of as many independent requests as the "
    "probe is worth. Certified: a long probe with fresh requests passed. Refuted: the objective is shown not to hold. "
    "Between them nothing is claimed. Witnesses are the server's own metrics and the GPU exporter's, read beside the "
    "load; they decide nothing. gpuyield verify works the bounds out again from the counts alone."
)


def measured_section(document: Document, *, now_ms: int, zone: ZoneInfo, key: str = "measured") -> Section:
    """All that one measurement shows; `key` begins the names of its drawings."""
    return Section(
        id=key,
        kicker=f"{document['service']}, measured {aged(document, now_ms=now_ms, zone=zone)}",
        title=rates_finding(document),
        lead=tuple(filter(None, [busy_sentence(document)])),
        charts=(
            *kept_charts(document, key=key, most=_MOST_OBJECTIVES),
            *_good_chart(document, key),
            *_witness_charts(document, key),
        ),
        tables=tuple(filter(None, [probes_table(document["probes"]), witness_table(document)])),
        how=_HOW,
    )


def rates_finding(document: Document) -> str:
    """Certified and refuted, in one line."""
    result = document["result"]
    certified, refuted = result["certified_rps"], result["refuted_rps"]
    upper = "no higher rate is refuted" if refuted is None else f"{refuted:g} are refuted"
    if certified is None:
        return f"No rate is certified; {upper if refuted is None else f'{refuted:g} requests a second are refuted'}"
    return f"{certified:g} requests a second are certified, {upper}"


def kept_charts(document: Document, *, key: str, most: int, whose: str = "") -> tuple[Chart, ...]:
    """One drawing for each objective, that of the one which limits first; `whose` begins their titles."""
    share = f"{whose}: share" if whose else "Share"
    probes = _steady(document)
    limiting = document["result"]["limited_by"]
    objectives = sorted(document["objectives"], key=lambda one: one["name"] != limiting)[:most]
    charts = []
    for at, objective in enumerate(objectives):
        kept, wanted = str(objective["name"]), float(objective["share"])
        rows = [_kept_row(probe, kept) for probe in probes if kept in probe["attainment"]]
        if not rows:
            continue
        spec = kept_shares(rows, _rates(document), wanted=wanted)
        told = "; ".join(str(row["shown"]) for row in rows)
        charts.append(
            Chart(
                id=f"{key}-kept-{at}",
                title=f"{share} of requests that keep {objective_words(objective)}, with its bounds, at each rate",
                alt=f"{rates_finding(document)}. Wanted: {wanted * 100:g} %. {told}.",
                spec=spec,
            )
        )
    return tuple(charts)


def witness_table(document: Document) -> Table | None:
    """What server and GPUs showed in each probe; None where nobody looked."""
    rows: list[tuple[Cell, ...]] = []
    for probe in document["probes"]:
        seen = probe.get("witness") or {}
        server, gpu = seen.get("server") or {}, seen.get("gpu") or {}
        if not server and not gpu:
            continue
        ttft = server.get("ttft_s") or {}
        rows.append(
            (
                probe["phase"],
                _figure(probe["rate_rps"]),
                _figure(_of(server, "running", "mean")),
                _figure(_of(server, "waiting", "mean")),
                _figure(_of(server, "waiting", "most")),
                _of(server, "kv_used", "mean"),
                _figure(ttft.get("mean")),
                server.get("others"),
                gpu.get("busy"),
            )
        )
    if not rows:
        return None
    columns = (
        Column("phase", "phase"),
        Column("rate_rps", "requests/s", Kind.NUMBER),
        Column("running", "running", Kind.NUMBER),
        Column("waiting", "waiting", Kind.NUMBER),
        Column("waiting_most", "most waiting", Kind.NUMBER),
        Column("kv_used", "cache used", Kind.RATIO),
        Column("server_ttft_s", "its ttft, mean s", Kind.NUMBER),
        Column("others", "requests of others", Kind.COUNT),
        Column("gpu_busy", "GPUs busy", Kind.RATIO),
    )
    return Table(title="What server and GPUs showed", columns=columns, rows=tuple(rows))


def _good_chart(document: Document, key: str) -> tuple[Chart, ...]:
    rows = [
        {**_point(probe, str(probe["status"])), "good": probe["goodput_rps"]}
        for probe in _steady(document)
        if probe["goodput_rps"] is not None
    ]
    for row in rows:
        row["shown"] = f"{row['rate']:g} a second: {row['good']:.4g} good"
    if not rows:
        return ()
    return (
        Chart(
            id=f"{key}-good",
            title="Good requests a second: those that kept every objective; on the broken line all are good",
            alt="; ".join(str(row["shown"]) for row in rows) + ".",
            spec=good_rates(rows, _rates(document)),
        ),
    )


def _witness_charts(document: Document, key: str) -> tuple[Chart, ...]:
    charts = []
    rates = _rates(document)
    used: list[dict[str, Any]] = []
    waits: list[dict[str, Any]] = []
    for probe in _steady(document):
        seen = probe.get("witness") or {}
        server, gpu = seen.get("server") or {}, seen.get("gpu") or {}
        told = {"GPUs busy": gpu.get("busy"), "cache used": _of(server, "kv_used", "mean")}
        used += [
            {"rate": probe["rate_rps"], "series": name, "value": value, "shown": in_percent(value)}
            for name, value in told.items()
            if value is not None
        ]
        waiting = server.get("waiting")
        if waiting is not None:
            shown = f"{waiting['mean']:.3g} on the mean, {waiting['most']:.3g} at most"
            waits.append({"rate": probe["rate_rps"], "zero": 0, "shown": shown, **waiting})
    series = list(dict.fromkeys(str(row["series"]) for row in used))
    if used:
        words = "; ".join(f"{row['series']} at {row['rate']:g} a second: {row['shown']}" for row in used)
        title = sentence(f"{' and '.join(series)}, as witnesses saw it").removesuffix(".")
        spec = witnessed(used, rates, series=series)
        charts.append(Chart(id=f"{key}-used", title=title, alt=f"{words}.", spec=spec))
    if waits:
        words = "; ".join(f"at {row['rate']:g} a second {row['shown']}" for row in waits)
        title = "Requests waiting in the server: mean, and the most at any reading"
        charts.append(Chart(id=f"{key}-waiting", title=title, alt=f"{words}.", spec=waiting_requests(waits, rates)))
    return tuple(charts)


def _steady(document: Document) -> list[Mapping[str, Any]]:
    """Valid probes of a rate that was held, by rate."""
    return sorted(
        (one for one in document["probes"] if one["phase"] != "ceiling" and one["status"] != "invalid"),
        key=lambda one: float(one["rate_rps"]),
    )


def _kept_row(probe: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = probe["attainment"][name]
    share = found["met"] / found["n"] if found["n"] else 0.0
    shown = f"{probe['rate_rps']:g} a second: {share:.2%} kept, bounds {found['lo']:.2%} to {found['hi']:.2%}"
    # The bounds are one-sided; with requests pending the share may lie at one of them.
    return {
        **_point(probe, str(probe["status"])),
        "missed": 1 - share,
        "missed_lo": 1 - max(found["hi"], share),
        "missed_hi": 1 - min(found["lo"], share),
        "shown": shown,
    }


def _point(probe: Mapping[str, Any], status: str) -> dict[str, Any]:
    return {"rate": probe["rate_rps"], "phase": probe["phase"], "status": STATUS_WORDS.get(status, "undecided")}


def _rates(document: Document) -> Rates:
    """From a little below the lowest rate that was tried to a little above the highest."""
    result = document["result"]
    tried: Sequence[float] = [float(one["rate_rps"]) for one in _steady(document)] or [1.0]
    room = 0.08 * max(tried) + 0.15 * (max(tried) - min(tried))
    return Rates(
        from_rps=max(0.0, min(tried) - room),
        to_rps=max(tried) + room / 2,
        certified_rps=result["certified_rps"],
        refuted_rps=result["refuted_rps"],
    )


def _of(seen: Mapping[str, Any], name: str, part: str) -> float | None:
    found = seen.get(name)
    return None if found is None else float(found[part])


def _figure(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
