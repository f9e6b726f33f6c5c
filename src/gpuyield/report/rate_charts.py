"""Drawings over the request rate: how many requests keep an objective, how many are good, and what witnesses saw.

They stand one above another and share their horizontal axis. What a status is stands in the shape too, not in the
colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # Vega-Lite has no narrower type than this.

from gpuyield.report.charts import BLUE, BROWN, GREY, INK, MUTED, ORANGE, PEACH, SKY, SLATE, layered

Rows = Sequence[Mapping[str, Any]]

STATUS_WORDS = {"pass": "passed", "fail": "failed", "undecided": "undecided"}
_STATUSES = tuple(STATUS_WORDS.values())
_COLOURS = (BLUE, ORANGE, GREY)
_SHAPES = ("circle", "triangle-up", "diamond")
_TICKS_APART = 0.09
"""Labels that would stand closer on the axis of shares are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What all drawings of a measurement share: the span of the axis and the rates that are marked on it."""

    from_rps: float
    to_rps: float
    certified_rps: float | None = None
    refuted_rps: float | None = None


def kept_shares(rows: Rows, rates: Rates, *, wanted: float) -> dict[str, Any]:
    """The share of requests that keep an objective at each rate, with its bounds and the share that is wanted.

    Rows have `rate`, `missed`, `missed_lo`, `missed_hi`, `status` (one of `STATUS_WORDS`), `phase` and `shown`. The
    axis shows what is kept and is stretched around what is wanted: 99 of 100 and 95 of 100 are far apart, half and none
    are not.
    """
    x = _rates(rates)
    allowed = 1 - wanted
    constant = max(allowed / 5, 1e-5)
    y = {
        "field": "missed",
        "type": "quantitative",
        "title": "kept",
        "scale": {"type": "symlog", "constant": constant, "domain": [0, 1], "reverse": True},
        "axis": {**_EXTENT, "values": _ticks(allowed, constant), "labelExpr": "format(1 - datum.value, '.3~%')"},
    }
    line = [{"missed": allowed, "word": f"wanted: {wanted * 100:g} %"}]
    return layered(
        height=230,
        data=[],
        layers=[
            *_zones(rates),
            {
                "data": {"values": line},
                "mark": {"type": "rule", "stroke": INK, "strokeWidth": 1.4, "strokeDash": [6, 4]},
                "encoding": {"y": y},
            },
            {
                "data": {"values": line},
                "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 5, "dy": 5, "fontSize": 11},
                "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "word"}},
            },
            *_marks(rates, words=True),
            {
                "data": {"values": list(rows)},
                "mark": {"type": "line", "strokeWidth": 1.4, "stroke": SKY},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": list(rows)},
                "mark": {"type": "rule", "strokeWidth": 3},
                "encoding": {"x": x, "y": {**y, "field": "missed_lo"}, "y2": {"field": "missed_hi"}, "color": _COLOUR},
            },
            *(
                {
                    "data": {"values": list(rows)},
                    "mark": {"type": "tick", "thickness": 2, "size": 11, "orient": "horizontal"},
                    "encoding": {"x": x, "y": {**y, "field": end}, "color": _COLOUR},
                }
                for end in ("missed_lo", "missed_hi")
            ),
            _points(rows, x, y, legend=True),
        ],
        shared={},
    )


def good_rates(rows: Rows, rates: Rates) -> dict[str, Any]:
    """Good requests a second over offered ones; on the broken line every request is good. Rows have `good` too."""
    x, y = _rates(rates), _counts("good", "good a second")
    every = [{"rate": end, "good": end} for end in (rates.from_rps, rates.to_rps)]
    return layered(
        height=150,
        data=[],
        layers=[
            *_zones(rates),
            {
                "data": {"values": every},
                "mark": {"type": "line", "strokeWidth": 1.2, "strokeDash": [3, 3], "stroke": MUTED},
                "encoding": {"x": x, "y": y},
            },
            *_marks(rates, words=False),
            {
                "data": {"values": list(rows)},
                "mark": {"type": "line", "strokeWidth": 1.4, "stroke": SKY},
                "encoding": {"x": x, "y": y},
            },
            _points(rows, x, y, legend=False),
        ],
        shared={},
    )


def witnessed(rows: Rows, rates: Rates, *, series: Sequence[str]) -> dict[str, Any]:
    """How full GPUs and cache were at each rate. Rows have `rate`, `series`, `value` (a ratio) and `shown`."""
    y = {
        "field": "value",
        "type": "quantitative",
        "title": "in use",
        "scale": {"domain": [0, 1]},
        "axis": {**_EXTENT, "tickCount": 3, "format": ".0%"},
    }
    styles = {"GPUs busy": (BROWN, "square", [1, 0]), "cache used": (SLATE, "diamond", [4, 3])}
    chosen = [styles[name] for name in series]

    def channel(at: int) -> dict[str, Any]:
        scale = {"domain": list(series), "range": [one[at] for one in chosen]}
        return {"field": "series", "type": "nominal", "title": None, "scale": scale}

    return layered(
        height=120,
        data=[],
        layers=[
            *_zones(rates),
            *_marks(rates, words=False),
            {
                "data": {"values": list(rows)},
                "mark": {"type": "line", "strokeWidth": 1.6},
                "encoding": {"x": _rates(rates), "y": y, "color": channel(0), "strokeDash": channel(2)},
            },
            {
                "data": {"values": list(rows)},
                "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
                "encoding": {
                    "x": _rates(rates),
                    "y": y,
                    "color": channel(0),
                    "shape": channel(1),
                    "tooltip": [{"field": "series", "title": "what"}, {"field": "shown", "title": "how much"}],
                },
            },
        ],
        shared={},
    )


def waiting_requests(rows: Rows, rates: Rates) -> dict[str, Any]:
    """Requests that wait at the server: the mean as a point, the most as the end of its line."""
    y = _counts("mean", "waiting")
    data = {"values": list(rows)}
    return layered(
        height=120,
        data=[],
        layers=[
            *_zones(rates),
            *_marks(rates, words=False),
            {
                "data": data,
                "mark": {"type": "rule", "strokeWidth": 5, "stroke": PEACH},
                "encoding": {"x": _rates(rates), "y": {**y, "field": "zero"}, "y2": {"field": "most"}},
            },
            {
                "data": data,
                "mark": {"type": "point", "filled": True, "size": 70, "fill": BROWN, "opacity": 1},
                "encoding": {
                    "x": _rates(rates),
                    "y": y,
                    "tooltip": [{"field": "shown", "title": "waiting"}],
                },
            },
        ],
        shared={},
    )


_EXTENT = {"minExtent": 46, "maxExtent": 46}
"""Room for the labels of the vertical axis, the same in all, so that one rate stands above itself."""


def _rates(rates: Rates) -> dict[str, Any]:
    return {
        "field": "rate",
        "type": "quantitative",
        "title": "requests a second, offered",
        "scale": {"domain": [rates.from_rps, rates.to_rps], "nice": False, "zero": False},
        "axis": {"tickCount": 6, "format": ",~r", "grid": False},
    }


def _counts(field: str, title: str) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "title": title,
        "scale": {"domainMin": 0},
        "axis": {**_EXTENT, "tickCount": 3, "format": ",~r"},
    }


def _ticks(allowed: float, constant: float) -> list[float]:
    """Shares of misses to be labelled: none, all, what is allowed, and fifths and fours of it, if there is room."""

    def place(share: float) -> float:
        return math.log1p(share / constant) / math.log1p(1 / constant)

    chosen = [allowed, 0.0, 1.0]
    for share in (allowed / 5, allowed * 4, 0.5, 0.1, 0.01):
        if 0 < share < 1 and all(abs(place(share) - place(one)) > _TICKS_APART for one in chosen):
            chosen.append(share)
    return sorted({float(f"{one:.6g}") for one in chosen})


_COLOUR: Mapping[str, Any] = {
    "field": "status",
    "type": "nominal",
    "title": None,
    "scale": {"domain": list(_STATUSES), "range": list(_COLOURS)},
    # The words of the marked rates stand at the top.
    "legend": {"orient": "bottom"},
}
_SHAPE: Mapping[str, Any] = {**_COLOUR, "scale": {"domain": list(_STATUSES), "range": list(_SHAPES)}}


def _points(rows: Rows, x: Mapping[str, Any], y: Mapping[str, Any], *, legend: bool) -> dict[str, Any]:
    hidden = {} if legend else {"legend": None}
    return {
        "data": {"values": list(rows)},
        "mark": {"type": "point", "filled": True, "opacity": 1},
        "encoding": {
            "x": x,
            "y": y,
            "color": {**_COLOUR, **hidden},
            "shape": {**_SHAPE, **hidden},
            # The long probe, whose word it is, stands out.
            "size": {"condition": {"test": "datum.phase === 'confirm'", "value": 190}, "value": 85},
            "tooltip": [
                {"field": "shown", "title": "at"},
                {"field": "phase", "title": "probe"},
                {"field": "status", "title": "it"},
            ],
        },
    }


def _zones(rates: Rates) -> list[dict[str, Any]]:
    """Where it is certified, and where it is refuted; between them nothing is claimed."""
    spans = []
    if rates.certified_rps is not None:
        spans.append((rates.from_rps, rates.certified_rps, SKY))
    if rates.refuted_rps is not None:
        spans.append((rates.refuted_rps, rates.to_rps, PEACH))
    return [
        {
            "data": {"values": [{"rate": begin, "end": end}]},
            "mark": {"type": "rect", "fill": colour, "fillOpacity": 0.2},
            "encoding": {"x": _rates(rates), "x2": {"field": "end"}},
        }
        for begin, end, colour in spans
    ]


def _marks(rates: Rates, *, words: bool) -> list[dict[str, Any]]:
    """Upright lines, with their words above the drawing, each in a row of its own."""
    known = [
        (rate, f"{word} {rate:g}", colour)
        for rate, word, colour in (
            (rates.certified_rps, "certified", BLUE),
            (rates.refuted_rps, "refuted", ORANGE),
        )
        if rate is not None
    ]
    layers: list[dict[str, Any]] = []
    for row, (rate, word, colour) in enumerate(known):
        data = {"values": [{"rate": rate, "word": word}]}
        layers.append(
            {
                "data": data,
                "mark": {"type": "rule", "stroke": colour, "strokeWidth": 1.5, "strokeDash": [5, 2]},
                "encoding": {"x": _rates(rates)},
            }
        )
        if words:
            above = {"align": "right", "baseline": "bottom", "dx": 3, "dy": -9 - 16 * row, "fontWeight": "bold"}
            layers.append(
                {
                    "data": data,
                    "mark": {"type": "text", "fill": colour, **above},
                    "encoding": {"x": _rates(rates), "y": {"value": 0}, "text": {"field": "word"}},
                }
            )
    return layers
