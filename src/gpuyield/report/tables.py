"""One table model, shown as a rich table, plain columns, CSV or Markdown.

Cells hold plain values (GPU-milliseconds, ratios, decimals, epoch ms); a column's kind says how people read them.
CSV carries the plain values, so that nothing is lost to rounding.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal
from enum import StrEnum

from gpuyield.units import HOUR_MS, format_duration, format_instant

Cell = str | int | float | Decimal | bool | None

MISSING = "-"
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


class Kind(StrEnum):
    """What a column holds, and so how people read it."""

    TEXT = "text"
    COUNT = "count"
    GPU_TIME = "gpu_time"
    """GPU-milliseconds, read as GPU-hours."""
    HOURS = "hours"
    """Already in GPU-hours: a decimal that was rounded together with the other parts of a sum."""
    RATIO = "ratio"
    MONEY = "money"
    NUMBER = "number"
    INSTANT = "instant"
    """Epoch milliseconds."""
    DURATION = "duration"
    """Milliseconds."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its key in CSV and JSON, its title for people, and the kind of its cells."""

    key: str
    title: str
    kind: Kind = Kind.TEXT

    @property
    def is_number(self) -> bool:
        """Whether cells are set flush right."""
        return self.kind not in (Kind.TEXT, Kind.INSTANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under columns; `total` repeats the sum where the rows have one. `indent` is the depth of each row."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: tuple[Cell, ...] | None = None
    indent: tuple[int, ...] = ()
    zone: tzinfo = field(default=UTC)

    @property
    def body(self) -> tuple[tuple[Cell, ...], ...]:
        """All rows, the total last."""
        return self.rows if self.total is None else (*self.rows, self.total)

    @property
    def has_instants(self) -> bool:
        """Whether any cell is a time of the clock."""
        return any(
            row[at] is not None
            for at, column in enumerate(self.columns)
            if column.kind is Kind.INSTANT
            for row in self.body
        )

    def texts(self) -> list[list[str]]:
        """The cells as people read them."""
        return [
            [format_cell(cell, column.kind, zone=self.zone) for cell, column in zip(row, self.columns, strict=True)]
            for row in self.body
        ]

    def depth(self, row: int) -> int:
        """How deep a row is nested."""
        return self.indent[row] if row < len(self.indent) else 0


def format_cell(value: Cell, kind: Kind, *, zone: tzinfo = UTC) -> str:
    """One cell as people read it; what is not known is a dash."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return printable(value)
    match kind:
        case Kind.GPU_TIME:
            return format_hours(Decimal(value) / HOUR_MS)
        case Kind.HOURS:
            return f"{Decimal(value):,f}"
        case Kind.RATIO:
            return f"{Decimal(str(value)) * 100:.1f} %"
        case Kind.MONEY:
            return f"{Decimal(str(value)).quantize(Decimal('0.01'), ROUND_HALF_EVEN):,}"
        case Kind.INSTANT:
            return format_local(int(value), zone)
        case Kind.DURATION:
            return format_span(int(value))
        case Kind.COUNT:
            return f"{int(value):,}"
        case Kind.NUMBER | Kind.TEXT:
            return f"{value:,}"


def format_hours(hours: Decimal) -> str:
    """GPU-hours: one decimal below 1,000."""
    places = Decimal("0.1") if abs(hours) < 1000 else Decimal(1)
    return f"{hours.quantize(places, ROUND_HALF_EVEN):,f}"


def format_local(at_ms: int, zone: tzinfo = UTC) -> str:
    """A local time as people read it: `30 Nov 22:00`."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(zone)
    return f"{moment.day} {moment:%b %H:%M}"


def format_span(length_ms: int) -> str:
    """A length of time with at most two units, the second one rounded: `3 d 4 h`, `2 h 5 m`."""
    if length_ms < 0:
        return f"-{format_span(-length_ms)}"
    if length_ms < 1000:
        return format_duration(length_ms)
    seconds = round(length_ms / 1000)
    finest = 3600 if seconds >= 86_400 else 60 if seconds >= 3600 else 1
    seconds = (seconds + finest // 2) // finest * finest
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts)


def printable(text: str) -> str:
    """A foreign name without control and direction characters, so that it cannot rewrite the screen."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_unprintable(letter) else letter for letter in text)


def _is_unprintable(letter: str) -> bool:
    # U+FFFE, U+FFFF and their like in every plane are no characters, and no XML.
    return unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") or ord(letter) & 0xFFFE == 0xFFFE


def plain_columns(table: Table) -> str:
    """The table as columns of text, without lines or colours."""
    texts = table.texts()
    heads = [column.title for column in table.columns]
    rows = [[("  " * table.depth(at)) + row[0], *row[1:]] for at, row in enumerate(texts)]
    widths = [max(width_of(row[at]) for row in [heads, *rows]) for at in range(len(heads))]
    lines = [_plain_line(heads, widths, table.columns), *(_plain_line(row, widths, table.columns) for row in rows)]
    return "\n".join([table.title, *(f"  {line}" for line in lines)]) if table.title else "\n".join(lines)


def _plain_line(cells: Sequence[str], widths: Sequence[int], columns: Sequence[Column]) -> str:
    padded = []
    for cell, width, column in zip(cells, widths, columns, strict=True):
        space = " " * (width - width_of(cell))
        padded.append(space + cell if column.is_number else cell + space)
    return "   ".join(padded).rstrip()


def width_of(text: str) -> int:
    """Columns that a text takes on a screen."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def csv_text(table: Table) -> str:
    """The table's plain values as CSV; text that a spreadsheet would run as a formula is quoted with `'`."""
    lines = [",".join(_quoted(column.key) for column in table.columns)]
    for row in table.rows:
        cells = (_csv_cell(cell, column) for cell, column in zip(row, table.columns, strict=True))
        lines.append(",".join(_quoted(cell) for cell in cells))
    return "\n".join(lines) + "\n"


def _quoted(cell: str) -> str:
    if any(sign in cell for sign in ',"\n\r'):
        return '"' + cell.replace('"', '""') + '"'
    return cell


def _csv_cell(value: Cell, column: Column) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_STARTS) else value
    if column.kind is Kind.INSTANT:
        return format_instant(int(value))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def markdown_table(table: Table) -> str:
    """The table as GitHub Markdown."""
    heads = [_markdown_cell(column.title) for column in table.columns]
    rules = ["---:" if column.is_number else "---" for column in table.columns]
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join(rules)} |"]
    for at, row in enumerate(table.texts()):
        first = "&nbsp;&nbsp;" * table.depth(at) + _markdown_cell(row[0])
        lines.append(f"| {' | '.join([first, *(_markdown_cell(cell) for cell in row[1:])])} |")
    return "\n".join(lines)


def markdown_text(text: str) -> str:
    """Foreign text that cannot open a link, a tag or a cell in Markdown."""
    escaped = printable(text).replace("\\", "\\\\")
    for sign in ("|", "`", "*", "_", "[", "]", "<", ">", "#", "~"):
        escaped = escaped.replace(sign, f"\\{sign}")
    return escaped


def _markdown_cell(text: str) -> str:
    return markdown_text(text)
