"""Declared services: headroom, objectives kept round the clock, and the curve of each that was measured."""

from __future__ import annotations

from gpuyield.report.facts import Facts
from gpuyield.report.page import Chart, Section
from gpuyield.report.screens.measure import aged, is_expired
from gpuyield.report.screens.services import busy_line, objectives_table, services_finding, services_table
from gpuyield.report.sections.measured import kept_charts, rates_finding

_MOST_SERVICES = 4

_HOW = (
    "The headroom is the certified rate of one replica times the replicas there are, less the peak: the 99th "
    "percentile of the requests finished in five minutes. It is not known without a measurement that has not expired, "
    "against the objectives that are declared. Objectives are judged from the server's histograms, of answered "
    "requests; a limit between two edges is kept by at least those of the lower edge and at most those of the upper."
)


def services_section(facts: Facts) -> Section | None:
    """The declared services; None where there are none."""
    found = facts.services
    if found is None or not found.services:
        return None
    names = {one.name for one in found.services}
    charts: list[Chart] = []
    lead = [line for one in found.services if (line := busy_line(one)) is not None]
    for at, document in enumerate([one for one in facts.measured if one["service"] in names][:_MOST_SERVICES]):
        when = aged(document, now_ms=found.now_ms, zone=facts.zone)
        lead.append(f"{document['service']}, measured {when}: {rates_finding(document)}.")
        expired = " (measurement expired)" if is_expired(document, now_ms=found.now_ms) else ""
        charts += kept_charts(document, key=f"service-{at}", most=1, whose=f"{document['service']}{expired}")
    lead += [f"{one.name}: its headroom is not known: {one.reason}." for one in found.services if one.reason]
    tables = (services_table(found, facts.zone), objectives_table(found))
    return Section(
        id="services",
        kicker="Services",
        title=services_finding(found),
        lead=tuple(lead),
        charts=tuple(charts),
        tables=tuple(table for table in tables if table.rows),
        open_tables=1,
        how=_HOW,
    )
