"""The page as Markdown: the same words and the same numbers."""

from __future__ import annotations

from gpuyield.report.page import Page, Section
from gpuyield.report.tables import Table, markdown_table, markdown_text


def page_markdown(page: Page) -> str:
    """The whole text."""
    blocks = [
        f"# {markdown_text(page.headline)}",
        f"{page.status_word}. {', '.join(part for part in (markdown_text(page.cluster), page.window) if part)}.",
        *(markdown_text(line) for line in page.lead),
    ]
    if page.figures:
        blocks.append(
            "\n".join(
                f"- {markdown_text(one.label)}: **{markdown_text(one.value)}**"
                + (f" {markdown_text(one.note)}" if one.note else "")
                for one in page.figures
            )
        )
    for section in page.sections:
        blocks += _section(section)
    if page.next:
        blocks.append("## Next")
        blocks.append("\n".join(f"- `{step.command}` {markdown_text(step.why)}".rstrip() for step in page.next))
    blocks += [markdown_text(line) for line in page.footer]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section) -> list[str]:
    blocks = [f"## {markdown_text(section.title)}", *(markdown_text(line) for line in section.lead)]
    blocks += [_titled(table) for table in section.tables]
    if section.how:
        blocks.append(f"How these numbers were made: {markdown_text(section.how)}")
    return blocks


def _titled(table: Table) -> str:
    return (f"{markdown_text(table.title)}\n\n" if table.title else "") + markdown_table(table)
