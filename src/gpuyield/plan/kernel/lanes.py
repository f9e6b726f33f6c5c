"""Two lanes for one source: compiled by numba, or as plain Python where numba is missing or few jobs do not need it.

Both give identical arrays. Compiled code is kept in a folder that the edge names (`keep_in`), one per version of the
source; without one, or where nothing can be written, each process compiles for itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias  # numba's compiled functions have no types.

from gpuyield.plan.kernel.fit import FIT
from gpuyield.plan.kernel.learning import LEARNING, run
from gpuyield.plan.kernel.levels import LEVELS
from gpuyield.plan.kernel.project import PROJECT, breed
from gpuyield.plan.kernel.repair import REPAIR
from gpuyield.plan.kernel.serial import SERIAL
from gpuyield.plan.kernel.tariff import TARIFF
from gpuyield.plan.outlook.execution import EXECUTION

Lane: TypeAlias = dict[str, Callable[..., Any]]

SOURCES: tuple[Any, ...] = (*FIT, *SERIAL, *LEVELS, *REPAIR, *TARIFF, *EXECUTION)
"""Every function of the kernel, behind those that it calls."""

ENTRIES = frozenset(
    {"serial", "sweep", "repair", "link_all", "hold_all", "relieve", "follow", "sell", "least_costs", "late_in"}
)
"""Those that are called from outside; compiled, the others cannot be."""

_log = logging.getLogger(__name__)
_kept: list[Path] = []


def keep_in(folder: Path) -> None:
    """Keep compiled code in this folder, which only its owner may write: what lies in it is run.

    To be said before the first plan of a process.
    """
    _kept[:] = [folder]


def is_kept() -> bool:
    """Whether compiled code of this version lies in the folder already."""
    return bool(_kept) and (_kept[0] / _version()).is_dir()


def is_learning_loaded() -> bool:
    """Whether this process has the search with learning compiled."""
    return compiled_learning.cache_info().currsize > 0


def is_learning_ready() -> bool:
    """Whether this process has it, or an earlier one has kept it."""
    return is_learning_loaded() or (bool(_kept) and _learning_mark().exists())


def keep_learning() -> None:
    """Note for later processes that the search with learning is compiled."""
    if _kept:
        with contextlib.suppress(OSError):
            _learning_mark().touch()


def _learning_mark() -> Path:
    return _kept[0] / _version() / "learning"


@cache
def plain() -> Lane:
    """The source as it stands."""
    return _bound(SOURCES, lambda function: function)


@cache
def compiled() -> Lane:
    """The source compiled; as it stands where numba is missing."""
    try:
        inner = _compiler(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
        outer = _compiler(no_cfunc_wrapper=True, error_model="numpy")
        return _bound(SOURCES, lambda source: (outer if source.__name__ in ENTRIES else inner)(source))
    except ImportError:
        _log.warning("numba is missing: large problems are planned slowly.")
        return plain()


@cache
def compiled_learning() -> Callable[..., Any]:
    """`run` of the search with learning, compiled by itself: it is long, and small problems do without it."""
    return _entry(LEARNING, run)


@cache
def compiled_project() -> Callable[..., Any]:
    """`breed` of the search for an early end, compiled by itself."""
    return _entry(PROJECT, breed)


def _entry(sources: Sequence[Any], entry: Callable[..., Any]) -> Callable[..., Any]:
    """One function compiled with those that it calls; as it stands where numba is missing."""
    try:
        inner = _compiler(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy", _nrt=False)
        outer = _compiler(no_cfunc_wrapper=True, error_model="numpy", _nrt=False)
    except ImportError:
        return entry
    return _bound(sources, lambda source: (outer if source.__name__ == entry.__name__ else inner)(source))[
        entry.__name__
    ]


def _compiler(**options: object) -> Callable[[FunctionType], Callable[..., Any]]:
    """What compiles one function, and keeps it where it can.

    Raises:
        ImportError: numba is missing.
    """
    numba: Any = import_module("numba")
    if _kept:
        numba.config.CACHE_DIR = str(_kept[0] / _version())

    def compile_one(function: FunctionType) -> Callable[..., Any]:
        if _kept:
            try:
                return numba.njit(cache=True, **options)(function)  # type: ignore[no-any-return]
            except (RuntimeError, OSError):
                _log.debug("compiled code is not kept", exc_info=True)
                _kept.clear()
        return numba.njit(**options)(function)  # type: ignore[no-any-return]

    return compile_one


def _bound(sources: Sequence[Any], wrap: Callable[[FunctionType], Callable[..., Any]]) -> Lane:
    """The functions, each calling the others of its own lane."""
    lane: Lane = {}
    for source in sources:
        twin = FunctionType(source.__code__, {**source.__globals__, **lane}, source.__name__, source.__defaults__)
        twin.__qualname__ = source.__qualname__
        lane[source.__name__] = wrap(twin)
    return lane


def _version() -> str:
    said = hashlib.sha256()
    for source in (*SOURCES, *LEARNING, *PROJECT):
        code = source.__code__
        said.update(code.co_code)
        said.update(
            repr((code.co_name, code.co_names, [one for one in code.co_consts if not hasattr(one, "co_code")])).encode()
        )
    return said.hexdigest()[:16]
