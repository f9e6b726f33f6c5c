"""Delta tables in one folder: schemas, atomic replacement of a day, reading through DuckDB."""

from gpuyield.ledger.ledger import Columns, Ledger

__all__ = ["Columns", "Ledger"]
