"""What is remembered of Workloads that Kueue may delete: rows of a ledger's day, each Workload once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any  # Rows of a SQL engine have no narrower type.

import numpy.typing as npt

from gpuyield.ledger import Columns, Ledger
from gpuyield.ledger.tables import Table
from gpuyield.units import day_name

MISSING = -1
"""A number of a row that is not known."""
Row = Mapping[str, object]


def remember(ledger: Ledger, table: Table, rows: Iterable[tuple[int, Row]]) -> None:
    """Add rows to the days of their instants; the row of a `uid` that is there already is replaced.

    Raises:
        SourceError: No room, no rights, or a damaged ledger.
    """
    by_day: dict[str, dict[object, Row]] = defaultdict(dict)
    for at_ms, row in rows:
        by_day[day_name(at_ms)][row["uid"]] = row
    for day, new in sorted(by_day.items()):

        def united(old: dict[str, npt.NDArray[Any]], new: dict[object, Row] = new) -> Columns:
            kept = [at for at, uid in enumerate(old["uid"]) if uid not in new]
            return {
                name: [*(old[name][at] for at in kept), *(row[name] for row in new.values())] for name in table.columns
            }

        ledger.update_day(table, day, united)


def recalled(ledger: Ledger, table: Table, *, days: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """The rows of these days (None: all), in the table's order.

    Raises:
        SourceError: The ledger is damaged, or cannot be read.
    """
    columns = ledger.read(table, days=days)
    return [{name: columns[name][at] for name in table.columns} for at in range(len(columns["uid"]))]


def number(value: object) -> int | None:
    """A number of a row; None where it is not known."""
    found = int(str(value))
    return None if found == MISSING else found
