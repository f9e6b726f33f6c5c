"""The page in HTML, Markdown and JSON: the same words and the same numbers."""

from __future__ import annotations

import re
from dataclasses import fields
from html.parser import HTMLParser
from typing import Any

import pytest

from gpuyield.report.assemble import assemble
from gpuyield.report.facts import Facts
from gpuyield.report.html import page_html
from gpuyield.report.markdown import page_markdown
from gpuyield.report.page import Page
from gpuyield.report.twin import page_document
from report.samples import facts


class _Reader(HTMLParser):
    """Headings and table cells of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.headings: list[str] = []
        self._text: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        if tag in ("th", "td", "h1", "h2"):
            self._text = []

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td", "h1", "h2") and self._text is not None:
            text = "".join(self._text).replace("\N{NO-BREAK SPACE}", " ")
            (self.tables[-1][-1] if tag in ("th", "td") else self.headings).append(text)
            self._text = None


@pytest.fixture(scope="module")
def page() -> Page:
    return assemble(facts())


@pytest.fixture(scope="module")
def html(page: Page) -> str:
    return page_html(page)


def html_tables(html: str) -> list[list[list[str]]]:
    reader = _Reader()
    reader.feed(html)
    return [table[1:] for table in reader.tables]


def json_tables(document: dict[str, Any]) -> list[list[list[str]]]:
    return [table["texts"] for section in document["sections"] for table in section["tables"]]


def markdown_tables(text: str) -> list[list[list[str]]]:
    tables: list[list[list[str]]] = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        rows = [line.strip().strip("|").split(" | ") for line in block.strip().splitlines()[2:]]
        tables.append([[_plain(cell) for cell in row] for row in rows])
    return tables


def _plain(cell: str) -> str:
    return re.sub(r"\\(.)", r"\1", cell.replace("&nbsp;", "")).strip()


def test_every_table_has_the_same_numbers_in_all_three(page: Page, html: str) -> None:
    in_json = json_tables(page_document(page))

    assert len(in_json) >= 6
    assert html_tables(html) == in_json
    assert markdown_tables(page_markdown(page)) == [[[cell.strip() for cell in row] for row in one] for one in in_json]


def test_headline_figures_and_findings_are_the_same_in_all_three(page: Page, html: str) -> None:
    document, text = page_document(page), _plain(page_markdown(page))
    reader = _Reader()
    reader.feed(html)

    assert reader.headings[0] == document["headline"] == page.headline
    assert document["headline"] in text
    assert reader.headings[1:-1] == [section["title"] for section in document["sections"]]
    for figure in document["figures"]:
        assert figure["value"] in html.replace("\N{NO-BREAK SPACE}", " ")
        assert f"{figure['label']}: **{figure['value']}**" in text


def test_json_holds_the_plain_values_beside_the_texts(page: Page) -> None:
    sections = {one["id"]: one for one in page_document(page)["sections"]}

    idle = sections["idle"]["tables"][0]["rows"][0]
    waited = sections["queue"]["tables"][0]["rows"][-1]
    assert idle["idle_gpu_ms"] == 4 * 336 * 3_600_000
    assert waited["waiting_gpu_ms"] == 1692 * 3_600_000


def test_the_answer_comes_before_any_utilisation(page: Page) -> None:
    order = [section.id for section in page.sections]

    assert page.headline.startswith("For the declared batch work, with services as they are today")
    assert page.figures[0].label.startswith("Cost per verified outcome")
    assert order.index("cost") < order.index("queue") < order.index("levers") < order.index("gpu-time")
    assert order.index("gpu-time") < order.index("idle") < order.index("gaps")


def test_every_section_says_how_its_numbers_were_made(page: Page) -> None:
    assert all(section.how for section in page.sections)


def test_every_chart_has_words_and_a_table(page: Page) -> None:
    for section in page.sections:
        if section.charts:
            assert section.tables
        for chart in section.charts:
            assert chart.title
            assert len(chart.alt) > 30


@pytest.mark.parametrize("missing", ["account", "by_team", "queue", "cost", "plan", "plan_inputs", "decision"])
def test_a_page_stands_without_any_one_part(missing: str) -> None:
    whole = facts()
    partial = Facts(**{field.name: getattr(whole, field.name) for field in fields(Facts) if field.name != missing})

    page = assemble(partial)

    assert page.headline
    assert page_markdown(page)
    assert page_document(page)["schema"] == "gpuyield/report/v1alpha1"


def test_a_page_of_nothing_says_so() -> None:
    full = facts()
    page = assemble(Facts(cluster="empty", zone=full.zone, version="1"))

    assert page.headline == "Nothing was collected yet."
    assert page.status_word == "Not known yet"
    assert ("Cost per verified outcome", "not known") in [(one.label, one.value) for one in page.figures]
