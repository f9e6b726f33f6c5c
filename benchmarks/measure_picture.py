"""Draw what `measure_search.py --json` found: certified, refuted and other rules' answers over the truth.

python benchmarks/measure_picture.py docs/explanation/measuring.svg FILE.json...
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any  # a Vega-Lite specification

import numpy as np
import vl_convert

CERTIFIED, REFUTED, OTHER = "certified", "refuted", "answer of another rule"
WORDS = {
    "64_requests_90_percent": "64 requests a level, 90 % good",
    "300_requests_point_estimate": "300 requests, point estimate",
    "60_s_percentile": "60 s, percentile under the limit",
    "60_s_any_of_3_trials": "60 s, any of 3 trials passes",
    "300_s_percentile": "300 s, percentile under the limit",
}


def main() -> None:
    target, *sources = sys.argv[1:]
    read = [pair for source in sources for pair in json.loads(Path(source).read_text()).items()]
    found: dict[str, Any] = {name: kept for name, kept in read if kept.get("searches") != []}
    rows = [row for name, kept in found.items() for row in rows_of(name, kept)]
    Path(target).write_text(vl_convert.vegalite_to_svg(picture(rows)))


def rows_of(name: str, kept: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each bar."""
    if "searches" in kept:
        group = f"gpuyield, {name}"
        return [
            bar(group, said, [one[said] for one in kept["searches"] if one[said] is not None])
            for said in (CERTIFIED, REFUTED)
        ]
    shape = name.removesuffix(".rules")
    return [bar(f"{WORDS[rule]}, {shape}", OTHER, [ratio for ratio, _ in answers]) for rule, answers in kept.items()]


def bar(group: str, said: str, values: list[float]) -> dict[str, Any]:
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    return {"group": group, "said": said, "low": low, "middle": middle, "high": min(high, 1.6)}


def picture(rows: list[dict[str, Any]]) -> dict[str, Any]:
    shades = {"domain": [CERTIFIED, REFUTED, OTHER], "range": ["#1b7f5c", "#3b6fb6", "#b5483a"]}
    scale = {"domain": [0.8, 1.6], "clamp": True}
    across = {"field": "low", "type": "quantitative", "scale": scale, "title": "rate over the true capacity"}
    down = {"field": "group", "type": "nominal", "sort": None, "title": None, "axis": {"labelLimit": 320}}
    shade = {"field": "said", "type": "nominal", "scale": shades, "title": None, "legend": {"orient": "top"}}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "background": "white",
        "width": 460,
        "height": {"step": 20},
        "data": {"values": rows},
        "layer": [
            {
                "mark": {"type": "bar", "height": 7, "opacity": 0.55},
                "encoding": {"x": across, "x2": {"field": "high"}, "y": down, "color": shade},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 55, "clip": True},
                "encoding": {"x": across | {"field": "middle"}, "y": down, "color": shade},
            },
            {
                "data": {"values": [{"truth": 1}]},
                "mark": {"type": "rule", "strokeDash": [4, 3]},
                "encoding": {"x": {"field": "truth", "type": "quantitative"}},
            },
        ],
    }


if __name__ == "__main__":
    main()
