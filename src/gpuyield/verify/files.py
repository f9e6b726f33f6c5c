"""Documents and inputs as files: where the inputs of a document lie, and whether raw sources are the listed ones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any  # JSON has no narrower type than this.

from .report import Refused
from .values import decode, items, record

MOST_BYTES = 256 << 20
"""Of a document, and of its inputs; a plan of the most jobs that are planned has less than half of it. Reading takes
some six times as many bytes of memory."""


def read_document(path: Path) -> dict[str, Any]:
    """The decoded document.

    Raises:
        Refused: The file is no JSON object.
        OSError: The file cannot be read.
    """
    return record(decode(read_limited(path)), str(path))


def read_limited(path: Path) -> bytes:
    """The bytes of a document, or of its inputs.

    Raises:
        Refused: There are more than `MOST_BYTES`.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise Refused(f"{path} is larger than {MOST_BYTES >> 20} MiB.")
    return data


def find_inputs(path: Path, document: dict[str, Any], ledger: Path | None = None) -> Path | None:
    """The canonical inputs of a document: `NAME.inputs.json` beside it, else by digest in `LEDGER/documents`.

    A writer that was killed between the two files leaves others beside it: then those of the ledger, if it has them.
    """
    near = _beside(path)
    digest = document.get("inputs_digest")
    if ledger is None or not isinstance(digest, str):
        return near
    wanted = digest.removeprefix("sha256:")
    if near is not None and _sha256(near) == wanted:
        return near
    kept = ledger / "documents"
    named = sorted(kept.glob("*.inputs.json")) if kept.is_dir() else []
    likely = [one for one in named if wanted[:16] and wanted[:16] in one.name]
    for one in [*likely, *(one for one in named if one not in likely)]:
        if _sha256(one) == wanted:
            return one
    return near


def passed_over(path: Path, used: Path) -> Path | None:
    """The inputs that lie beside a document where others were used; None where there are none, or those were."""
    near = _beside(path)
    return None if near is None or near.samefile(used) else near


def _beside(path: Path) -> Path | None:
    near = path.with_name(f"{path.name.removesuffix('.json')}.inputs.json")
    return near if near.is_file() else None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def compare_sources(inputs: bytes, files: Sequence[Path]) -> list[str]:
    """For each file whose SHA-256 no listed source of the inputs has: a sentence that says so."""
    sources = record(decode(inputs), "the inputs").get("sources")
    listed = {
        str(record(one, "a source").get("sha256", "")).removeprefix("sha256:")
        for one in items(sources or [], "sources")
    }
    return [
        f"{path} is not a source of this document: its SHA-256 is not listed in the inputs."
        for path in files
        if _sha256(path) not in listed
    ]
