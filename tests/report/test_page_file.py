"""The HTML file by itself: nothing is fetched, nothing foreign runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

import pytest

from gpuyield.model.waterfall import AccountRow
from gpuyield.report.assemble import assemble
from gpuyield.report.html import page_html
from report.samples import account, facts

HOSTILE = "</script><img src=x onerror=alert(1)>{{7*7}}\u202e\x00\x1b[31m\ufffe"


@pytest.fixture(scope="module")
def html() -> str:
    return page_html(assemble(facts()))


def test_the_file_is_small_enough_to_send(html: str) -> None:
    assert len(html.encode()) <= 2_000_000


def test_the_policy_allows_exactly_the_style_and_the_script_of_the_file(html: str) -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    allowed = policy[1].replace("&#39;", "'")
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)

    assert "unsafe" not in allowed
    assert allowed.startswith("default-src 'none'; ")
    assert style is not None
    assert f"style-src 'sha256-{_hash(style[1])}'" in allowed
    assert len(scripts) == 1
    assert f"script-src 'sha256-{_hash(scripts[0])}'" in allowed


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_the_markup_names_no_address_to_fetch_from(html: str) -> None:
    markup = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)

    assert not re.findall(r'(?:src|href|srcset|action|poster)\s*=\s*["\']?(?!#)', markup)
    assert "url(" not in markup
    assert "@import" not in markup


def test_a_hostile_name_stays_text() -> None:
    by_team = account(("team",))
    rows = tuple(replace(row, key={"team": HOSTILE}) if row.key["team"] == "vision" else row for row in by_team.rows)
    page = assemble(replace(facts(), by_team=replace(by_team, rows=rows), cluster=HOSTILE))

    html = page_html(page)

    assert "<img src=x" not in html
    assert html.count("</script>") == 2
    assert "49" not in re.findall(r"<h2[^>]*>(.*?)</h2>", html)[0]


def test_names_reach_drawings_only_as_data() -> None:
    by_team = account(("team",))
    rows = (AccountRow(key={"team": "'+alert(1)+'"}, waterfall=by_team.rows[0].waterfall), *by_team.rows[1:])
    page = assemble(replace(facts(), by_team=replace(by_team, rows=rows)))

    for section in page.sections:
        for chart in section.charts:
            spec = json.loads(json.dumps(chart.spec))
            for place, text in _texts(spec, ()):
                if "alert" in text:
                    assert "values" in place or place[-2:] in (("sort", place[-1]), ("domain", place[-1])), place


def _texts(value: object, place: tuple[object, ...]) -> list[tuple[tuple[object, ...], str]]:
    if isinstance(value, str):
        return [(place, value)]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, inner in pairs for found in _texts(inner, (*place, key))]
