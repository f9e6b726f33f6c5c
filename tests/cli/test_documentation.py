"""What the documents say is what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gpuyield.cli.commands import COMMANDS
from gpuyield.cli.reference import commands_markdown

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_the_reference_is_what_help_says() -> None:
    written = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")

    assert written == commands_markdown(), "run ./dev docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_of_the_pages_parse(page: Path) -> None:
    from gpuyield.cli.app import build

    known = {one.name for one in COMMANDS}
    for block in re.findall(r"```console[^\n]*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        for line in block.splitlines():
            found = re.search(r"(?:^|&& |\d \* )gpuyield ([^|>#&]*)", line)
            if found is None:
                continue
            words = shlex.split(found[1].replace("*", "x"))
            assert words[0] in known, line
            build().parse_args(words, exit_on_error=False, print_error=False)


def test_the_readmes_two_commands_are_there() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert "./dev demo" in readme
    assert "./dev test" in readme
    assert (ROOT / "dev").stat().st_mode & 0o111


def test_no_lock_names_a_host() -> None:
    for lock in ROOT.glob("requirements*.lock"):
        assert "://" not in lock.read_text(encoding="utf-8")
