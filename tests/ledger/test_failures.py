"""A ledger that cannot be read or written is said to be so, with a place and a fix; it is never a crash."""

from __future__ import annotations

import multiprocessing
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.failures import DamagedLedger
from gpuyield.ledger.tables import SAMPLES

DAY, NEXT = "2026-11-10", "2026-11-11"
ROWS = {"series": np.arange(50), "ts_ms": np.arange(50), "value": np.zeros(50)}


def parquet(root: Path) -> list[Path]:
    return sorted((root / "samples").rglob("*.parquet"))


def logs(root: Path) -> list[Path]:
    return sorted((root / "samples" / "_delta_log").glob("*.json"))


def cut_off(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble(paths: list[Path]) -> None:
    for path in paths:
        path.write_bytes(b"\xff\x00{")


def remove(paths: list[Path]) -> None:
    for path in paths:
        path.unlink()


@pytest.mark.parametrize("files", [parquet, logs], ids=["rows", "log"])
@pytest.mark.parametrize("harm", [cut_off, garble, remove])
def test_a_harmed_file_is_told_as_damage(
    tmp_path: Path, files: Callable[[Path], list[Path]], harm: Callable[[list[Path]], None]
) -> None:
    ledger = Ledger.create(tmp_path)
    ledger.replace_day(SAMPLES, DAY, ROWS)
    harm(files(tmp_path))

    for ask in (lambda: ledger.read(SAMPLES), ledger.digest, lambda: ledger.update_day(SAMPLES, DAY, lambda old: old)):
        with pytest.raises(DamagedLedger) as caught:
            ask()
        assert str(tmp_path) in caught.value.mistakes[0].where
        assert "gpuyield collect" in caught.value.mistakes[0].fix


def test_a_file_in_the_place_of_the_ledger_is_a_mistake_of_the_option(tmp_path: Path) -> None:
    place = tmp_path / "ledger"
    place.write_text("", encoding="utf-8")

    for make in (Ledger.create, Ledger.existing):
        with pytest.raises(DeclarationError) as caught:
            make(place)
        assert caught.value.mistakes[0].where == "--ledger"


def test_a_file_in_the_place_of_a_table_is_damage_and_is_kept(tmp_path: Path) -> None:
    (tmp_path / "samples").write_text("mine", encoding="utf-8")
    ledger = Ledger.create(tmp_path)

    with pytest.raises(DamagedLedger):
        ledger.replace_day(SAMPLES, DAY, ROWS)

    assert (tmp_path / "samples").read_text(encoding="utf-8") == "mine"


def test_without_room_it_says_so_at_once_and_what_was_committed_stays(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path)
    ledger.replace_day(SAMPLES, DAY, ROWS)
    before = ledger.digest()

    rival = multiprocessing.get_context("spawn").Process(target=_write_without_room, args=(tmp_path,))
    rival.start()
    rival.join(timeout=60)

    assert rival.exitcode == 0
    assert Ledger.existing(tmp_path).digest() == before


def _write_without_room(root: Path) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    many = np.random.default_rng(7).integers(0, 2**40, 50_000)
    writes: list[Callable[[], None]] = [
        lambda: Ledger(root).replace_day(SAMPLES, NEXT, {"series": many, "ts_ms": many, "value": many * 0.5}),
        lambda: Ledger(root).save_document("plan", b" " * 30_000, b"{}"),
    ]
    for write in writes:
        with pytest.raises(SourceError, match="cannot be written: File too large") as caught:
            write()
        assert "Make room" in caught.value.mistakes[0].fix
