"""The ledger: a folder of Delta tables that many processes read and write at once.

A day of a table is replaced in one atomic commit; a commit that conflicts with another is tried again on the
fresh version. Readers take no lock. DuckDB reads the live files; it is never the store.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, cast  # rows of a SQL engine have no narrower type

import numpy as np
import numpy.typing as npt

from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger.failures import DamagedLedger, no_folder, reading, writing
from gpuyield.ledger.tables import ALL_TABLES, OF_MOMENTS, ColumnType, Table
from gpuyield.ledger.whole import write_whole

Columns = Mapping[str, npt.NDArray[Any] | Sequence[Any]]

_ATTEMPTS = 12


class Ledger:
    """All that was collected, in one folder (mode 0700)."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def create(cls, root: Path) -> Ledger:
        """The ledger in this folder, made if it is not there.

        Raises:
            DeclarationError: It cannot be made.
        """
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as err:
            raise no_folder(root, err) from err
        return cls(root)

    @classmethod
    def existing(cls, root: Path) -> Ledger:
        """The ledger in this folder.

        Raises:
            DeclarationError: There is none.
        """
        with reading(root):
            there = root.is_dir()
        if not there:
            raise DeclarationError(
                f"no ledger at {root}.",
                where="--ledger",
                fix="Run gpuyield collect first, or name its folder.",
            )
        return cls(root)

    def days(self, table: Table) -> list[str]:
        """The UTC days that a table has, in order."""
        found = self._open(table)
        if found is None:
            return []
        return sorted({cast("str", part["date"]) for part in found.partitions()})

    def replace_day(self, table: Table, day: str, columns: Columns) -> None:
        """Put these rows in the place of a table's day, in one commit; no rows empties the day.

        Rows are sorted by the table's order first, so equal rows give an equal ledger.
        """
        self._commit(table, day, lambda: columns)

    def update_day(self, table: Table, day: str, change: Callable[[dict[str, npt.NDArray[Any]]], Columns]) -> None:
        """Replace a day by what `change` makes of its present rows; a rival's commit in between is not lost."""
        self._commit(table, day, lambda: change(self.read(table, days=[day])))

    def read(
        self,
        table: Table,
        *,
        days: Iterable[str] | None = None,
        columns: Sequence[str] | None = None,
        where: str = "true",
    ) -> dict[str, npt.NDArray[Any]]:
        """Columns of the rows in these days (None: all), as arrays, in the table's order within each day.

        `where` is SQL of ours over the columns, never a user's text. A `date` column comes with them when named.

        Raises:
            SourceError: The ledger is damaged, or cannot be read.
        """
        listed = None if days is None else list(days)
        files = self._files(table, listed)
        try:
            return self._rows(table, files, columns, where)
        except DamagedLedger:
            # A rival may have replaced and vacuumed the files since they were listed.
            fresh = self._files(table, listed)
            if fresh == files:
                raise
            return self._rows(table, fresh, columns, where)

    def _rows(
        self, table: Table, files: Sequence[str], columns: Sequence[str] | None, where: str
    ) -> dict[str, npt.NDArray[Any]]:
        wanted = list(columns) if columns is not None else list(table.columns)
        if not files:
            return {name: _empty(table.columns.get(name, "text")) for name in wanted}
        chosen = ", ".join(f'"{name}"' for name in wanted)
        ordering = ", ".join(f'"{name}"' for name in ("date", *table.order))
        return self.query(
            f"select {chosen} from read_parquet($files, hive_partitioning = true, hive_types_autocast = false)"
            f" where {where} order by {ordering}",
            files=files,
        )

    def query(self, sql: str, **parameters: object) -> dict[str, npt.NDArray[Any]]:
        """Arrays of a SQL query; `$name` stands for a parameter. Files come from `files_of`.

        Raises:
            SourceError: The ledger is damaged, or cannot be read.
        """
        with reading(self.root), _engine().cursor() as connection:
            fetched = connection.execute(sql, parameters).fetchnumpy()
        return {name: _plain(values) for name, values in fetched.items()}

    def files_of(self, table: Table, days: Iterable[str] | None = None) -> list[str]:
        """The live Parquet files of a table, for `read_parquet` in `query`."""
        return self._files(table, days)

    def digest(self) -> str:
        """`sha256:` over the canonical rows of every table's live version.

        Columns that tell when or by which run a row came (`ingested_us`) are left out, so a repeated or resumed
        collection of the same sources gives the same digest.
        """
        total = hashlib.sha256()
        for table in ALL_TABLES:
            names = [name for name in table.columns if name != "ingested_us"]
            for day in self.days(table):
                rows = self.read(table, days=[day], columns=names)
                total.update(f"{table.name}/{day}/{len(rows[names[0]])}\n".encode())
                for name in names:
                    total.update(f"{name}:".encode())
                    total.update(_column_bytes(rows[name]))
        return f"sha256:{total.hexdigest()}"

    def vacuum(self) -> int:
        """Delete files that no table version needs any more; returns how many."""
        deleted = 0
        for table in (*ALL_TABLES, *OF_MOMENTS):
            found = self._open(table)
            if found is not None:
                with writing(self.root / table.name), reading(self.root / table.name):
                    deleted += len(found.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False))
        return deleted

    def save_document(self, name: str, document: bytes, inputs: bytes) -> None:
        """Keep a document and its canonical inputs in `documents/`, under the digest of the inputs.

        Raises:
            SourceError: No room, or no rights.
        """
        path = self.document_path(name, hashlib.sha256(inputs).hexdigest())
        with writing(path.parent):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, document)
            write_whole(path.with_name(f"{path.stem}.inputs.json"), inputs)

    def document_path(self, name: str, inputs_digest: str) -> Path:
        """Where a document with these inputs lies, if it was ever kept; `sha256:` before the digest may be left out."""
        return self.root / "documents" / f"{name}-{inputs_digest.removeprefix('sha256:')}.json"

    def _commit(self, table: Table, day: str, make: Callable[[], Columns]) -> None:
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        path = self.root / table.name
        for attempt in range(_ATTEMPTS):
            try:
                version = self._open(table) or _created(path, table)
                rows = _arrow(table, day, make())
                with writing(path):
                    write_deltalake(version, rows, mode="overwrite", predicate=f"date = '{day}'")
                return
            except (CommitFailedError, DeltaError) as err:
                if attempt == _ATTEMPTS - 1:
                    raise SourceError(
                        f"another process keeps writing {table.name} of {day}.",
                        where=str(path),
                        fix="Run it again when the other gpuyield has ended.",
                    ) from err
                time.sleep(0.02 * 2 ** min(attempt, 6))

    def _open(self, table: Table) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        path = self.root / table.name
        with reading(path):
            # Looked for first: a rival makes the log before its first row, so rows without a log have lost it.
            has_rows = (path.exists() and not path.is_dir()) or any(path.glob("date=*/*.parquet"))
            if (path / "_delta_log").is_dir():
                with suppress(TableNotFoundError):
                    return DeltaTable(str(path))
            if has_rows:
                raise DamagedLedger(
                    "the ledger is damaged: a table has lost its log.",
                    where=str(path),
                    fix="Put the folder back from a copy, or move it away and run gpuyield collect and"
                    " outcomes import again.",
                )
            return None

    def _files(self, table: Table, days: Iterable[str] | None) -> list[str]:
        found = self._open(table)
        if found is None:
            return []
        if days is None:
            return sorted(found.file_uris())
        wanted = sorted(set(days))
        if not wanted:
            return []
        return sorted(found.file_uris(file_pruning_predicate=[("date", "in", wanted)]))


def _created(path: Path, table: Table) -> Any:
    """The table, made empty first: rows written by the act of creating it would not conflict with a rival's."""
    from arro3.core import DataType, Field, Schema
    from deltalake import DeltaTable

    fields = [Field(name, _arrow_types()[kind], nullable=True) for name, kind in table.columns.items()]
    fields.append(Field("date", DataType.utf8(), nullable=True))
    with writing(path):
        return DeltaTable.create(str(path), Schema(fields), mode="ignore", partition_by=["date"])


def _arrow_types() -> dict[ColumnType, Any]:
    from arro3.core import DataType

    return {
        "int": DataType.int64(),
        "float": DataType.float64(),
        "text": DataType.utf8(),
        "bool": DataType.bool(),
    }


def _arrow(table: Table, day: str, columns: Columns) -> Any:
    from arro3.core import Array, DataType
    from arro3.core import Table as ArrowTable

    arrow_types = _arrow_types()
    count = len(columns[table.order[0]])
    order = _sorting(table, columns) if count else np.zeros(0, dtype=np.int64)
    made: dict[str, Any] = {}
    for name, kind in table.columns.items():
        values = columns[name]
        if kind in ("int", "float"):
            typed = np.asarray(values, dtype=np.int64 if kind == "int" else np.float64)[order]
            made[name] = Array.from_numpy(np.ascontiguousarray(typed))
        else:
            listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
            made[name] = Array([listed[at] for at in order], type=arrow_types[kind])
    made["date"] = Array([day] * count, type=DataType.utf8())
    return ArrowTable.from_pydict(made)


def _sorting(table: Table, columns: Columns) -> npt.NDArray[np.int64]:
    keys = []
    for name in reversed(table.order):
        values = columns[name]
        if table.columns[name] == "text":
            _, codes = np.unique(np.asarray(values, dtype=np.str_), return_inverse=True)
            keys.append(codes)
        else:
            keys.append(np.asarray(values))
    return np.lexsort(keys).astype(np.int64)


@cache
def _engine() -> Any:
    """DuckDB in memory, begun once in a process; each query has a cursor of its own, as threads need it."""
    import duckdb

    return duckdb.connect()


def _empty(kind: ColumnType) -> npt.NDArray[Any]:
    return np.zeros(0, dtype={"int": np.int64, "float": np.float64, "text": object, "bool": np.bool_}[kind])


def _plain(values: Any) -> npt.NDArray[Any]:
    """The values as a plain array; SQL's NULL is None."""
    if not isinstance(values, np.ma.MaskedArray):
        return np.asarray(values)
    if values.dtype == object or np.ma.getmaskarray(values).any():
        return np.asarray(np.ma.filled(values.astype(object), None))
    return np.asarray(np.ma.getdata(values))


def _column_bytes(values: npt.NDArray[Any]) -> bytes:
    if values.dtype == object:
        return json.dumps(values.tolist(), ensure_ascii=False, separators=(",", ":")).encode()
    if values.dtype.kind == "f":
        # One spelling for NaN, whatever its bits.
        values = np.where(np.isnan(values), np.float64("nan"), values)
    return np.ascontiguousarray(values).tobytes()
