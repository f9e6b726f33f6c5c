"""Documents with their canonical inputs: beside each other where asked for, and always in the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.model.document import canonical_bytes


def keep(
    name: str, document: Mapping[str, Any], inputs: Mapping[str, Any], *, ledger_root: Path, out: Path | None
) -> None:
    """Write a document and its inputs to the ledger, and to `out` and `NAME.inputs.json` beside it."""
    text = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    data = canonical_bytes(inputs)
    Ledger.create(ledger_root).save_document(name, text, data)
    if out is not None:
        write(out, text)
        write(inputs_path(out), data)


def inputs_path(path: Path) -> Path:
    """Where the canonical inputs of a document lie: `NAME.inputs.json`."""
    return path.with_name(f"{path.name.removesuffix('.json')}.inputs.json")


def write(path: Path, data: bytes) -> None:
    """Write a file that a person named, whole or not at all.

    Raises:
        DeclarationError: It cannot be written.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as err:
        raise DeclarationError(
            f"cannot be written: {err.strerror or err}.", where=str(path), fix="Name another file with --out."
        ) from err


def read_json(path: Path) -> dict[str, Any]:
    """A document from a file.

    Raises:
        DeclarationError: It cannot be read, or is none.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as err:
        raise DeclarationError(
            f"cannot be read: {err.strerror or err}.", where=str(path), fix="Name a document, such as plan.json."
        ) from err
    except ValueError as err:
        raise DeclarationError(f"not JSON: {err}.", where=str(path), fix="Name a document, such as plan.json.") from err
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        raise DeclarationError("no document of gpuyield.", where=str(path), fix="Name one that plan or decide wrote.")
    return found
