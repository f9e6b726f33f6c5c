"""The page as JSON: every table with its plain values and with the texts that people read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any  # JSON has no narrower type than this.

from gpuyield.model.document import schema_name
from gpuyield.report.page import Page
from gpuyield.report.tables import Cell, Column, Kind, Table
from gpuyield.units import format_instant


def page_document(page: Page) -> dict[str, Any]:
    """The `report` document."""
    return {
        "schema": schema_name("report"),
        "cluster": page.cluster,
        "window": page.window,
        "status": page.status_word,
        "headline": page.headline,
        "lead": list(page.lead),
        "figures": [{"label": one.label, "value": one.value, "note": one.note} for one in page.figures],
        "sections": [
            {
                "id": section.id,
                "kicker": section.kicker,
                "title": section.title,
                "lead": list(section.lead),
                "charts": [{"id": chart.id, "title": chart.title, "alt": chart.alt} for chart in section.charts],
                "tables": [table_document(table) for table in section.tables],
                "how": section.how,
            }
            for section in page.sections
        ],
        "next": [{"command": step.command, "why": step.why} for step in page.next],
        "footer": list(page.footer),
    }


def table_document(table: Table) -> dict[str, Any]:
    """A table: its plain values under their keys, and the texts."""
    return {
        "title": table.title,
        "columns": [{"key": one.key, "title": one.title, "kind": str(one.kind)} for one in table.columns],
        "rows": [
            {column.key: _plain(cell, column) for cell, column in zip(row, table.columns, strict=True)}
            for row in table.body
        ],
        "texts": table.texts(),
    }


def _plain(cell: Cell, column: Column) -> Any:
    if isinstance(cell, Decimal):
        return f"{cell:f}"
    if column.kind is Kind.INSTANT and isinstance(cell, int):
        return format_instant(cell)
    return cell
