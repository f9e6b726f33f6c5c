"""The reference of all commands as Markdown, made from their help: `./dev docs` writes it, a test compares it."""

from __future__ import annotations

import contextlib
import io
import os
import sys

from gpuyield.cli.commands import COMMANDS

_SUBCOMMANDS = {
    "demo": ("serve", "server"),
    "outcomes": ("import",),
    "plan": ("publish",),
    "controller": ("run", "manifests", "lint", "release"),
    "ledger": ("digest", "vacuum"),
}

_HEAD = """# Commands

Made from `--help` by `./dev docs`; do not edit.

Every command takes the common options below. A flag beats the environment (`GPUYIELD_` and the option's name in
capitals, such as `GPUYIELD_LEDGER`), that beats `gpuyield.yaml`, that beats the default. stdout carries only the
answer; progress, hints and errors go to stderr. `kubectl gpuyield` is the same program.

| exit code | meaning |
| --- | --- |
| 0 | answered |
| 1 | a bug of ours; a crash file without values is written |
| 2 | wrong input or usage |
| 3 | a source is out of reach or refuses |
| 4 | too little evidence to answer |
| 10 | answered, and a gate failed (`--gate`), or `verify` rejected |

With `-o json` stdout is a document at every exit code: the answer at 0, 4 and 10, `gpuyield/error/v1alpha1` with all
mistakes (`{what, where, fix}`) at 1, 2 and 3.
"""


def commands_markdown() -> str:
    """The whole page."""
    blocks = [_HEAD.rstrip()]
    for one in COMMANDS:
        blocks.append(f"## {one.name}\n\n{_help_block(one.name)}")
        blocks += [f"### {one.name} {sub}\n\n{_help_block(one.name, sub)}" for sub in _SUBCOMMANDS.get(one.name, ())]
    return "\n\n".join(blocks) + "\n"


def _help_block(*words: str) -> str:
    from gpuyield.cli.edge import run

    captured = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(captured):
            run([*words, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return f"```text\n{captured.getvalue().strip()}\n```"


if __name__ == "__main__":
    sys.stdout.write(commands_markdown())
