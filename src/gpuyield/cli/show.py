"""Write an answer or its errors to the screen: the answer to stdout, all else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from gpuyield.cli.options import Output
from gpuyield.cli.streams import err, out
from gpuyield.errors import Mistake
from gpuyield.report.answer import Answer, Next
from gpuyield.report.fitted import fitted
from gpuyield.report.tables import (
    Table,
    csv_text,
    markdown_table,
    markdown_text,
    plain_columns,
    printable,
    width_of,
)

ERROR_SCHEMA = "gpuyield/error/v1alpha1"


def show(answer: Answer, output: Output, *, quiet: bool = False) -> None:
    """Write an answer in the format asked for."""
    if answer.mistakes and output is not Output.JSON:
        show_mistakes(answer.mistakes, answer.exit_code, as_json=False)
    match output:
        case Output.JSON:
            out(json.dumps(answer.document, ensure_ascii=False, indent=2))
        case Output.CSV:
            sys.stdout.write(as_csv(answer))
        case Output.MARKDOWN:
            out(as_markdown(answer))
        case Output.TABLE:
            _screen(answer, quiet=quiet)
            return
    if not quiet:
        for line in _next_lines(answer.next):
            err(line)


def show_mistakes(mistakes: Sequence[Mistake], exit_code: int, *, as_json: bool, is_answer: bool = False) -> None:
    """Write what went wrong: a document on stdout for JSON, else lines on stderr (stdout where they are the answer)."""
    if as_json:
        out(json.dumps(error_document(mistakes, exit_code), ensure_ascii=False, indent=2))
        return
    write = out if is_answer else err
    if is_answer and len(mistakes) > 1:
        write(f"{len(mistakes)} mistakes")
    for one in mistakes:
        write("\n".join(printable(line) for line in str(one).splitlines()))


def error_document(mistakes: Sequence[Mistake], exit_code: int) -> dict[str, object]:
    """The `gpuyield/error/v1alpha1` document."""
    return {
        "schema": ERROR_SCHEMA,
        "exit_code": exit_code,
        "errors": [{"what": one.what, "where": one.where, "fix": one.fix} for one in mistakes],
    }


def as_csv(answer: Answer) -> str:
    """The answer's table with plain values; empty where it has none."""
    table = answer.csv if answer.csv is not None else next(iter(answer.tables), None)
    return "" if table is None else csv_text(table)


def as_markdown(answer: Answer) -> str:
    """Headline, tables, remarks: fit for a pull request or a chat."""
    blocks = []
    if answer.text is not None:
        blocks.append(answer.text.rstrip("\n"))
    if answer.headline:
        first, *rest = [markdown_text(line) for line in answer.headline]
        blocks += [f"**{first}**", *rest]
    for table in answer.tables:
        blocks.append((f"{markdown_text(table.title)}\n\n" if table.title else "") + markdown_table(table))
    if answer.remarks:
        blocks.append("\n".join(f"- {markdown_text(note)}" for note in answer.remarks))
    if answer.next:
        blocks.append("\n".join(f"`{step.command}` {markdown_text(step.why)}".rstrip() for step in answer.next))
    return "\n\n".join(blocks)


def _screen(answer: Answer, *, quiet: bool) -> None:
    if answer.text is not None:
        sys.stdout.write(answer.text if answer.text.endswith("\n") else f"{answer.text}\n")
        return
    rich = sys.stdout.isatty()
    for line in answer.headline:
        out(printable(line))
    for table in answer.tables:
        out()
        if rich:
            _fitted_table(table)
        else:
            out(plain_columns(table))
    if answer.remarks:
        out()
        for note in answer.remarks:
            out(printable(note))
    if answer.next and not quiet:
        out()
        for line in _next_lines(answer.next):
            out(line)


def _next_lines(steps: Sequence[Next]) -> list[str]:
    width = max((len(step.command) for step in steps), default=0)
    lines = []
    for at, step in enumerate(steps):
        lead = "Next: " if at == 0 else "      "
        lines.append(f"{lead}{step.command:<{width}}   {step.why}".rstrip() if step.why else f"{lead}{step.command}")
    return lines


def _fitted_table(table: Table) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    lines = fitted(table, console.width)

    def bold(line: str) -> None:
        console.print(Text(line, style="bold"), soft_wrap=True)

    for line in ([table.title] if table.title else []) + list(lines.heads):
        bold(line)
    out("\N{BOX DRAWINGS LIGHT HORIZONTAL}" * max(width_of(line) for line in (*lines.heads, *lines.rows, *lines.total)))
    for line in lines.rows:
        out(line)
    for line in lines.total:
        bold(line)
