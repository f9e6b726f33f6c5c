"""The model-server double, kept up until interrupted: something to measure whose capacity is known."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path

from gpuyield.declare.values import parse_latency_us
from gpuyield.demo.asked import Fault
from gpuyield.demo.engine import EngineSettings
from gpuyield.demo.language_model import DoubleSettings
from gpuyield.demo.server import Double
from gpuyield.errors import DeclarationError, Mistake, SourceError
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.steps.documents import write

_SHARE = re.compile(r"(?P<name>[a-z0-9_]+) (?P<percent>\d{1,3}(?:\.\d{1,3})?)%")
_POD = re.compile(r"[a-z0-9][a-z0-9-]{0,62}/[a-z0-9][a-z0-9.-]{0,252}")


def serve_double(
    *,
    port: int,
    slots: int,
    step: str,
    prompt_token: str | None,
    sequence: str | None,
    tokens: int,
    spread: str,
    faults: Sequence[str],
    model: str,
    pod: str,
    seed: int,
    log: Path | None,
    ready: Callable[[str], None],
) -> Answer:
    """The answer of `gpuyield demo server`, after it was interrupted."""
    settings = DoubleSettings(
        engine=EngineSettings(
            slots=_between(slots, 1, 100_000, "--slots"),
            step_s=_seconds(step, "--step"),
            prompt_token_s=_seconds(prompt_token, "--prompt-token"),
            sequence_s=_seconds(sequence, "--sequence"),
            output_tokens=_between(tokens, 1, 1_000_000, "--tokens"),
            spread=_spread(spread),
            seed=seed,
        ),
        model=model,
        pod=_pod(pod),
        faults=parse_faults(faults),
    )
    double = Double(settings)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(double, _between(port, 0, 65_535, "--port"), ready))
    if log is not None:
        write(log, "".join(json.dumps(asdict(row)) + "\n" for row in double.log).encode())
    return Answer(
        document={
            "schema": schema_name("demo-server"),
            "model": model,
            "requests": len(double.log),
            "finished": double.counted.finished,
            "log": None if log is None else str(log),
        },
        headline=(f"{len(double.log)} requests came, {double.counted.finished} were answered to their end.",),
        next=(Next(command="gpuyield demo server --help", why="slots, speed, lengths and faults"),),
    )


def parse_faults(texts: Sequence[str]) -> Mapping[Fault, float]:
    """Shares of answers with each fault, from texts such as `error_event 1%`.

    Raises:
        DeclarationError: All mistakes.
    """
    found: dict[Fault, float] = {}
    mistakes = []
    for text in texts:
        match = _SHARE.fullmatch(" ".join(text.split()))
        if match is None or match["name"] not in set(Fault) or not 0 < Decimal(match["percent"]) <= 100:
            mistakes.append(
                Mistake(
                    what=f'"{text[:60]}" is no fault and share.',
                    where="--fault",
                    fix=f"Write 'error_event 1%'; the faults are {', '.join(one for one in Fault if one != 'none')}.",
                )
            )
        else:
            found[Fault(match["name"])] = float(match["percent"]) / 100
    if not mistakes and sum(found.values()) > 1:
        mistakes.append(Mistake(what="the shares are more than 100 %.", where="--fault", fix="Lower them."))
    if mistakes:
        raise DeclarationError.of(mistakes)
    return found


async def _run(double: Double, port: int, ready: Callable[[str], None]) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(ValueError, RuntimeError):
            loop.add_signal_handler(one, ended.set)
    try:
        bound = await double.start(port=port)
    except OSError as err:
        raise SourceError(
            f"port {port} cannot be used: {err.strerror or err}.", where="--port", fix="Name another one, or 0."
        ) from err
    ready(f"A model-server double answers at http://127.0.0.1:{bound}/v1. Ctrl-C ends it.")
    await ended.wait()
    await double.stop()


def _seconds(text: str | None, option: str) -> float:
    """A time that an option gives; none where it is not given."""
    return 0.0 if text is None else parse_latency_us(text, label=option) / 1e6


def _pod(text: str) -> str:
    if text and _POD.fullmatch(text) is None:
        raise DeclarationError(f'"{text[:60]}" is no pod.', where="--pod", fix="Write NAMESPACE/NAME.")
    return text


def _between(value: int, least: int, most: int, option: str) -> int:
    if not least <= value <= most:
        raise DeclarationError(f"{value} is out of range.", where=option, fix=f"Write a number from {least} to {most}.")
    return value


def _spread(text: str) -> float:
    if re.fullmatch(r"[0-2](\.\d{1,3})?|3(\.0{1,3})?", text) is None:
        raise DeclarationError(f'"{text[:20]}" is no spread.', where="--spread", fix="Write a number from 0 to 3.")
    return float(text)
