"""The provider's bill that the declaration names."""

from __future__ import annotations

from pathlib import Path

from gpuyield.cost.focus import read_charges
from gpuyield.errors import DeclarationError
from gpuyield.model.cost import Charge
from gpuyield.model.declaration import Declaration
from gpuyield.steps.setting import files_of


def declared_charges(declared: Declaration, *, folder: Path) -> tuple[Charge, ...] | None:
    """The charges of all files of the bill; None where none is declared. A path that meets no file has none.

    Raises:
        DeclarationError: A file cannot be read, or rows of it are wrong.
    """
    if not declared.bill:
        return None
    places = sorted({path for one in declared.bill for path in files_of(one, folder)})
    return tuple(charge for path in places for charge in _charges(path))


def _charges(path: Path) -> tuple[Charge, ...]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return read_charges(lines, file=str(path))
    except OSError as err:
        raise DeclarationError(
            f"cannot be read: {err.strerror or err}.", where=str(path), fix="Name files that can be read under bill."
        ) from err
