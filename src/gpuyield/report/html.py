"""The page as one HTML file that opens offline: nothing is fetched, and only the script in it may run.

A drawing stands in the page as two still pictures (wide and narrow); when the script runs, it puts a living one in
their place. The policy allows exactly the style and the script of this file, by their hashes, and no `eval`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any  # vl-convert has no types

from jinja2 import Environment, PackageLoader, StrictUndefined

from gpuyield.report.page import Chart, Page
from gpuyield.report.tables import printable

_WIDE, _NARROW = 1040, 330


def page_html(page: Page) -> str:
    """The whole file."""
    style, script = _asset("page.css"), _script()
    environment = Environment(
        loader=PackageLoader("gpuyield.report", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tied"] = lambda text: str(text).replace(" %", "\N{NO-BREAK SPACE}%")
    charts = [chart for section in page.sections for chart in section.charts]
    return environment.get_template("page.html").render(
        page=page,
        style=style,
        script=script,
        policy=_policy(style, script),
        drawings={chart.id: (_drawing(chart, _WIDE), _drawing(chart, _NARROW)) for chart in charts},
        specs=_embedded_json({chart.id: _compiled(chart) for chart in charts}),
    )


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; style-src 'sha256-{_hash(style)}'; script-src 'sha256-{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (resources.files("gpuyield.report") / "assets" / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(_asset("page.js"))
    # A closing tag inside a string of the bundle would end the script element.
    return bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _drawable(value: Any) -> Any:
    """A specification whose texts can stand in XML: the renderer ends the whole process at a NUL."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {key: _drawable(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_drawable(one) for one in value]
    return value


def _drawing(chart: Chart, width: int) -> str:
    import vl_convert

    spec: dict[str, Any] = {**_drawable(chart.spec), "width": width, "autosize": {"type": "fit", "contains": "padding"}}
    if not isinstance(spec["height"], int):
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    svg: str = vl_convert.vegalite_to_svg(spec)
    # The figure itself carries the name and the description.
    svg = re.sub(r' (?:role|aria-[a-z]+)="[^"]*"', "", svg)
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _compiled(chart: Chart) -> Any:
    import vl_convert

    return vl_convert.vegalite_to_vega({**_drawable(chart.spec), "width": _WIDE})


def _embedded_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
