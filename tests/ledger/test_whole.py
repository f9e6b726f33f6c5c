"""Files are whole or not there, whoever is killed while writing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuyield.ledger.whole import ABANDONED_S, beside, write_whole

WRITER = """
import sys
from pathlib import Path
from gpuyield.ledger.whole import beside

with beside(Path(sys.argv[1])) as temporary:
    with temporary.open("w") as file:
        file.write("half")
    print("written", flush=True)
    sys.stdin.read()
"""


def killed_writer(target: Path) -> None:
    """A process that is killed when what it writes is half there."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(target)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "written\n"
        writer.kill()


def write_half(target: Path) -> None:
    with beside(target) as temporary:
        temporary.write_bytes(b"half")
        raise RuntimeError


def left_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def test_a_writer_that_is_killed_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_whole(page, b"old")

    killed_writer(page)

    assert page.read_bytes() == b"old"
    assert len(left_in(tmp_path)) == 2


def test_what_a_killed_writer_left_goes_with_the_next_writing_and_a_rivals_file_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    killed_writer(page)
    (abandoned,) = tmp_path.iterdir()
    age_s = abandoned.stat().st_mtime - ABANDONED_S - 1
    os.utime(abandoned, (age_s, age_s))
    rival, other = tmp_path / ".page.html.1.part", tmp_path / ".other.html.1.part"
    for one in (rival, other):
        one.write_bytes(b"half")
    os.utime(other, (age_s, age_s))

    write_whole(page, b"new")

    assert left_in(tmp_path) == [".other.html.1.part", ".page.html.1.part", "page.html"]
    assert page.read_bytes() == b"new"


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_whole(page, b"old")

    with pytest.raises(RuntimeError):
        write_half(page)

    assert left_in(tmp_path) == ["page.html"]
    assert page.read_bytes() == b"old"


@pytest.mark.parametrize("letter", ["a", "\N{LATIN SMALL LETTER U WITH DIAERESIS}", "\N{OK HAND SIGN}"])
def test_a_name_of_any_length_that_the_folder_takes_can_be_written(letter: str, tmp_path: Path) -> None:
    page = tmp_path / (letter * (250 // len(letter.encode())))

    write_whole(page, b"page")

    assert left_in(tmp_path) == [page.name]
