"""Rows of a CSV file, with the place of each cell; nested values are JSON, and no cell is ever a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from gpuyield.declare.row import FOR_NONE, Row, check_number, plain_json
from gpuyield.declare.tree import Path as KeyPath
from gpuyield.declare.tree import Plain, shown
from gpuyield.errors import DeclarationError, Mistake


def csv_rows(text: str, *, file: str, delimiter: str) -> tuple[list[Row], list[Mistake]]:
    """The rows of a CSV text, and mistakes in single rows; without a `delimiter` it is a comma, or a semicolon.

    Raises:
        DeclarationError: It is no CSV, or its header is wrong.
    """
    header_line = text.split("\n", 1)[0]
    delimiter = delimiter or (";" if ";" in header_line and "," not in header_line else ",")
    lines = text.splitlines(keepends=False)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    mistakes: list[Mistake] = []
    names: list[str] = []
    first = 1
    try:
        for cells in reader:
            line, first = first, reader.line_num + 1
            if not names:
                names = _header([cell.strip() for cell in cells], file=file, line=line)
            elif any(cell.strip() for cell in cells):
                places = _CsvPlaces(file=file, line=line, names=names, lines=lines, delimiter=delimiter)
                _take_cells(cells, names, places, rows, mistakes)
                check_number(rows, file)
    except csv.Error as err:
        raise DeclarationError(
            f"not CSV: {err}.", where=f"{file}:{first}:1", fix="Check the quotes near here."
        ) from err
    if not names:
        raise DeclarationError("the file is empty.", where=f"{file}:1:1", fix="Start with a line of column names.")
    if not rows and not mistakes:
        raise DeclarationError(
            "no rows follow the column names.", where=f"{file}:1:1", fix=f"Write one row a job; {FOR_NONE}."
        )
    return rows, mistakes


def _header(names: list[str], *, file: str, line: int) -> list[str]:
    twins = [name for at, name in enumerate(names) if name in names[:at] or not name]
    if twins:
        raise DeclarationError(
            f'column "{shown(twins[0])}" is there twice or has no name.',
            where=f"{file}:{line}:1",
            fix="Name each once.",
        )
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class _CsvPlaces:
    file: str
    line: int
    names: Sequence[str]
    lines: Sequence[str]
    delimiter: str

    def where(self, path: KeyPath) -> str:
        column = 1
        if path and path[0] in self.names and self.line <= len(self.lines):
            column = _cell_column(self.lines[self.line - 1], self.names.index(str(path[0])), self.delimiter)
        return f"{self.file}:{self.line}:{column}"


def _cell_column(line: str, wanted: int, delimiter: str) -> int:
    """Column (from 1) of a cell in a line; of the line's start where the cell begins further down."""
    cell, quoted = 0, False
    if wanted == 0:
        return 1
    for at, letter in enumerate(line):
        if letter == '"':
            quoted = not quoted
        elif letter == delimiter and not quoted:
            cell += 1
            if cell == wanted:
                return at + 2
    return 1


def _take_cells(
    cells: Sequence[str], names: Sequence[str], places: _CsvPlaces, rows: list[Row], mistakes: list[Mistake]
) -> None:
    if len(cells) > len(names):
        what = f"{len(cells)} cells for {len(names)} columns."
        mistakes.append(Mistake(what=what, where=places.where(()), fix="Quote a cell that has a comma in it."))
        return
    fields: dict[str, Plain] = {}
    for name, cell in zip(names, cells, strict=False):
        stripped = cell.strip()
        if not stripped:
            continue
        try:
            fields[name] = plain_json(stripped) if stripped[0] in "[{" else stripped
        except DeclarationError as err:
            mistakes.append(Mistake(what=f"{name}: {err.mistakes[0].what}", where=places.where((name,)), fix="Fix it."))
    rows.append(Row(fields=fields, where=places.where))
