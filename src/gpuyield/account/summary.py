"""Cells summed by key: the waterfall of the cluster and of each team, hour, workload, flavor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyield.account.account import Accounting
from gpuyield.account.holders import idle_holders
from gpuyield.errors import DeclarationError, InternalError
from gpuyield.model.cells import CLASS_INDEX, CLASSES, Cells, Ints
from gpuyield.model.evidence import Evidence
from gpuyield.model.waterfall import Account, AccountRow, GpuClass, Leaf, Waterfall
from gpuyield.units import HOUR_MS, format_instant

KEYS = ("team", "namespace", "family", "workload", "flavor", "node", "hour")

_UNKNOWN_CLASSES = frozenset({GpuClass.UNOBSERVED})


def summarise(accounting: Accounting, *, by: Sequence[str] = ()) -> Account:
    """The account of a window, with a row for each combination of the keys in `by`.

    Raises:
        DeclarationError: A key that does not exist.
        InternalError: The parts do not sum to the whole.
    """
    unknown = [key for key in by if key not in KEYS]
    if unknown:
        raise DeclarationError(
            f"cannot account by {', '.join(unknown)}.", where="--by", fix=f"Choose among {', '.join(KEYS)}."
        )
    whole = waterfall_of(accounting.cells, np.arange(len(accounting.cells.gpu_ms)))
    rows = tuple(
        AccountRow(key=dict(zip(by, values, strict=True)), waterfall=waterfall_of(accounting.cells, chosen))
        for values, chosen in grouped(accounting.cells, by)
    )
    if by and sum(row.waterfall.capacity_gpu_ms for row in rows) != whole.capacity_gpu_ms:
        raise InternalError(f"rows by {', '.join(by)} do not sum to the cluster.")
    return Account(
        window=accounting.window,
        by=tuple(by),
        waterfall=whole,
        rows=rows,
        holders=idle_holders(accounting),
        gaps=accounting.gaps,
    )


def waterfall_of(cells: Cells, chosen: Ints) -> Waterfall:
    """The waterfall of the chosen cells; all leaves are there, in order."""
    classes = cells.gpu_class[chosen]
    sums = np.zeros((len(CLASSES), 4), dtype=np.int64)
    columns = (cells.gpu_ms, cells.lo, cells.hi, cells.bounded.astype(np.int64))
    np.add.at(sums, classes, np.stack([column[chosen] for column in columns], axis=1))
    leaves = []
    for gpu_class in CLASSES:
        gpu_ms, lo, hi, bounded = (int(one) for one in sums[CLASS_INDEX[gpu_class]])
        leaves.append(
            Leaf(
                gpu_class=gpu_class,
                gpu_ms=gpu_ms,
                lo=min(max(0, lo), gpu_ms),
                hi=max(hi, gpu_ms),
                evidence=_evidence(gpu_class, gpu_ms, bounded > 0),
            )
        )
    return Waterfall(leaves=tuple(leaves))


def _evidence(gpu_class: GpuClass, gpu_ms: int, bounded: bool) -> Evidence:
    if gpu_class in _UNKNOWN_CLASSES and gpu_ms:
        return Evidence.UNKNOWN
    return Evidence.BOUNDED if bounded else Evidence.MEASURED


def grouped(cells: Cells, by: Sequence[str]) -> list[tuple[tuple[str | None, ...], Ints]]:
    """Indices of the cells of each key, keys in order and nobody's (None) last."""
    if not by:
        return []
    columns, words = zip(*(_words(cells, key) for key in by), strict=True)
    stacked = np.stack(columns, axis=1)
    found, where = np.unique(stacked, axis=0, return_inverse=True)
    order = np.argsort(where.reshape(-1), kind="stable")
    bounds = np.searchsorted(where.reshape(-1)[order], np.arange(len(found) + 1))
    groups = [
        (
            tuple(words[at][int(code)] if code >= 0 else None for at, code in enumerate(codes)),
            order[bounds[index] : bounds[index + 1]],
        )
        for index, codes in enumerate(found)
    ]
    return sorted(groups, key=lambda pair: tuple((word is None, word or "") for word in pair[0]))


def _words(cells: Cells, key: str) -> tuple[Ints, list[str]]:
    """A code for each cell, and the word of each code; -1 is nobody."""
    if key == "hour":
        starts, codes = np.unique(cells.from_ms // HOUR_MS * HOUR_MS, return_inverse=True)
        return codes.reshape(-1).astype(np.int64), [format_instant(int(one)) for one in starts]
    if key == "flavor":
        return cells.flavor, list(cells.flavors)
    if key == "node":
        return cells.node, list(cells.nodes)
    words: list[str | None] = [getattr(owner, key) for owner in cells.owners]
    distinct = sorted({word for word in words if word is not None})
    at: dict[str | None, int] = {None: -1, **{word: index for index, word in enumerate(distinct)}}
    codes = np.array([*(at[word] for word in words), -1], dtype=np.int64)
    return codes[cells.owner], distinct
