"""What a verb works with: the declaration, the ledger, the window, and the time now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from glob import glob
from pathlib import Path
from zoneinfo import ZoneInfo

from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import COVERAGE, RUNS, RunKind
from gpuyield.model.declaration import Declaration, FileSource
from gpuyield.units import Window, day_window, parse_span, parse_window, parse_zone

DEFAULT_WINDOW = "14d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A declaration with the ledger that belongs to it; `folder` is where relative paths start."""

    declaration: Declaration
    ledger: Ledger
    folder: Path

    @property
    def zone(self) -> ZoneInfo:
        """The zone in which people read times."""
        return parse_zone(self.declaration.reporting_zone)


def wall_clock_ms() -> int:
    """The time now, which steps hand to the rooms as an argument."""
    return time.time_ns() // 1_000_000


def read_declaration(file: Path, *, required: bool = False) -> Declaration:
    """What the team declares; where the default file is absent and not required, a declaration of nothing.

    Raises:
        DeclarationError: The file has mistakes, or is named (or required) and absent.
    """
    if not file.exists() and not required and file == Path("gpuyield.yaml"):
        return Declaration()
    if not file.exists():
        raise DeclarationError(
            f"no file {file}.", where=str(file), fix="Draft one with gpuyield init, or name it with -f."
        )
    from gpuyield.declare.yaml_file import load_declaration

    return load_declaration(file)


def files_of(source: FileSource, folder: Path) -> list[Path]:
    """The files that a declared path meets, in order; a relative one starts in the declaration's folder."""
    return sorted({folder / found for found in glob(source.path, root_dir=folder, recursive=True)})


def read_setting(file: Path, ledger_root: Path) -> Setting:
    """The declaration and the ledger, which must be there."""
    return Setting(declaration=read_declaration(file), ledger=Ledger.existing(ledger_root), folder=file.parent)


def covered(ledger: Ledger) -> Window | None:
    """The span in which anything was seen, from its first to its last day; None where nothing was.

    It ends with the last sample of the cluster's state, not with the reading: a store that stopped long ago says
    nothing about today.
    """
    days = ledger.days(COVERAGE)
    if not days:
        return None
    rows = ledger.read(COVERAGE, days=[days[0], days[-1]], columns=["from_ms", "to_ms"])
    if not len(rows["from_ms"]):
        return None
    read = Window(max(int(min(rows["from_ms"])), day_window(days[0]).from_ms), int(max(rows["to_ms"])))
    last = _last_seen(ledger)
    return read if last is None else read.cut(Window(read.from_ms, max(read.from_ms, last))) or read


def was_collected(ledger_root: Path) -> bool:
    """Whether anything was ever read into this ledger."""
    return ledger_root.is_dir() and covered(Ledger(ledger_root)) is not None


def _last_seen(ledger: Ledger) -> int | None:
    for day in reversed(ledger.days(RUNS)):
        rows = ledger.read(
            RUNS, days=[day], columns=["to_ms", "interval_ms"], where=f"kind = '{RunKind.NODE_CAPACITY}'"
        )
        if len(rows["to_ms"]):
            return max(int(at + length) for at, length in zip(rows["to_ms"], rows["interval_ms"], strict=True))
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The window that an answer is about, and the one that was asked for where the ledger holds less of it."""

    window: Window
    asked: Window


def chosen_window(setting: Setting, *, window: str | None, begin: str | None, end: str | None) -> Chosen:
    """The window asked for; lengths such as 14d end where the ledger ends, and never start before it.

    Raises:
        DeclarationError: Options that contradict, no such window, or a ledger without anything in it.
    """
    if (begin is None) != (end is None):
        raise DeclarationError("--from and --to go together.", where="--from", fix="Give both, or --window 14d.")
    if begin is not None and end is not None:
        if window is not None:
            raise DeclarationError("--window and --from/--to contradict.", where="--window", fix="Give one of them.")
        span = parse_span(begin, end, zone=setting.zone)
        return Chosen(window=span, asked=span)
    read = covered(setting.ledger)
    if read is None:
        raise DeclarationError(
            "the ledger is empty.", where=str(setting.ledger.root), fix="Run gpuyield collect --window 14d first."
        )
    asked = parse_window(window or DEFAULT_WINDOW, now_ms=read.to_ms, zone=setting.zone)
    cut = asked.cut(read)
    if cut is None:
        raise DeclarationError(
            f"nothing was collected in {asked}; the ledger holds {read}.",
            where="--window",
            fix="Run gpuyield collect for it, or ask for another window.",
        )
    return Chosen(window=cut, asked=asked)


def keys(by: str | None) -> tuple[str, ...]:
    """`team,hour` as keys."""
    return tuple(part.strip() for part in by.split(",") if part.strip()) if by else ()
