"""Vega-Lite specifications as plain dictionaries: blue, orange and grey, and never colour alone.

The colours are those of the light page; the page's style sheet swaps them for the dark one, so a drawing needs to be
made once only. Names that come from a cluster occur in them as data values, never in expressions or formats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Vega-Lite has no narrower type than this.

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

INK = "#1b1f24"
MUTED = "#57606a"
FAINT = "#d8dee4"
BLUE = "#1f5fa8"
SKY = "#8fb8e3"
ORANGE = "#c4590a"
PEACH = "#f0b27d"
BROWN = "#7d3c03"
GREY = "#8b949e"
SILVER = "#c3cad2"
SLATE = "#5f7187"

CLASS_COLOURS: Mapping[str, str] = {
    "capacity": SILVER,
    "unavailable": GREY,
    "unallocated": SILVER,
    "starting": SKY,
    "idle_held": ORANGE,
    "underused": PEACH,
    "unobserved": FAINT,
    "productive": BLUE,
    "unjudged": SLATE,
    "lost": BROWN,
}

CONFIG: Mapping[str, Any] = {
    "font": "system-ui, sans-serif",
    "background": None,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": MUTED,
        "titleFontSize": 11,
        "titleFontWeight": "normal",
        "labelPadding": 6,
        "domainColor": GREY,
        "tickColor": GREY,
        "gridColor": FAINT,
    },
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "titleColor": MUTED,
        "orient": "top",
        "direction": "horizontal",
        "columns": 3,
        "symbolType": "square",
        "symbolSize": 120,
        "labelLimit": 200,
    },
    "text": {"fontSize": 12, "fill": INK},
}


def stairs(rows: Sequence[Mapping[str, Any]], *, unit: str) -> dict[str, Any]:
    """A waterfall lying on its side: each bar starts where the one before ended.

    Rows have `label`, `from`, `to`, `shown` (the value as read) and `colour`; the first is the whole.
    """
    order = [row["label"] for row in rows]
    return layered(
        height={"step": 27},
        data=list(rows),
        layers=[
            {
                "mark": {"type": "bar", "height": 17, "cornerRadius": 2, "stroke": MUTED, "strokeWidth": 0.6},
                "encoding": {
                    "x": {
                        "field": "from",
                        "type": "quantitative",
                        "title": unit,
                        "axis": {"tickCount": 4, "format": ",~r"},
                        "scale": {"domainMin": 0, "padding": 0, "nice": False},
                    },
                    "x2": {"field": "to"},
                    "color": {"field": "colour", "type": "nominal", "scale": None},
                    "tooltip": [{"field": "label", "title": "class"}, {"field": "shown", "title": unit}],
                },
            },
            {
                "mark": {"type": "text", "align": "left", "dx": 6},
                "transform": [{"filter": "datum.side === 'right'"}],
                "encoding": {"x": {"field": "to", "type": "quantitative"}, "text": {"field": "shown"}},
            },
            {
                "mark": {"type": "text", "align": "right", "dx": -6},
                "transform": [{"filter": "datum.side === 'left'"}],
                "encoding": {"x": {"field": "from", "type": "quantitative"}, "text": {"field": "shown"}},
            },
        ],
        shared={
            "y": {
                "field": "label",
                "type": "nominal",
                "sort": order,
                "title": None,
                "axis": {"ticks": False, "domain": False, "labelLimit": 150},
            }
        },
    )


def stacks(
    rows: Sequence[Mapping[str, Any]], *, unit: str, keys: Sequence[str], parts: Sequence[str]
) -> dict[str, Any]:
    """Bars that are split into the same parts, in one order.

    Rows have `key`, `part`, `value`, `at` (place of the part), `shown`, and `inside` (the text in the bar, or "").
    """
    return layered(
        height={"step": 30},
        data=list(rows),
        layers=[
            {
                "mark": {"type": "bar", "height": 19, "stroke": MUTED, "strokeWidth": 0.5},
                "encoding": {
                    "color": {
                        "field": "part",
                        "type": "nominal",
                        "title": None,
                        "scale": {"domain": list(parts), "range": [CLASS_COLOURS[_key(part)] for part in parts]},
                        "sort": list(parts),
                    },
                    "tooltip": [{"field": "key", "title": "who"}, {"field": "part"}, {"field": "shown", "title": unit}],
                },
            },
        ],
        shared={
            "y": {
                "field": "key",
                "type": "nominal",
                "sort": list(keys),
                "title": None,
                "axis": {"ticks": False, "domain": False, "labelLimit": 150},
            },
            "x": {
                "field": "value",
                "type": "quantitative",
                "title": unit,
                "stack": "zero",
                "axis": {"tickCount": 4, "format": ",~r"},
            },
            "order": {"field": "at", "type": "quantitative"},
        },
    )


def _key(part: str) -> str:
    return {"idle, held": "idle_held"}.get(part, part)


LANES = ("our plan", "FIFO queue", "all at once")


def steps_over_time(
    rows: Sequence[Mapping[str, Any]], *, series: Sequence[str], unit: str, over: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Step lines over an area of what exists. Rows have `series`, `at` (wall-clock ms), `when` and `gpus`.

    `over` is a span to be marked, `from` and `to` with a `word` on it.
    """
    styles = {
        "exists": (SILVER, [1, 0]),
        "our plan": (BLUE, [1, 0]),
        "FIFO queue": (SLATE, [2, 2]),
        "all at once": (ORANGE, [6, 3]),
    }
    chosen = [styles[name] for name in series]
    x = {"field": "at", "type": "temporal", "title": None, "axis": _time_axis(), "scale": _WALL}
    y = {
        "field": "gpus",
        "type": "quantitative",
        "title": unit,
        "axis": {"tickCount": 4, "tickMinStep": 1, "format": ",~r"},
        "scale": {"domainMin": 0},
    }
    colour = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(series), "range": [colour for colour, _ in chosen]},
        "legend": {"symbolType": "stroke", "symbolSize": 300, "symbolStrokeWidth": 4, "columns": 2},
    }
    dash = {
        "field": "series",
        "type": "nominal",
        "title": None,
        "scale": {"domain": list(series), "range": [dash for _, dash in chosen]},
    }
    exists = [row for row in rows if row["series"] == "exists"]
    return layered(
        height=190,
        data=[],
        layers=[
            {
                "data": {"values": exists},
                "mark": {"type": "area", "interpolate": "step-after", "fill": SILVER, "fillOpacity": 0.45},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": list(rows)},
                "mark": {"type": "line", "interpolate": "step-after", "strokeCap": "butt", "strokeWidth": 2.4},
                "encoding": {"x": x, "y": y, "color": colour, "strokeDash": dash},
            },
            *(_marked_span(over, x) if over else ()),
        ],
        shared={},
    )


def _marked_span(over: Mapping[str, Any], x: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A span over the whole height, with its word at the top."""
    data = {"values": [over]}
    begin = {**x, "field": "from"}
    return [
        {
            "data": data,
            "mark": {"type": "rect", "fill": ORANGE, "fillOpacity": 0.16, "stroke": BROWN, "strokeDash": [3, 3]},
            "encoding": {"x": begin, "x2": {"field": "to"}},
        },
        {
            "data": data,
            "mark": {"type": "text", "align": "left", "baseline": "top", "dx": 5, "dy": 4, "fontSize": 11, "fill": INK},
            "encoding": {"x": begin, "y": {"value": 0}, "text": {"field": "word"}},
        },
    ]


def gantt(
    rows: Sequence[Mapping[str, Any]],
    flags: Sequence[Mapping[str, Any]],
    *,
    jobs: Sequence[str],
    not_run: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Per job the plan above what a plain queue does, before a thick bar of start-at-once; the deadline is a mark.

    Rows have `job` (as shown), `name`, `lane` (one of `LANES`), `from`, `to`, `label` and `late`; flags have `job`,
    `name` and `at`; `not_run` has `job`, `at` and the `word` that stands there instead of a bar.
    """
    job_axis = {
        "field": "job",
        "type": "nominal",
        "sort": list(jobs),
        "title": None,
        "axis": {"ticks": False, "domain": False, "labelLimit": 190},
    }
    layers = [
        _bars([row for row in rows if row["lane"] == lane], job_axis, thickness, offset)
        for lane, thickness, offset in (
            ("all at once", 22, 0),
            ("FIFO queue", 5, 5),
            ("our plan", 9, -4),
        )
    ]
    late = [row for row in rows if row["late"] and row["lane"] == "our plan"]
    if late:
        layers.append(
            {
                "data": {"values": late},
                "mark": {"type": "text", "align": "left", "dx": 5, "text": "too late", "fontSize": 11, "fill": INK},
                "encoding": {"x": {"field": "to", "type": "temporal", "scale": _WALL}, "y": job_axis},
            }
        )
    if not_run:
        layers.append(
            {
                "data": {"values": list(not_run)},
                "mark": {"type": "text", "align": "left", "dx": 6, "fontSize": 11, "fill": INK},
                "encoding": {
                    "x": {"field": "at", "type": "temporal", "scale": _WALL},
                    "y": job_axis,
                    "text": {"field": "word"},
                },
            }
        )
    layers.append(
        {
            "data": {"values": list(flags)},
            "mark": {"type": "tick", "thickness": 2.4, "color": INK, "size": 26},
            "encoding": {
                "x": {"field": "at", "type": "temporal", "scale": _WALL},
                "y": job_axis,
                "tooltip": [{"field": "name", "title": "job"}, {"field": "label", "title": "deadline"}],
            },
        }
    )
    return layered(height={"step": 30}, data=[], layers=layers, shared={})


def _bars(
    rows: Sequence[Mapping[str, Any]], job_axis: Mapping[str, Any], thickness: int, offset: int
) -> dict[str, Any]:
    return {
        "data": {"values": list(rows)},
        "mark": {"type": "bar", "height": thickness, "yOffset": offset, "cornerRadius": 2, "strokeWidth": 1.2},
        "encoding": {
            "x": {"field": "from", "type": "temporal", "title": None, "axis": _time_axis(), "scale": _WALL},
            "x2": {"field": "to"},
            "y": job_axis,
            "color": {
                "field": "lane",
                "type": "nominal",
                "title": None,
                "scale": {"domain": list(LANES), "range": [BLUE, SLATE, PEACH]},
            },
            "stroke": {"condition": {"test": "datum.late", "value": BROWN}, "value": MUTED},
            "strokeDash": {"condition": {"test": "datum.late", "value": [4, 3]}, "value": [1, 0]},
            "fillOpacity": {"condition": {"test": "datum.late", "value": 0.3}, "value": 1},
            "tooltip": [{"field": "name", "title": "job"}, {"field": "lane"}, {"field": "label", "title": "when"}],
        },
    }


_WALL = {"type": "utc", "padding": 5}
"""Times are wall-clock ms of the reporting zone, so the drawing is the same wherever it is opened."""


def _time_axis() -> dict[str, Any]:
    return {
        "tickCount": 5,
        "labelOverlap": True,
        "labelExpr": (
            "utchours(datum.value) || utcminutes(datum.value)"
            " ? utcFormat(datum.value, '%H:%M') : utcFormat(datum.value, '%-d %b')"
        ),
    }


def layered(
    *, height: Any, data: list[Mapping[str, Any]], layers: list[dict[str, Any]], shared: Mapping[str, Any]
) -> dict[str, Any]:
    """Layers over each other, with the encoding that they share; no data: each layer brings its own."""
    spec: dict[str, Any] = {
        "$schema": SCHEMA,
        "config": CONFIG,
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "encoding": dict(shared),
        "layer": layers,
    }
    if data:
        spec["data"] = {"values": data}
    return spec
