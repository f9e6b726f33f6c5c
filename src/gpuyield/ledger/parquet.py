"""Parquet files beside the ledger's tables: those that a person named, and raw records of a measurement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # columns of any type of number

import numpy as np
from numpy.typing import NDArray

from gpuyield.errors import DeclarationError
from gpuyield.ledger.whole import beside

_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetRows:
    """The rows of a file, each in the order of `columns`."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]


def read_parquet(path: Path, *, max_rows: int = 5_000_000) -> ParquetRows:
    """All rows of one Parquet file; times with a zone come back aware.

    Raises:
        DeclarationError: It cannot be read, is no Parquet, or holds more than `max_rows` rows.
    """
    with _selected(path, limit=max_rows + 1) as found:
        columns = tuple(str(column[0]) for column in found.description)
        rows = found.fetchall()
    if len(rows) > max_rows:
        raise DeclarationError(f"more than {max_rows:,} rows.", where=str(path), fix="Split the file.")
    return ParquetRows(columns=columns, rows=rows)


def read_columns(path: Path) -> Mapping[str, NDArray[Any]]:
    """The columns of a file that `write_columns` wrote.

    Raises:
        DeclarationError: It cannot be read, or is no Parquet.
    """
    with _selected(path) as found:
        return {name: np.asarray(column) for name, column in found.fetchnumpy().items()}


@contextmanager
def _selected(path: Path, *, limit: int | None = None) -> Iterator[Any]:
    """DuckDB's answer with the rows of a file, at most `limit`; what fails while it is read is told as a mistake."""
    import duckdb

    name = str(path)
    if any(letter in name for letter in "*?[]"):
        raise DeclarationError("the path has a wildcard in it.", where=name, fix="Rename the file.")
    try:
        with duckdb.connect(config=_OFFLINE) as connection:
            yield connection.execute("select * from read_parquet($file) limit $most", {"file": name, "most": limit})
    except (duckdb.Error, UnicodeDecodeError, ValueError, OverflowError) as err:
        reason = str(err).splitlines()[0] if str(err) else type(err).__name__
        raise DeclarationError(
            f"no Parquet file: {reason[:200].rstrip('.')}.", where=name, fix="Write it again, or use CSV."
        ) from err


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns of equal length as one Parquet file, whole or not at all.

    Raises:
        DeclarationError: It cannot be written.
    """
    rows = {name: np.ascontiguousarray(column) for name, column in columns.items()}
    _copy("select * from rows", path, rows=rows)


def join_parquet(paths: Sequence[Path], target: Path) -> int:
    """Write the rows of several files of the same columns as one, in order; how many there are.

    Raises:
        DeclarationError: It cannot be written.
    """
    names = ", ".join("'" + str(path).replace("'", "''") + "'" for path in paths)
    return _copy(f"select * from read_parquet([{names}])", target)


def _copy(query: str, path: Path, *, rows: Mapping[str, NDArray[Any]] | None = None) -> int:
    import duckdb

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with beside(path) as temporary, duckdb.connect(config=_OFFLINE) as connection:
            if rows is not None:
                connection.register("rows", dict(rows))
            name = str(temporary).replace("'", "''")
            found = connection.execute(f"copy ({query}) to '{name}' (format parquet)").fetchone()
    except (duckdb.Error, OSError) as err:
        reason = str(err).splitlines()[0][:200]
        raise DeclarationError(f"cannot be written: {reason}", where=str(path), fix="Name another place.") from err
    return int(found[0]) if found else 0
