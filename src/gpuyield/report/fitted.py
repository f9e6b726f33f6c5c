"""A table within the width of a screen: nothing is cut off, and no number is broken.

What is tried in turn until it fits: narrower gaps, headings word under word, long texts over several lines, times over
two, long texts under their rows, and at last each row as a list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuyield.report.tables import Column, Kind, Table, width_of

_LEAST_TEXT = 24
"""Letters that a line of a long text should have room for."""
_UNDER = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """A table as lines; `total` are those of its last row where that is a sum."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[str, ...]
    total: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Columns side by side with the width of each and the gap between; and those that go under their row."""

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int = 2
    under: tuple[int, ...] = ()

    @property
    def width(self) -> int:
        """The width of a line."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


def fitted(table: Table, width: int) -> Lines:
    """The lines of a table of at most this width."""
    cells = [[("  " * table.depth(at)) + row[0], *row[1:]] for at, row in enumerate(table.texts())]
    for layout in _layouts(table.columns, cells, width):
        if layout.width <= width:
            heads, *rows = (
                _side_by_side(row, layout, table.columns, width, is_head=not at)
                for at, row in enumerate([[column.title for column in table.columns], *cells])
            )
            break
    else:
        heads = _wrapped(table.columns[0].title, width)
        rows = [[*_wrapped(row[0], width), *_under(row[1:], table.columns[1:], width)] for row in cells]
    sums = [] if table.total is None else rows.pop()
    return Lines(
        title=table.title,
        heads=tuple(heads),
        rows=tuple(line for row in rows for line in row),
        total=tuple(sums),
    )


def _layouts(columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int) -> Iterator[_Layout]:
    places = range(len(columns))
    widest = [max((width_of(row[at]) for row in cells), default=0) for at in places]
    whole = [max(width_of(columns[at].title), widest[at]) for at in places]
    for gap in (3, 2):
        yield _Layout(tuple(places), tuple(whole), gap)
    halved = [max(_in_two(columns[at].title), widest[at]) for at in places]
    yield _Layout(tuple(places), tuple(halved))
    narrow = [max(_longest_word(columns[at].title), widest[at]) for at in places]
    yield _Layout(tuple(places), tuple(narrow))
    long = tuple(at for at in places if at and columns[at].kind is Kind.TEXT and narrow[at] > _LEAST_TEXT)
    kept = tuple(at for at in places if at not in long)
    broken = [
        max([_longest_word(columns[at].title), *(_in_two(row[at]) for row in cells)])
        if columns[at].kind is Kind.INSTANT
        else narrow[at]
        for at in places
    ]
    for widths in (halved, narrow, broken):
        room = (width - sum(widths[at] for at in kept) - 2 * (len(columns) - 1)) // max(1, len(long))
        if room >= _LEAST_TEXT:
            yield _Layout(tuple(places), tuple(min(room, narrow[at]) if at in long else widths[at] for at in places))
    for widths in (halved, narrow, broken):
        yield _Layout(kept, tuple(widths[at] for at in kept), under=long)


def _side_by_side(
    row: Sequence[str], layout: _Layout, columns: Sequence[Column], width: int, *, is_head: bool
) -> list[str]:
    parts = [_wrapped(row[at], wide) for at, wide in zip(layout.shown, layout.widths, strict=True)]
    height = max(len(part) for part in parts)
    lines = []
    for number in range(height):
        texts = []
        for at, wide, part in zip(layout.shown, layout.widths, parts, strict=True):
            # Headings stand on the line above the rows, cells on the first line of theirs.
            place = number - (height - len(part) if is_head else 0)
            text = part[place] if 0 <= place < len(part) else ""
            space = " " * (wide - width_of(text))
            texts.append(space + text if columns[at].is_number else text + space)
        lines.append((" " * layout.gap).join(texts).rstrip())
    if is_head:
        return lines
    return [*lines, *_under([row[at] for at in layout.under], [columns[at] for at in layout.under], width)]


def _under(row: Sequence[str], columns: Sequence[Column], width: int) -> list[str]:
    lines = []
    for cell, column in zip(row, columns, strict=True):
        if cell:
            first, *rest = _wrapped(f"{column.title}: {cell}" if column.title else cell, width - _UNDER)
            lines += [" " * _UNDER + first, *(" " * _UNDER + line for line in rest)]
    return lines


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of words; a word wider than a line goes over several."""
    if width_of(text) <= width:
        return [text]
    lines = [""]
    for word in text.split():
        if lines[-1] and width_of(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
            continue
        pieces = [""]
        for letter in word:
            if pieces[-1] and width_of(pieces[-1] + letter) > width:
                pieces.append("")
            pieces[-1] += letter
        lines = [*lines, *pieces] if lines[-1] else [*lines[:-1], *pieces]
    return lines


def _in_two(text: str) -> int:
    """The least width that takes a text on two lines."""
    words = text.split(" ")
    halves = ((" ".join(words[:at]), " ".join(words[at:])) for at in range(1, len(words)))
    return min((max(width_of(one), width_of(other)) for one, other in halves), default=width_of(text))


def _longest_word(text: str) -> int:
    return max((width_of(word) for word in text.split()), default=0)
