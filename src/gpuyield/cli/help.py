"""Help as aligned columns without boxes, so that it reads the same on a screen, in a log and in the docs."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any  # rich renders anything

from gpuyield.cli.commands import COMMANDS, FIRST, PURPOSE, Topic

if TYPE_CHECKING:
    from cyclopts.help import HelpPanel
    from rich.console import Console, ConsoleOptions

_MOST_COLUMNS = 110


def root_help() -> str:
    """The help of `gpuyield` itself, printed without building the parser."""
    blocks = ["Usage: gpuyield COMMAND [OPTIONS]", PURPOSE]
    width = max(len(one.name) for one in COMMANDS)
    for topic in Topic:
        pairs = [(one.name, one.help) for one in COMMANDS if one.topic is topic]
        blocks.append(f"{topic}:\n" + columns(pairs, label_width=width, width=_terminal_width()))
    blocks.append("gpuyield COMMAND --help shows its options and an example. gpuyield --version shows the version.")
    blocks.append(f"Start with: {FIRST}")
    return "\n\n".join(blocks) + "\n"


def columns(pairs: Sequence[tuple[str, str]], *, width: int, label_width: int | None = None) -> str:
    """Labels and texts in two columns; a label that is too long gets a line of its own."""
    longest = label_width if label_width is not None else min(28, max((len(label) for label, _ in pairs), default=0))
    lines = []
    for label, text in pairs:
        wrapped = textwrap.wrap(text, max(30, width - longest - 5)) or [""]
        if len(label) > longest:
            lines.append(f"  {label}")
            label = ""
        lines += [f"  {label if at == 0 else '':<{longest}}   {line}".rstrip() for at, line in enumerate(wrapped)]
    return "\n".join(lines)


def _terminal_width() -> int:
    return min(_MOST_COLUMNS, shutil.get_terminal_size((_MOST_COLUMNS, 24)).columns)


class Columns:
    """The help formatter of a command, with command lines that show its uses."""

    def __init__(self, *examples: str) -> None:
        self._examples = examples

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one panel: commands or options."""
        pairs = []
        for entry in panel.entries:
            labels = entry.display_labels_with_metavar if panel.format == "parameter" else entry.positive_names
            text = " ".join(_plain(entry.description).split())
            extras = []
            if entry.choices:
                extras.append(f"one of {', '.join(entry.choices)}")
            if entry.default is not None and entry.default not in ("False", False):
                extras.append(f"default {_plain(entry.default)}")
            if entry.required:
                extras.append("required")
            pairs.append((", ".join(labels), text + (f" [{'; '.join(extras)}]" if extras else "")))
        if pairs:
            _print(console, f"{_plain(panel.title)}:\n{columns(pairs, width=_terminal_width())}\n")

    def render_usage(self, console: Console, options: ConsoleOptions, usage: Any) -> None:
        """Print the usage line."""
        if usage:
            _print(console, f"Usage: {_plain(usage).strip().removeprefix('Usage:').strip()}\n")

    def render_description(self, console: Console, options: ConsoleOptions, description: Any) -> None:
        """Print what the command is for, and its examples."""
        title = "Example" if len(self._examples) == 1 else "Examples"
        listed = "\n".join(f"  {one}" for one in self._examples)
        _print(console, f"{_plain(description).strip()}\n\n{title}:\n{listed}\n")


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def _plain(value: Any) -> str:
    if value is None:
        return ""
    plain = getattr(value, "plain", None)
    if isinstance(plain, str):
        return plain
    if isinstance(value, str):
        return value
    primary = getattr(value, "primary_renderable", None)
    if primary is not None:
        return _plain(primary)
    import io

    from rich.console import Console

    flat = Console(file=io.StringIO(), width=10_000, no_color=True, force_terminal=False)
    with flat.capture() as captured:
        flat.print(value, end="")
    return captured.get().rstrip()
