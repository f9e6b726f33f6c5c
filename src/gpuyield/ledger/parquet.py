"""Read a Parquet file that a person named: column names, and rows as Python values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyield.errors import DeclarationError

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
    import duckdb

    name = str(path)
    if any(letter in name for letter in "*?[]"):
        raise DeclarationError("the path has a wildcard in it.", where=name, fix="Rename the file.")
    try:
        with duckdb.connect(config=_OFFLINE) as connection:
            found = connection.execute(
                "select * from read_parquet($file) limit $most", {"file": name, "most": max_rows + 1}
            )
            columns = tuple(str(column[0]) for column in found.description)
            rows = found.fetchall()
    except (duckdb.Error, UnicodeDecodeError, ValueError, OverflowError) as err:
        reason = str(err).splitlines()[0] if str(err) else type(err).__name__
        raise DeclarationError(
            f"no Parquet file: {reason[:200]}", where=name, fix="Write it again, or use CSV."
        ) from err
    if len(rows) > max_rows:
        raise DeclarationError(f"more than {max_rows:,} rows.", where=name, fix="Split the file.")
    return ParquetRows(columns=columns, rows=rows)
