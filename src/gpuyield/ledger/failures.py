"""What can go wrong with a folder of Delta tables that is no bug of ours, in words: damage, a full disk, no rights."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuyield.errors import DeclarationError, SourceError

_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.EMFILE, *_ROOM)
_CODE = re.compile(r"os error (\d+)|Os \{ code: (\d+)")


class DamagedLedger(SourceError):
    """A file of the ledger is missing, cut off or not what it should be."""


@contextmanager
def reading(place: Path) -> Iterator[None]:
    """Turn what reading a table's log or files can raise into words.

    Raises:
        DamagedLedger: A file is missing, cut off or garbled.
        SourceError: The folder cannot be read.
    """
    try:
        yield
    except OSError as err:
        raise SourceError(
            f"the ledger cannot be read: {err.strerror or type(err).__name__}.",
            where=str(err.filename or place),
            fix="Give read access to the folder, or name another one with --ledger.",
        ) from err
    except Exception as err:
        if not _is_damage(err):
            raise
        code = _os_code(err)
        if code in _REFUSED:
            raise SourceError(
                f"the ledger cannot be read: {os.strerror(code)}.",
                where=str(place),
                fix="Give read access to the folder, or name another one with --ledger.",
            ) from err
        raise DamagedLedger(
            "the ledger is damaged: a file of it is missing, cut off or garbled.",
            where=str(place),
            fix="If a vacuum ran just now, run this again. Else put the folder back from a copy, or move it away and"
            " run gpuyield collect and outcomes import again.",
        ) from err


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn what the operating system refuses while writing into words; other errors pass.

    Raises:
        SourceError: No room, no rights, or a file where a folder should be.
    """
    try:
        yield
    except OSError as err:
        raise _unwritable(err.errno or 0, Path(str(err.filename or place))) from err
    except Exception as err:
        code = _os_code(err)
        if not _is_damage(err) or code not in _REFUSED:
            raise
        raise _unwritable(code, place) from err


def no_folder(root: Path, err: OSError) -> DeclarationError:
    """The error for a ledger's folder that cannot be made."""
    return DeclarationError(
        f"no ledger can be made at {root}: {err.strerror or err}.",
        where="--ledger",
        fix="Name a folder that can be written.",
    )


def _unwritable(code: int, place: Path) -> SourceError:
    full = code in _ROOM
    return SourceError(
        f"the ledger cannot be written: {os.strerror(code) if code else 'no reason was given'}.",
        where=str(place),
        fix="Make room and run it again; what was committed before is whole."
        if full
        else "Give write access to the folder, or name another one with --ledger.",
    )


def _os_code(err: BaseException) -> int:
    found = _CODE.search(str(err))
    return int(found[1] or found[2]) if found else 0


def _is_damage(err: Exception) -> bool:
    """Whether the store itself failed, and not a query or a type of ours."""
    import duckdb
    from deltalake.exceptions import DeltaError

    ours = (duckdb.ParserException, duckdb.CatalogException)
    return isinstance(err, (DeltaError, UnicodeDecodeError)) or (
        isinstance(err, duckdb.Error) and not isinstance(err, ours)
    )
