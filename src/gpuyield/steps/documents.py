"""Documents with their canonical inputs: beside each other where asked for, and always in the ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.whole import write_whole
from gpuyield.model.document import canonical_bytes
from gpuyield.verify import find_inputs


def keep(
    name: str, document: Mapping[str, Any], inputs: Mapping[str, Any], *, ledger_root: Path, out: Path | None
) -> tuple[str, ...]:
    """Write a document and its inputs to `out` and `NAME.inputs.json` beside it, and a copy to the ledger.

    An answer does not depend on its copy: where the ledger takes none, what is returned says so.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"
    data = canonical_bytes(inputs)
    notes: tuple[str, ...] = ()
    try:
        # First, so that a document whose neighbour was replaced by a writer that was killed still finds its inputs.
        Ledger.create(ledger_root).save_document(name, text, data)
    except (DeclarationError, SourceError) as err:
        kept = f"It is in {out}." if out is not None else "Keep it with --out FILE, or name a folder with --ledger."
        notes = (f"No copy of this answer is in the ledger: {err.mistakes[0].what} {kept}",)
    if out is not None:
        write(inputs_path(out), data)
        write(out, text)
    return notes


def place_of_inputs(document: Path, found: dict[str, Any], inputs: Path | None, ledger_root: Path) -> Path:
    """Where the canonical inputs of a document are: as named, else beside it, else in the ledger.

    Raises:
        DeclarationError: They are nowhere.
    """
    place = inputs if inputs is not None else find_inputs(document, found, ledger_root)
    if place is None:
        raise DeclarationError(
            "its canonical inputs are not found, neither beside it nor in the ledger.",
            where=str(document),
            fix="Name them with --inputs FILE.",
        )
    return place


def write_answer(document: Mapping[str, Any], out: Path | None) -> tuple[str, ...]:
    """Write a document that has no inputs to `out` where it is named; what to say of that."""
    if out is None:
        return ()
    write(out, json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n")
    return (f"It is in {out}.",)


def inputs_path(path: Path) -> Path:
    """Where the canonical inputs of a document lie: `NAME.inputs.json`."""
    return path.with_name(f"{path.name.removesuffix('.json')}.inputs.json")


def write(path: Path, data: bytes) -> None:
    """Write a file that a person named, whole or not at all.

    Raises:
        DeclarationError: It cannot be written.
    """
    try:
        target = path.resolve()
        if target.exists() and not target.is_file() and not target.is_dir():
            # Replacing a device or a pipe would take it away from everybody.
            raise DeclarationError("is no file.", where=str(path), fix="Name a file with --out.")
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, data)
    except (OSError, RuntimeError) as err:
        reason = (err.strerror if isinstance(err, OSError) else "") or str(err)
        raise DeclarationError(
            f"cannot be written: {reason}.", where=str(path), fix="Name another file with --out."
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
    except (ValueError, RecursionError) as err:
        raise DeclarationError(f"not JSON: {err}.", where=str(path), fix="Name a document, such as plan.json.") from err
    if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
        raise DeclarationError("no document of gpuyield.", where=str(path), fix="Name one that plan or decide wrote.")
    return found
