"""Every command explains itself, quickly, with an example."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from cli.console import Console
from gpuyield.cli.commands import COMMANDS, LATER
from gpuyield.cli.edge import run

SUBCOMMANDS = (
    ("demo", "serve"),
    ("demo", "server"),
    ("outcomes", "import"),
    ("ledger", "digest"),
    ("ledger", "vacuum"),
    ("plan", "publish"),
    ("controller", "run"),
    ("controller", "manifests"),
    ("controller", "lint"),
    ("controller", "release"),
)
EVERY = [*((one.name,) for one in COMMANDS), *SUBCOMMANDS]


def test_help_lists_every_command_in_a_line(console: Console) -> None:
    done = console.run("--help")

    assert done.code == 0
    for one in COMMANDS:
        assert f"  {one.name} " in done.out
        assert one.help in done.out
    assert "Start with: gpuyield demo" in done.out


def test_no_argument_is_help(console: Console) -> None:
    assert console.run().out == console.run("--help").out


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_a_command_says_what_it_is_for_and_shows_an_example(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    code = run([*words, "--help"])

    said = capsys.readouterr()
    assert code == 0
    assert said.out.startswith(f"Usage: gpuyield {' '.join(words)}")
    assert re.search(rf"Examples?:\n  gpuyield {words[0]}", said.out)
    assert said.err == ""


@pytest.mark.parametrize(
    "words", [one for one in EVERY if one not in {("outcomes",), ("ledger",), ("controller",)}], ids=" ".join
)
def test_a_command_takes_the_common_options(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    run([*words, "--help"])

    said = capsys.readouterr().out
    for option in ("--file, -f", "--ledger", "--output, -o", "--quiet", "--debug"):
        assert option in said


def test_examples_are_command_lines_that_parse() -> None:
    from gpuyield.cli.app import build

    for example in (example for one in COMMANDS for example in (one.example, *one.more)):
        words = shlex.split(example.removeprefix("gpuyield ").split(" > ")[0])
        build().parse_args(words, exit_on_error=False, print_error=False)


def test_help_loads_no_heavy_library() -> None:
    heavy = ("duckdb", "deltalake", "numpy", "pydantic", "rich", "cyclopts", "jinja2", "vl_convert", "httpx2", "yaml")
    program = (
        "import sys; from gpuyield.cli.edge import run; code = run(['--help']);"
        f"print([name for name in {heavy!r} if name in sys.modules], code, file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[] 0"


def test_a_command_line_is_parsed_without_the_engines() -> None:
    heavy = ("duckdb", "deltalake", "numpy", "pydantic")
    program = (
        "import sys; from gpuyield.cli.edge import run; code = run(['plan', '--help']);"
        f"print([name for name in {heavy!r} if name in sys.modules], code, file=sys.stderr)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stderr.strip() == "[] 0"


def test_the_version_is_that_of_the_package(console: Console) -> None:
    from importlib.metadata import version

    assert console.run("--version").out.strip() == version("gpuyield")


def test_commands_of_later_versions_say_so_and_are_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    listed = capsys.readouterr().out

    for name in LATER:
        code = run([name])
        said = capsys.readouterr().err
        assert code == 2
        assert said.startswith(f"gpuyield {name} (")
        assert "is not in this version" in said
        assert f"\n  {name} " not in listed
