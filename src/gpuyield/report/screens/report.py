"""The answer of `gpuyield report`: the page itself, as a screen."""

from __future__ import annotations

from gpuyield.report.answer import Answer, Next
from gpuyield.report.page import Figure, Page
from gpuyield.report.twin import page_document


def report_answer(page: Page, *, path: str | None, notes: tuple[str, ...] = ()) -> Answer:
    """Headline, figures and the first tables; where the page was written to."""
    figures = tuple(figure_line(one) for one in page.figures)
    tables = [table for section in page.sections for table in section.tables[: section.open_tables]]
    steps = [Next(command=step.command, why=step.why) for step in page.next]
    if path is None:
        steps.insert(0, Next(command="gpuyield report --out report.html", why="the page itself; it opens offline"))
    return Answer(
        document=page_document(page),
        headline=(page.headline, *page.lead, *figures, *([f"Page: {path}"] if path else [])),
        tables=tuple(tables),
        notes=notes,
        next=tuple(steps),
    )


def figure_line(figure: Figure) -> str:
    """`Busy: 23 % of capacity`, `Held idle: 2,255 GPU-hours (10 GPUs at the end of the window)`."""
    line = f"{figure.label}: {figure.value}"
    if not figure.note or figure.note.startswith(("of ", "(")):
        return f"{line} {figure.note}".rstrip()
    return f"{line} ({figure.note})"
