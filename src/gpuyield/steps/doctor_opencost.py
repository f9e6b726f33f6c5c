"""A live OpenCost held against our own integration of the last whole day."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from gpuyield.collect.connect import opencost as connect_opencost
from gpuyield.collect.opencost import AllocationRow, NodeAsset, OpenCost
from gpuyield.cost.prices import price_book
from gpuyield.errors import GpuyieldError
from gpuyield.model.declaration import Endpoint
from gpuyield.report.screens.doctor import Check, Compared, Difference, NodeRow, PodRow, State
from gpuyield.steps.crosscheck import WORDS, Crosscheck, crosscheck
from gpuyield.steps.crosscheck_prices import node_prices
from gpuyield.steps.doctor_checks import failed
from gpuyield.steps.evidence import Evidence, gather
from gpuyield.steps.setting import covered
from gpuyield.units import DAY_MS, Window, format_duration

_COST = "Prices come from gpuyield.yaml only, and nothing checks ours against another."


def asked_opencost(
    declared: Endpoint, day: Window, *, context: str | None, folder: Path
) -> tuple[OpenCost | None, Check]:
    """A connection to the declared OpenCost (None: it does not answer), and what it says of a day."""
    try:
        source = connect_opencost(declared, context=context, folder=folder, environment=os.environ, home=Path.home())
        nodes = source.nodes(day)
    except GpuyieldError as err:
        return None, failed("OpenCost", err, _COST)
    if not nodes:
        missing = Check(
            what="OpenCost",
            state=State.MISSING,
            found=f"no nodes in {day}",
            cost=_COST,
            fix="Does it read the same Prometheus, and since when?",
        )
        return source, missing
    return source, Check(what="OpenCost", found=f"{len(nodes)} nodes in {day}")


def compare(source: OpenCost, evidence: Evidence | None, check: Check) -> tuple[Compared | None, Check]:
    """The comparison (None: there is nothing to compare), and the check that says how it went."""
    window = _whole_day(evidence) if evidence else None
    if evidence is None or window is None:
        return None, replace(
            check,
            state=State.MISSING,
            cost="The ledger holds no whole UTC day to compare with.",
            fix="Run gpuyield collect --window 14d.",
        )
    try:
        assets = source.nodes(window)
        rows = source.allocations(window, aggregate="pod")
    except GpuyieldError as err:
        return None, failed("OpenCost", err, _COST)
    return _compared(gather(evidence.setting, window), assets, rows), check


def _compared(ours: Evidence, assets: list[NodeAsset], rows: list[AllocationRow]) -> Compared:
    accounting = ours.accounting
    found = crosscheck(
        window=ours.window,
        rows=rows,
        assets=assets,
        holdings=accounting.pods.holdings,
        nodes=accounting.nodes,
        silent=accounting.nodes.silences(),
    )
    resolution = format_duration(found.resolution_ms)
    return Compared(
        window=ours.window,
        resolution_ms=found.resolution_ms,
        pods_same=sum(1 for one in found.pods if not one.differences),
        differences=[
            Difference(cause=str(cause), words=WORDS[cause].format(resolution=resolution), pods=pods, gpu_hours=hours)
            for cause, (pods, hours) in found.by_cause().items()
        ],
        pods=[
            PodRow(
                pod=f"{one.namespace}/{one.pod}",
                opencost=one.opencost,
                ours=one.held,
                differences={str(cause): hours for cause, hours in one.differences.items()},
            )
            for one in found.differing
        ],
        nodes=_node_rows(found, ours, assets),
    )


def _node_rows(found: Crosscheck, ours: Evidence, assets: list[NodeAsset]) -> list[NodeRow]:
    declared = ours.setting.declaration
    flavors = {node: states[-1].flavor for node, states in ours.accounting.nodes.states.items() if states}
    book = price_book(declared.prices, currency=declared.currency, rates=declared.rates, window=ours.window)
    prices = {one.node: one for one in node_prices(assets, flavors, book, ours.window)}
    rows = []
    for one in found.nodes:
        price = prices.get(one.node)
        doubts = [str(one.cause)] if one.cause else []
        doubts += [f"price detection: {price.doubt}"] if price and price.doubt else []
        rows.append(
            NodeRow(
                node=one.node,
                flavor=flavors.get(one.node),
                opencost=one.opencost,
                ours=one.ours,
                price=float(price.opencost) if price and price.opencost is not None else None,
                declared=float(price.declared) if price and price.declared is not None else None,
                why="; ".join(doubts),
            )
        )
    return rows


def _whole_day(evidence: Evidence) -> Window | None:
    """The last whole UTC day that the ledger holds."""
    read = covered(evidence.setting.ledger)
    if read is None:
        return None
    end_ms = read.to_ms - read.to_ms % DAY_MS
    return Window(end_ms - DAY_MS, end_ms) if end_ms - DAY_MS >= read.from_ms else None
