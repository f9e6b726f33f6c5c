"""Re-check a document from its canonical inputs, with the standard library alone.

This folder imports nothing of gpuyield: copy it anywhere and run `python -m verify DOC`. What it re-checks, and the
shapes of certificates: `docs/reference/certificates.md`.
"""

from .check import check
from .files import compare_sources, find_inputs, passed_over, read_document, read_limited
from .report import Finding, Report

__all__ = [
    "Finding",
    "Report",
    "check",
    "compare_sources",
    "find_inputs",
    "passed_over",
    "read_document",
    "read_limited",
]
