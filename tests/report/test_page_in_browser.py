"""The page in Chromium: offline, under its own policy, light and dark, wide and narrow."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuyield.report.assemble import assemble
from gpuyield.report.html import page_html
from report.measured_sample import measured_page
from report.samples import facts

pytestmark = pytest.mark.browser

WIDTHS = (1440, 400)
KINDS = ("report", "measured")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page_html(assemble(facts())), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = os.environ.get("GPUYIELD_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None and os.environ.get("GPUYIELD_REQUIRE_BROWSER") == "1":
        pytest.fail("no Chromium, and GPUYIELD_REQUIRE_BROWSER=1")
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium, or set GPUYIELD_CHROMIUM")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def measured_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "measured.html"
    path.write_text(page_html(measured_page()), encoding="utf-8")
    return path


@pytest.fixture(
    params=[(kind, width, scheme) for kind in KINDS for width in WIDTHS for scheme in ("light", "dark")], ids=str
)
def opened(
    request: pytest.FixtureRequest, browser: Any, page_file: Path, measured_file: Path
) -> Iterator[tuple[Any, list[str]]]:
    kind, width, scheme = request.param
    page_file = measured_file if kind == "measured" else page_file
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"error: {error}"))
    page.on("request", lambda request: said.append(f"request: {request.url}"))
    page.goto(page_file.as_uri())
    page.wait_for_function("document.querySelectorAll('.still').length === 0")
    yield page, said
    context.close()


def test_the_page_opens_offline_draws_every_chart_and_asks_for_nothing(opened: tuple[Any, list[str]]) -> None:
    page, said = opened

    charts = page.locator("[data-chart]").count()
    assert charts >= 5
    assert page.locator(".stage svg").count() == charts
    assert [line for line in said if not line.startswith("request: file:")] == []
    assert len(said) == 1


def test_nothing_is_wider_than_the_screen(opened: tuple[Any, list[str]]) -> None:
    page, _ = opened

    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_axe_finds_nothing(opened: tuple[Any, list[str]]) -> None:
    axe = pytest.importorskip("axe_core_python", reason="axe-core is not installed")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    page, _ = opened
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")

    # Through the debugger, which the page's policy does not bind.
    page.evaluate(script)
    found = page.evaluate("axe.run().then((results) => results.violations)")

    assert [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in found] == []


@pytest.mark.parametrize("opened", [(KINDS[0], width, "light") for width in WIDTHS], indirect=True, ids=str)
def test_time_charts_use_their_width(opened: tuple[Any, list[str]]) -> None:
    page, _ = opened

    widths = page.evaluate(
        "[...document.querySelectorAll('[data-chart^=\"chart-demand\"] .stage')].map((stage) => {"
        " const drawn = [...stage.querySelectorAll('.mark-line path')].map((one) => one.getBoundingClientRect().width);"
        " return Math.max(...drawn) / stage.clientWidth; })"
    )

    assert widths
    assert min(widths) > 0.5


def test_dark_text_is_light_and_charts_follow(browser: Any, page_file: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme, offline=True)
        page = context.new_page()
        page.goto(page_file.as_uri())
        page.wait_for_function("document.querySelectorAll('.still').length === 0")
        colours[scheme] = page.evaluate(
            "getComputedStyle(document.querySelector('.chart svg text[fill=\"#1b1f24\"]')).fill"
        )
        context.close()

    assert colours["light"] != colours["dark"]


def test_without_scripts_the_still_pictures_stand_and_fit(browser: Any, page_file: Path) -> None:
    for width, visible, hidden in ((1440, "wide", "narrow"), (400, "narrow", "wide")):
        context = browser.new_context(viewport={"width": width, "height": 900}, java_script_enabled=False, offline=True)
        page = context.new_page()
        page.goto(page_file.as_uri())
        assert page.locator(f".still.{visible} svg").first.is_visible()
        assert not page.locator(f".still.{hidden} svg").first.is_visible()
        context.close()


def test_no_open_table_but_the_waterfall_scrolls_on_a_phone(browser: Any, page_file: Path) -> None:
    context = browser.new_context(viewport={"width": 400, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri())

    scrolling = page.evaluate(
        "[...document.querySelectorAll('section > .scroll')].filter((one) => one.scrollWidth > one.clientWidth)"
        ".map((one) => one.getAttribute('aria-label'))"
    )

    assert page.locator("#levers .stack").first.is_visible()
    assert scrolling == []
    context.close()


def test_a_hostile_name_runs_nothing_and_is_shown_as_text(browser: Any, tmp_path: Path) -> None:
    name = "<img src=x onerror=document.title='owned'>"
    path = tmp_path / "hostile.html"
    path.write_text(page_html(assemble(replace(facts(), cluster=name))), encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()

    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.still').length === 0")

    assert name in page.locator(".where").inner_text()
    assert page.evaluate("document.title") != "owned"
    context.close()


def test_a_note_follows_the_pointer(browser: Any, page_file: Path) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(page_file.as_uri())
    page.wait_for_function("document.querySelectorAll('.still').length === 0")
    bar = page.locator("#gpu-time .stage svg .mark-rect path").nth(4)

    bar.scroll_into_view_if_needed()
    bar.hover()
    page.wait_for_function("!document.getElementById('chart-note').hidden")

    assert "idle, held" in page.locator("#chart-note").inner_text()
    context.close()
