"""The parser of the command line; a command's file is loaded when it is called."""

from __future__ import annotations

from typing import Any  # what cyclopts takes

from cyclopts import App, Group
from cyclopts.config import Env

from gpuyield import __version__
from gpuyield.cli.commands import COMMANDS, FIRST, PURPOSE, Topic
from gpuyield.cli.help import Columns


def build() -> App:
    """The parser, without loading any command."""
    app = App(
        name="gpuyield",
        help=PURPOSE,
        version=__version__,
        version_flags=["--version"],
        help_format="plaintext",
        help_formatter=Columns(FIRST),
        config=Env("GPUYIELD_", command=False, show=False),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    groups = {topic: Group(str(topic), sort_key=at) for at, topic in enumerate(Topic)}
    for at, one in enumerate(COMMANDS):
        spec: dict[str, Any] = {"name": one.name, "help": one.help, "group": groups[one.topic], "sort_key": at}
        if not one.has_commands:
            # A command with commands carries its example itself.
            spec["help_formatter"] = Columns(one.example, *one.more)
        app.command(f"gpuyield.cli.{one.place}", **spec)
    return app
