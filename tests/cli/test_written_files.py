"""A file that a person named is written whole or not at all, and nothing but a file is ever replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gpuyield.errors import DeclarationError
from gpuyield.steps.documents import write


def test_a_pipe_or_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)

    with pytest.raises(DeclarationError, match=r"is no file") as caught:
        write(pipe, b"{}")

    assert caught.value.mistakes[0].where == str(pipe)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_keeps_pointing_to_the_file_that_is_written(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    link = tmp_path / "plan.json"
    link.symlink_to(tmp_path / "shared" / "plan.json")

    write(link, b"{}")

    assert link.is_symlink()
    assert (tmp_path / "shared" / "plan.json").read_bytes() == b"{}"


def test_nothing_is_left_behind_by_a_write_that_fails(tmp_path: Path) -> None:
    folder = tmp_path / "plan.json"
    folder.mkdir()

    with pytest.raises(DeclarationError, match="cannot be written"):
        write(folder, b"{}")

    assert list(tmp_path.iterdir()) == [folder]
