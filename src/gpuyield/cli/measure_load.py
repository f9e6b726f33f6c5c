"""The options of gpuyield measure for recorded loads, runs that are no search, and measurements side by side."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from gpuyield.cli.options import Common, Whole
from gpuyield.report.answer import Answer

if TYPE_CHECKING:
    from gpuyield.steps.measure_question import Question

_RECORDED = Group("Recorded load", sort_key=40)
_OTHER = Group("Instead of a search", sort_key=45)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Where the load is recorded, and what is to be done instead of a search."""

    trace: Annotated[Path | None, Parameter(group=_RECORDED)] = None
    """Requests arrive as recorded here: CSV, JSON lines or Parquet with the columns of Azure, Mooncake, BurstGPT, or
    at_s, prompt_tokens, output_tokens. Prompts are made up in the recorded lengths, or those of --requests."""

    profile: Annotated[str | None, Parameter(group=_RECORDED)] = None
    """What the service really gets, to hold the load against: ledger, server (its own counters), or a file like
    --trace. Without --requests and --trace, prompts are made up in its lengths."""

    replay: Annotated[bool, Parameter(group=_OTHER, negative="")] = False
    """Send the whole trace once, in order and on time; certifies nothing."""

    scale: Annotated[str, Parameter(group=_OTHER)] = "1"
    """How many times as fast as recorded --replay sends."""

    closed_loop: Annotated[Whole | None, Parameter(group=_OTHER)] = None
    """Keep so many requests running, each sent when one was answered: a diagnostic that certifies nothing."""

    compare: Annotated[tuple[Path, Path] | None, Parameter(group=_OTHER)] = None
    """Two measurements, each kept with --out: how much more the second sustains than the first. Sends nothing."""

    @property
    def modes(self) -> list[str]:
        """The options that ask for something else than a search."""
        named = {
            "--replay": self.replay,
            "--closed-loop": self.closed_loop is not None,
            "--compare": self.compare is not None,
        }
        return [name for name, is_there in named.items() if is_there]


AS_ASKED = Load()


def answer_instead(
    load: Load, question: Question, common: Common, *, apply: bool, gate: bool, out: Path | None
) -> Answer | None:
    """The answer where no search is meant; None where one is.

    Raises:
        DeclarationError: Options that do not go together, and mistakes of any of them.
        SourceError: The service is out of reach.
    """
    from gpuyield.errors import DeclarationError

    if load.scale != "1" and not load.replay:
        raise DeclarationError("a search scales a trace itself.", where="--scale", fix="Add --replay, or leave it out.")
    if not load.modes:
        return None
    if load.compare is not None:
        from gpuyield.steps.measure_compare import compare

        return compare(*load.compare, ledger_root=common.ledger_root, out=out)
    if gate:
        raise DeclarationError(f"{load.modes[0]} certifies nothing.", where="--gate", fix="Leave it out.")
    from gpuyield.cli.progress import progress, say
    from gpuyield.steps.measure_once import ask_once

    with progress(common) as tell:
        return ask_once(
            question,
            scale=load.scale if load.replay else None,
            at_once=load.closed_loop,
            file=common.file,
            apply=apply,
            out=out,
            say=lambda line: say(common, line),
            tell=tell,
        )
