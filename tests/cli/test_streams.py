"""Where the answer goes may be closed, full, narrow or a reader that leaves: never a traceback, never a lie."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

GPUYIELD = f"{sys.executable} -m gpuyield"


def shell(line: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    (tmp_path / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: small}\n"
        'sources: {prometheus: {url: "http://127.0.0.1:9090"}}\n'
        "services: [{name: \u00fcbersetzer, selector: {namespace: a}}]\n",
        encoding="utf-8",
    )
    return tmp_path


def test_a_closed_stdout_swallows_the_answer_and_the_exit_code_stands(declared: Path) -> None:
    done = shell(f"{GPUYIELD} check >&-", declared)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_under_stdout_is_said_and_is_no_bug(declared: Path) -> None:
    done = shell(f"{GPUYIELD} check > /dev/full", declared)

    assert done.returncode == 3
    assert done.stderr == (
        "stdout: the answer cannot be written: No space left on device. Make room, or write it elsewhere.\n"
    )
    assert not list(declared.glob("gpuyield-crash-*"))


def test_a_reader_that_leaves_ends_it_quietly(declared: Path) -> None:
    done = shell(f"{GPUYIELD} schema | head -1; exit ${{PIPESTATUS[0]}}", declared)

    assert done.returncode in (0, 141)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_a_terminal_that_lacks_a_letter_shows_its_escape(declared: Path) -> None:
    done = shell(f"{GPUYIELD} check", declared, PYTHONIOENCODING="ascii", LC_ALL="C")

    assert done.returncode == 0, done.stderr
    assert "1 service without an objective: \\xfcbersetzer." in done.stdout


@pytest.mark.parametrize("environment", [{"COLUMNS": "20"}, {"TERM": "dumb"}, {"LANG": "C", "COLUMNS": "1"}])
def test_a_narrow_or_dumb_terminal_gets_the_whole_help(declared: Path, environment: dict[str, str]) -> None:
    done = shell(f"{GPUYIELD} plan --help", declared, **environment)

    assert (done.returncode, done.stderr) == (0, "")
    assert "--time-limit" in done.stdout
