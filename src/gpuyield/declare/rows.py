"""Rows of a file in any of our formats (JSON list, JSON lines, YAML, CSV, Parquet), each knowing its place.

Values come out the same whatever the format: text (numbers too, as they were written), true, false, lists and
mappings; what is empty is absent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path

from gpuyield.declare.csv_rows import csv_rows
from gpuyield.declare.row import FOR_NONE, MOST_ROWS, Row, check_number, plain_json
from gpuyield.declare.tree import Path as KeyPath
from gpuyield.declare.tree import Plain, Tree, decode, shown
from gpuyield.declare.values import rfc3339
from gpuyield.declare.yaml_tree import read_tree
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.ledger.parquet import read_parquet
from gpuyield.model.job import SourceFile

_MAX_BYTES = 512 << 20
_WRITE_A_LIST = "Write a list of rows, or [] for none."


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The rows of a file, with its digest; `mistakes` are in the rows that could not be read as rows."""

    rows: Sequence[Row]
    source: SourceFile
    mistakes: Sequence[Mistake] = ()


def read_rows(path: Path, data: bytes) -> Rows:
    """The rows of a file whose bytes are `data`; the format is told by the name's ending, else by the content.

    Raises:
        DeclarationError: It is not in its format at all.
    """
    file = str(path)
    ending = path.suffix.lower()
    if ending == ".parquet" or data[:4] == b"PAR1":
        rows, mistakes = _parquet_rows(path)
    else:
        text = decode(data, file=file, max_bytes=_MAX_BYTES)
        rows, mistakes = _text_rows(text, file=file, ending=ending)
    source = SourceFile(path=file, sha256=hashlib.sha256(data).hexdigest(), rows=len(rows))
    return Rows(rows=rows, source=source, mistakes=mistakes)


def _text_rows(text: str, *, file: str, ending: str) -> tuple[list[Row], list[Mistake]]:
    if ending in (".yaml", ".yml"):
        return _listed_rows(_tree(text, file))
    if ending in (".csv", ".tsv"):
        return csv_rows(text, file=file, delimiter="\t" if ending == ".tsv" else "")
    if ending in (".jsonl", ".ndjson"):
        return _json_lines(text, file=file)
    if text.lstrip()[:1] in ("[", "{") or ending == ".json":
        return _json(text, file=file)
    raise DeclarationError(
        f'"{shown(ending or "no ending")}" tells no format.',
        where=file,
        fix="Name the file .json, .jsonl, .yaml, .csv or .parquet.",
    )


def _tree(text: str, file: str) -> Tree:
    most = max(200_000, len(text))
    return read_tree(text.encode(), file=file, max_bytes=_MAX_BYTES, max_nodes=most, when_empty=_WRITE_A_LIST)


def _listed_rows(tree: Tree) -> tuple[list[Row], list[Mistake]]:
    root = tree.root.plain()
    prefix: tuple[str | int, ...] = ()
    if isinstance(root, dict) and list(root) == ["jobs"]:
        root, prefix = root["jobs"], ("jobs",)
    if not isinstance(root, list):
        raise DeclarationError("the file is no list.", where=tree.where(prefix), fix="Start each entry with a dash.")
    check_number(root, tree.where(()))
    return _as_rows(root, lambda at, path: tree.where((*prefix, at, *path)))


def _as_rows(values: Sequence[Plain], where: Callable[[int, KeyPath], str]) -> tuple[list[Row], list[Mistake]]:
    rows, mistakes = [], []
    for at, value in enumerate(values):
        if isinstance(value, dict):
            rows.append(Row(fields=value, where=partial(where, at)))
        else:
            mistakes.append(
                Mistake(
                    what="an entry that is no mapping of keys.", where=where(at, ()), fix="Write {id: ..., gpus: ...}."
                )
            )
    return rows, mistakes


class _JsonPlaces:
    """Where values stand in a JSON text, found only when something is wrong: JSON is read as YAML then."""

    def __init__(self, text: str, *, file: str, first_line: int = 1) -> None:
        self._text = text
        self._file = file
        self._first_line = first_line

    @cached_property
    def _tree(self) -> Tree | None:
        try:
            return _tree(self._text, self._file)
        except DeclarationError:
            return None

    def where(self, path: KeyPath) -> str:
        if self._tree is None:
            return f"{self._file}:{self._first_line}:1"
        _, line, column = self._tree.where(path).rsplit(":", 2)
        return f"{self._file}:{int(line) + self._first_line - 1}:{column}"


def _json(text: str, *, file: str) -> tuple[list[Row], list[Mistake]]:
    """The rows of one JSON value; objects that follow each other are one row each."""
    if not text.strip():
        raise DeclarationError("the file is empty.", where=f"{file}:1:1", fix=_WRITE_A_LIST)
    places = _JsonPlaces(text, file=file)
    try:
        root = plain_json(text)
    except DeclarationError as err:
        if "twice" in err.mistakes[0].what:
            _tree(text, file)  # It knows the place, which the JSON reader does not.
        elif text.lstrip()[0] == "{":
            return _json_lines(text, file=file)
        raise DeclarationError(
            err.mistakes[0].what, where=f"{file}:{err.mistakes[0].where}", fix=err.mistakes[0].fix
        ) from err
    if isinstance(root, dict) and list(root) == ["jobs"]:
        listed = root["jobs"]
        if isinstance(listed, list):
            check_number(listed, file)
            return _as_rows(listed, lambda at, path: places.where(("jobs", at, *path)))
    if isinstance(root, dict) and "id" in root:
        return _as_rows([root], lambda _, path: places.where(path))
    if not isinstance(root, list):
        raise DeclarationError("the file is no JSON list.", where=f"{file}:1:1", fix="Write [{...}, {...}].")
    check_number(root, file)
    return _as_rows(root, lambda at, path: places.where((at, *path)))


def _json_lines(text: str, *, file: str) -> tuple[list[Row], list[Mistake]]:
    rows: list[Row] = []
    mistakes: list[Mistake] = []
    for number, ended in enumerate(text.split("\n"), start=1):
        line = ended.rstrip()
        if not line:
            continue
        try:
            value = plain_json(line)
        except DeclarationError as err:
            found = err.mistakes[0]
            column = found.where.rpartition(":")[2]
            mistakes.append(Mistake(what=found.what, where=f"{file}:{number}:{column}", fix=found.fix))
            continue
        where = partial(_line_place, line, file, number)
        if isinstance(value, dict):
            rows.append(Row(fields=value, where=where))
            check_number(rows, file)
        else:
            mistakes.append(
                Mistake(what="a line that is no JSON object.", where=where(()), fix="Write one {...} a line.")
            )
    if not rows and not mistakes:
        raise DeclarationError("the file is empty.", where=f"{file}:1:1", fix=f"Write one {{...}} a line; {FOR_NONE}.")
    return rows, mistakes


def _line_place(line: str, file: str, number: int, path: KeyPath) -> str:
    return _JsonPlaces(line, file=file, first_line=number).where(path)


def _parquet_rows(path: Path) -> tuple[list[Row], list[Mistake]]:
    found = read_parquet(path, max_rows=MOST_ROWS + 1)
    check_number(found.rows, str(path))
    if not found.rows:
        raise DeclarationError("the file has no rows.", where=str(path), fix=f"Write one row a job; {FOR_NONE}.")
    rows: list[Row] = []
    for number, values in enumerate(found.rows, start=1):
        fields = {name: _plain(value) for name, value in zip(found.columns, values, strict=True) if value is not None}
        rows.append(Row(fields=fields, where=partial(_parquet_place, f"{path}: row {number}")))
    return rows, []


def _parquet_place(row: str, path: KeyPath) -> str:
    return f"{row}, column {path[0]}" if path else row


def _plain(value: object) -> Plain:
    """A Parquet value as text, list or mapping; text that holds a JSON list or mapping is read as one."""
    match value:
        case None | bool():
            return value
        case str():
            return _nested(value)
        case list() | tuple():
            return [_plain(one) for one in value]
        case dict():
            return {str(key): _plain(one) for key, one in value.items() if one is not None}
        case datetime() if value.tzinfo is not None:
            return rfc3339(value)
        case datetime() | date():
            return value.isoformat(*([" "] if isinstance(value, datetime) else []))
        case timedelta():
            return str(value.total_seconds())
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)


def _nested(text: str) -> Plain:
    if text.lstrip()[:1] in ("[", "{"):
        try:
            return plain_json(text)
        except DeclarationError:
            return text
    return text
