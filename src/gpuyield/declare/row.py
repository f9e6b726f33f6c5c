"""One row of a file, and the JSON values in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from gpuyield.declare.tree import Path as KeyPath
from gpuyield.declare.tree import Plain, shown
from gpuyield.errors import DeclarationError

MOST_ROWS = 250_000
"""Beyond so many rows a file is refused: a plan of them would take too long."""

FOR_NONE = "for no jobs at all write [] into a .json file"
"""Advice for a file that has no rows: most often whatever wrote it failed, so none is said, not assumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row: its fields, and `where(path)` = the place of a value in it (an empty path: of the row)."""

    fields: Mapping[str, Plain]
    where: Callable[[KeyPath], str]


def check_number(rows: Sequence[object], where: str) -> None:
    """Nothing, if the rows are not too many.

    Raises:
        DeclarationError: They are.
    """
    if len(rows) > MOST_ROWS:
        raise DeclarationError(
            f"more than {MOST_ROWS:,} rows.",
            where=where,
            fix="A plan holds no more jobs: plan those released first, or each queue alone on its part of the GPUs.",
        )


def plain_json(text: str) -> Plain:
    """A JSON text with its numbers as text, as they were written.

    Raises:
        DeclarationError: No JSON, or a key is there twice.
    """
    try:
        found: Plain = _decoder().decode(text)
    except json.JSONDecodeError as err:
        raise DeclarationError(
            f"not JSON: {err.msg}.", where=f"{err.lineno}:{err.colno}", fix="Check near here."
        ) from err
    except RecursionError as err:
        raise DeclarationError("nested too deeply.", where="1:1", fix="Write it flat.") from err
    return found


@cache
def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_without_twins)


def _without_twins(pairs: list[tuple[str, Plain]]) -> dict[str, Plain]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise DeclarationError(f'key "{shown(twin)}" is there twice.', where="1:1", fix="Keep one of them.")
    return found
