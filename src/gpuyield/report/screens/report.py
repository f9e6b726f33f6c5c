"""The answer of `gpuyield report`: the page itself, as a screen."""

from __future__ import annotations

from gpuyield.report.answer import Answer, Next
from gpuyield.report.page import Page
from gpuyield.report.twin import page_document


def report_answer(page: Page, *, path: str | None) -> Answer:
    """Headline, figures and the first tables; where the page was written to."""
    figures = tuple(f"{one.label}: {one.value}{' ' + one.note if one.note else ''}" for one in page.figures)
    tables = [table for section in page.sections for table in section.tables[: section.open_tables]]
    steps = [Next(command=step.command, why=step.why) for step in page.next]
    if path is None:
        steps.insert(0, Next(command="gpuyield report --out report.html", why="the page itself; it opens offline"))
    return Answer(
        document=page_document(page),
        headline=(page.headline, *page.lead, *figures, *([f"Page: {path}"] if path else [])),
        tables=tuple(tables),
        next=tuple(steps),
    )
