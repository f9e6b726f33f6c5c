"""Prices from OpenCost: what each node cost in a day, as its `/assets` states it.

Hours are ours; OpenCost gives prices and a cross-check. Its answers are read in this order: status, then
something in the body, then a JSON object, then its own code, then the type of its data.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from gpuyield.collect.http import Answer, HttpClient
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import PRICES
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import flavor_of
from gpuyield.units import HOUR_MS, Window, day_window, format_instant, parse_instant

SOURCE = "opencost"

_SETTLE_MS = HOUR_MS
"""A window that is not long over gives negative hours."""

_ABSURD = Decimal(10) ** 12
_PREFIXES = ("", "/model")
_Shape = TypeVar("_Shape")


class _Span(msgspec.Struct):
    start: str | None = None
    end: str | None = None


class _Properties(msgspec.Struct, rename={"provider_id": "providerID", "controller_kind": "controllerKind"}):
    name: str = ""
    cluster: str = ""
    provider_id: str = ""
    node: str = ""
    namespace: str = ""
    controller: str = ""
    controller_kind: str = ""
    pod: str = ""
    container: str = ""
    labels: dict[str, str] | None = None


class _Asset(
    msgspec.Struct,
    rename={"gpu_hours": "GPUHours", "gpu_count": "gpuCount", "gpu_cost": "gpuCost", "total_cost": "totalCost"},
):
    type: str = ""
    properties: _Properties = msgspec.field(default_factory=_Properties)
    labels: dict[str, str] | None = None
    window: _Span | None = None
    start: str | None = None
    end: str | None = None
    gpu_hours: Decimal | None = None
    gpu_count: Decimal | None = None
    gpu_cost: Decimal | None = None
    adjustment: Decimal | None = None
    total_cost: Decimal | None = None


class _Row(
    msgspec.Struct,
    rename={
        "gpu_hours": "gpuHours",
        "gpu_cost": "gpuCost",
        "gpu_cost_adjustment": "gpuCostAdjustment",
        "total_cost": "totalCost",
    },
):
    name: str = ""
    properties: _Properties | None = None
    window: _Span | None = None
    start: str | None = None
    end: str | None = None
    minutes: Decimal | None = None
    gpu_hours: Decimal | None = None
    gpu_cost: Decimal | None = None
    gpu_cost_adjustment: Decimal | None = None
    total_cost: Decimal | None = None


class _Envelope(msgspec.Struct):
    code: int | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAsset:
    """What a node cost in a span; None where OpenCost says null."""

    node: str
    window: Window
    labels: dict[str, str]
    gpu_count: Decimal | None
    gpu_hours: Decimal | None
    gpu_cost: Decimal | None
    adjustment: Decimal | None
    total_cost: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRow:
    """A row of `/allocation`; special rows have names such as `__idle__`. None where OpenCost says null."""

    name: str
    namespace: str
    pod: str
    node: str
    window: Window | None
    minutes: Decimal | None
    gpu_hours: Decimal | None
    gpu_cost: Decimal | None
    total_cost: Decimal | None


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_ASSETS = msgspec.json.Decoder(dict[str, _Asset])
_ASSET_SETS = msgspec.json.Decoder(list[dict[str, _Asset] | None])
_ROWS = msgspec.json.Decoder(list[dict[str, _Row] | None] | None)


class OpenCost:
    """Asks one OpenCost; its paths may have a prefix, which is found out once."""

    def __init__(self, http: HttpClient) -> None:
        self.http = http
        self._prefix: str | None = None

    def nodes(self, window: Window) -> list[NodeAsset]:
        """Nodes of `/assets`, by name.

        Raises:
            SourceError: Out of reach, refusing, or answering nonsense.
        """
        asked = f"/assets {window}"
        data = self._data("/assets", {"window": _explicit(window)}, asked)
        found: list[_Asset] = []
        if bytes(data).lstrip()[:1] == b"[":
            for one in self._decoded(_ASSET_SETS, data, asked):
                found.extend((one or {}).values())
        elif bytes(data).strip() != b"null":
            found.extend(self._decoded(_ASSETS, data, asked).values())
        nodes = [_node(one, window) for one in found if one.type == "Node" and one.properties.name]
        return sorted(nodes, key=lambda one: (one.node, one.window))

    def allocations(self, window: Window, *, aggregate: str, include_idle: bool = False) -> list[AllocationRow]:
        """Rows of `/allocation` over the window as one set, for a cross-check.

        Raises:
            SourceError: Out of reach, refusing, or answering nonsense.
        """
        asked = f"/allocation {window} by {aggregate}"
        query = {
            "window": _explicit(window),
            "aggregate": aggregate,
            "accumulate": "true",
            "includeIdle": "true" if include_idle else "false",
        }
        sets = self._decoded(_ROWS, self._data("/allocation", query, asked), asked) or []
        return [_allocation(name, row) for one in sets for name, row in (one or {}).items()]

    def _data(self, path: str, query: dict[str, str], asked: str) -> msgspec.Raw:
        answer = self._get(path, query)
        if answer.status != 200:
            raise self.http.refuse(answer, asked=asked)
        envelope = self.http.json_of(answer, _ENVELOPE, asked=asked)
        if envelope.code is not None and envelope.code != 200:
            raise SourceError(
                f"OpenCost at {self.http.where.base_url} answered code {envelope.code}: {self.http.excerpt(answer)}.",
                where=asked,
                fix="See OpenCost's log; it needs its own Prometheus.",
            )
        return envelope.data

    def _get(self, path: str, query: dict[str, str]) -> Answer:
        prefixes = _PREFIXES if self._prefix is None else (self._prefix,)
        first: Answer | None = None
        for prefix in prefixes:
            answer = self.http.get(prefix + path, query)
            if answer.status != 404:
                self._prefix = prefix
                return answer
            first = first or answer
        assert first is not None
        return first

    def _decoded(self, decoder: msgspec.json.Decoder[_Shape], data: msgspec.Raw, asked: str) -> _Shape:
        body = Answer(status=200, body=bytes(data), content_type="application/json", headers={}, url=asked)
        return self.http.json_of(body, decoder, asked=asked)


def collect_prices(
    *, source: OpenCost, ledger: Ledger, window: Window, currency: str, now_ms: int, refresh: bool = False
) -> list[Gap]:
    """Put the window's finished days into the table of prices; returns what is missing.

    OpenCost names no currency: the declared one is taken.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense. Days before are in the ledger.
        DeclarationError: The ledger holds prices of this source in another currency.
    """
    gaps: list[Gap] = []
    known = set(ledger.days(PRICES))
    for name in window.days():
        day = day_window(name)
        if day.to_ms + _SETTLE_MS > now_ms:
            continue
        if not refresh and name in known and _has_source(ledger, name, currency):
            continue
        nodes = source.nodes(day)
        stated = [one for one in nodes if one.total_cost is not None and one.gpu_cost is not None]
        gaps.extend(
            Gap(reason="OpenCost states no cost of this node (null).", where=one.node, window=one.window)
            for one in nodes
            if one not in stated
        )
        if not stated:
            gaps.append(Gap(reason="OpenCost states no nodes on this day.", where="/assets", window=day))
            continue
        rows = price_columns(stated, currency)
        ledger.update_day(PRICES, name, partial(_with_source, fresh=rows))
    return gaps


def price_columns(nodes: list[NodeAsset], currency: str) -> Columns:
    """Rows of the table of prices; assets of one node and beginning are added up."""
    together: dict[tuple[str, int], list[NodeAsset]] = {}
    for one in nodes:
        together.setdefault((one.node, one.window.from_ms), []).append(one)
    groups = sorted(together.items())
    return {
        "source": [SOURCE] * len(groups),
        "node": [node for (node, _), _ in groups],
        "flavor": [_flavor(many[0].labels) for _, many in groups],
        "from_ms": [from_ms for (_, from_ms), _ in groups],
        "to_ms": [max(one.window.to_ms for one in many) for _, many in groups],
        "gpu_count": [float(sum((one.gpu_count or Decimal(0) for one in many), Decimal(0))) for _, many in groups],
        "gpu_hours": [float(sum((one.gpu_hours or Decimal(0) for one in many), Decimal(0))) for _, many in groups],
        "gpu_cost": [_sum(one.gpu_cost for one in many) for _, many in groups],
        "total_cost": [_sum(one.total_cost for one in many) for _, many in groups],
        "adjustment": [_sum(one.adjustment for one in many) for _, many in groups],
        "currency": [currency] * len(groups),
        "basis": ["list"] * len(groups),
    }


def _has_source(ledger: Ledger, day: str, currency: str) -> bool:
    rows = ledger.read(PRICES, days=[day], columns=["source", "currency"])
    stated = {str(word) for at, word in enumerate(rows["currency"]) if rows["source"][at] == SOURCE}
    if stated - {currency}:
        raise DeclarationError(
            f"the ledger holds OpenCost's prices of {day} in {', '.join(sorted(stated))}, the declaration says"
            f" {currency}.",
            where="currency",
            fix="Correct it, or read the prices again: gpuyield collect --refresh.",
        )
    return bool(stated)


def _with_source(old: dict[str, Any], fresh: Columns) -> Columns:
    kept = np.array([word != SOURCE for word in old["source"]], dtype=np.bool_)
    return {name: [*old[name][kept].tolist(), *fresh[name]] for name in PRICES.columns}


def _node(asset: _Asset, asked: Window) -> NodeAsset:
    return NodeAsset(
        node=asset.properties.name,
        window=_window(asset.start, asset.end) or _span(asset.window) or asked,
        labels=asset.labels or {},
        gpu_count=_amount(asset.gpu_count),
        gpu_hours=_amount(asset.gpu_hours),
        gpu_cost=_amount(asset.gpu_cost),
        adjustment=_amount(asset.adjustment),
        total_cost=_amount(asset.total_cost),
    )


def _allocation(name: str, row: _Row) -> AllocationRow:
    properties = row.properties or _Properties()
    return AllocationRow(
        name=name,
        namespace=properties.namespace,
        pod=properties.pod,
        node=properties.node,
        window=_window(row.start, row.end) or _span(row.window),
        minutes=_amount(row.minutes),
        gpu_hours=_amount(row.gpu_hours),
        gpu_cost=_amount(row.gpu_cost),
        total_cost=_amount(row.total_cost),
    )


def _amount(stated: Decimal | None) -> Decimal | None:
    """The amount; None for what is no number or beyond all hours and money."""
    return stated if stated is not None and stated.is_finite() and abs(stated) < _ABSURD else None


def _span(span: _Span | None) -> Window | None:
    return None if span is None else _window(span.start, span.end)


def _window(start: str | None, end: str | None) -> Window | None:
    """The span of two times; None for null, for the word "null", and for nothing at all."""
    if not start or not end or "null" in (start, end):
        return None
    try:
        from_ms, to_ms = parse_instant(start), parse_instant(end)
    except DeclarationError:
        return None
    return Window(from_ms, to_ms) if from_ms < to_ms else None


def _flavor(labels: dict[str, str]) -> str:
    for key in ("nvidia_com_gpu_product", "label_nvidia_com_gpu_product", "amd_com_gpu_product_name"):
        if labels.get(key):
            return flavor_of(labels[key]) or ""
    return ""


def _sum(amounts: Any) -> str:
    return format(sum((one for one in amounts if one is not None), Decimal(0)), "f")


def _explicit(window: Window) -> str:
    """Two UTC times in whole seconds: the one form that every build takes."""
    return f"{format_instant(window.from_ms)},{format_instant(window.to_ms)}"
