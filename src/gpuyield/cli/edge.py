"""The edge: runs a command, writes its answer, and turns every error into words and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuyield.cli import streams
from gpuyield.cli.commands import COMMANDS, LATER
from gpuyield.errors import DeclarationError, GpuyieldError, Mistake, SourceError

if TYPE_CHECKING:
    from cyclopts import CycloptsError

OK = 0
OUR_BUG = 1
WRONG_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141

_NAMES = frozenset(one.name for one in COMMANDS)


def run(tokens: Sequence[str]) -> int:
    """Run one command line; returns the exit code."""
    with streams.writable():
        return _exit_code(list(tokens))


def _exit_code(tokens: list[str]) -> int:
    try:
        return _run(tokens)
    except GpuyieldError as err:
        return _failed(err.mistakes, err.exit_code, tokens)
    except KeyboardInterrupt as err:
        streams.err(f"Interrupted. {err}".rstrip())
        return INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return BROKEN_PIPE
    except Exception as err:
        return _our_bug(err, tokens)


def _run(tokens: list[str]) -> int:
    if not tokens or tokens in (["--help"], ["-h"]):
        from gpuyield.cli.help import root_help

        sys.stdout.write(root_help())
        sys.stdout.flush()
        return OK
    if tokens[0] in LATER:
        raise DeclarationError(
            f"gpuyield {tokens[0]} ({LATER[tokens[0]]}) is not in this version.", fix="gpuyield --help lists what is."
        )
    from cyclopts import CycloptsError

    from gpuyield.cli.app import build

    try:
        command, bound, _ = build().parse_args(tokens, exit_on_error=False, print_error=False, help_on_error=False)
    except CycloptsError as err:
        raise _usage_error(err, tokens) from err
    return _answer(command(*bound.args, **bound.kwargs), bound.arguments.get("common"))


def _answer(result: object, common: object) -> int:
    from gpuyield.cli.options import COMMON, Common
    from gpuyield.cli.show import show
    from gpuyield.report.answer import Answer

    if not isinstance(result, Answer):
        # Help and version have printed themselves.
        sys.stdout.flush()
        return OK
    chosen = common if isinstance(common, Common) else COMMON
    try:
        show(result, chosen.output, quiet=chosen.quiet)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as err:
        _close_stdout()
        raise SourceError(
            f"the answer cannot be written: {err.strerror or err}.",
            where="stdout",
            fix="Make room, or write it elsewhere.",
        ) from err
    return result.exit_code


def wanted_output(tokens: Sequence[str]) -> str:
    """The format asked for, read without the parser, so that the parser's own errors can honour it."""
    asked = os.environ.get("GPUYIELD_OUTPUT", "")
    for at, token in enumerate(tokens):
        if token in ("-o", "--output") and at + 1 < len(tokens):
            asked = tokens[at + 1]
        elif token.startswith("--output="):
            asked = token.removeprefix("--output=")
        elif token.startswith("-o") and len(token) > 2:
            asked = token[2:].removeprefix("=")
    return asked.lower()


def _usage_error(err: CycloptsError, tokens: Sequence[str]) -> DeclarationError:
    what = " ".join(word for line in str(err).splitlines() if (word := line.strip()))
    command = next((token for token in tokens if token in _NAMES), "")
    where = f"gpuyield {command}" if command else ""
    return DeclarationError(what, where=where, fix=f"See gpuyield {command} --help.".replace("  ", " "))


def _failed(mistakes: Sequence[Mistake], exit_code: int, tokens: Sequence[str]) -> int:
    from gpuyield.cli.show import show_mistakes

    # The mistakes of a declaration are what `check` was asked for: its answer.
    is_answer = exit_code == WRONG_INPUT and "check" in tokens[:1]
    try:
        show_mistakes(mistakes, exit_code, as_json=wanted_output(tokens) == "json", is_answer=is_answer)
        sys.stdout.flush()
    except BrokenPipeError:
        _close_stdout()
    return exit_code


def _our_bug(err: BaseException, tokens: Sequence[str]) -> int:
    from gpuyield.cli.crash import crash_mistake

    if "--debug" in tokens or os.environ.get("GPUYIELD_DEBUG", "").lower() in ("1", "true", "yes"):
        import traceback

        traceback.print_exception(err, file=sys.stderr)
    verb = next((token for token in tokens if token in _NAMES), "gpuyield")
    return _failed((crash_mistake(err, verb),), OUR_BUG, tokens)


def _close_stdout() -> None:
    # The reader is gone: nothing more may be written, also not by the interpreter's last flush.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
