"""Recorded arrivals: who sent what when, from public traces or one's own log, to be replayed at any speed.

Columns that are known, by name: Azure (`TIMESTAMP`, `ContextTokens`, `GeneratedTokens`), Mooncake (`timestamp` in ms,
`input_length`, `output_length`), BurstGPT (`Timestamp` in s, `Request tokens`, `Response tokens`), our own
(`at_s`, `prompt_tokens`, `output_tokens`). Rows may come in any order; the first one is time 0.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

import numpy as np

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.measure import NANOS, SECOND_NS, Arrivals, ProbePlan

_MOST_MISTAKES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Recorded requests in order of time; `offset_ns` starts at 0, token counts are -1 where not recorded."""

    name: str
    offset_ns: NANOS
    prompt_tokens: NANOS
    output_tokens: NANOS

    def __len__(self) -> int:
        return len(self.offset_ns)

    @property
    def rate_rps(self) -> float:
        """Its mean rate."""
        return (len(self) - 1) * SECOND_NS / int(self.offset_ns[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    name: str
    at: str
    prompt: str
    output: str
    nanos: Callable[[object], int]


def _scaled(unit_ns: int) -> Callable[[object], int]:
    def nanos(value: object) -> int:
        return round(Decimal(str(value)) * unit_ns)

    return nanos


def _instant(value: object) -> int:
    at = value if isinstance(value, datetime) else None
    fraction = ""
    if at is None:
        whole, _, fraction = str(value).strip().removesuffix("Z").partition(".")
        at = datetime.fromisoformat(whole)
    since = at.replace(tzinfo=at.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    nanos = (since.days * 86_400 + since.seconds) * SECOND_NS + since.microseconds * 1000
    return nanos + int(fraction.ljust(9, "0")[:9] or 0)


_KNOWN = (
    _Columns(name="azure", at="TIMESTAMP", prompt="ContextTokens", output="GeneratedTokens", nanos=_instant),
    _Columns(name="mooncake", at="timestamp", prompt="input_length", output="output_length", nanos=_scaled(1_000_000)),
    _Columns(
        name="burstgpt", at="Timestamp", prompt="Request tokens", output="Response tokens", nanos=_scaled(SECOND_NS)
    ),
    _Columns(name="jsonl", at="at_s", prompt="prompt_tokens", output="output_tokens", nanos=_scaled(SECOND_NS)),
)


def read_trace(data: bytes, *, where: str) -> Trace:
    """The trace in the text of a file: JSON lines, or CSV with a header.

    Raises:
        DeclarationError: Unknown columns, or rows that cannot be read; all of them at once.
    """
    text = data.decode("utf-8-sig", errors="replace")
    if not text.lstrip().startswith("{"):
        return trace_of(csv.DictReader(io.StringIO(text)), where=where)
    rows: list[Mapping[str, object]] = []
    mistakes: list[Mistake] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line, parse_float=Decimal)
        except ValueError:
            row = None
        if isinstance(row, dict):
            rows.append(row)
        else:
            mistakes.append(Mistake(what="it is no JSON object.", where=f"{where}:{number}"))
    if mistakes:
        raise DeclarationError.of(mistakes[:_MOST_MISTAKES])
    return trace_of(rows, where=where)


def trace_of(rows: Iterable[Mapping[str, object]], *, where: str) -> Trace:
    """The trace of rows with known columns.

    Raises:
        DeclarationError: Unknown columns, or rows that cannot be read; all of them at once.
    """
    listed = list(rows)
    if len(listed) < 2:
        raise DeclarationError("a trace needs two requests or more.", where=where)
    columns = next((one for one in _KNOWN if one.at in listed[0]), None)
    if columns is None:
        names = "; ".join(f"{one.at}, {one.prompt}, {one.output} ({one.name})" for one in _KNOWN)
        raise DeclarationError("its columns are not known.", where=where, fix=f"Known: {names}.")
    found: list[tuple[int, int, int]] = []
    mistakes: list[Mistake] = []
    for number, row in enumerate(listed, start=1):
        try:
            found.append((columns.nanos(row[columns.at]), _tokens(row, columns.prompt), _tokens(row, columns.output)))
        except (ValueError, InvalidOperation, KeyError, TypeError, OverflowError):
            mistakes.append(Mistake(what=f"request {number} has no time, or a length is no number.", where=where))
    if mistakes:
        raise DeclarationError.of(mistakes[:_MOST_MISTAKES])
    table = np.array(found, np.int64)
    table = table[np.argsort(table[:, 0], kind="stable")]
    if table[-1, 0] == table[0, 0]:
        raise DeclarationError("all its requests have the same time.", where=where)
    return Trace(
        name=columns.name,
        offset_ns=table[:, 0] - table[0, 0],
        prompt_tokens=table[:, 1].copy(),
        output_tokens=table[:, 2].copy(),
    )


def replay(trace: Trace, *, speed: float = 1.0, requests: int | None = None) -> Arrivals:
    """The whole trace, so many times as fast as it was recorded; request i is its row i, modulo `requests`."""
    scheduled = np.rint(trace.offset_ns / speed).astype(np.int64)
    return Arrivals(scheduled_ns=scheduled, request=np.arange(len(trace), dtype=np.int64) % (requests or len(trace)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Arrivals of a probe from a trace, scaled in time to the probe's rate, from a point that its seed chooses.

    Bursts stay as they are in relation to the mean rate; behind the end the trace goes on from its start. `requests` is
    the size of the request set, which is gone through in the order of the trace (None: a request for each row).
    """

    trace: Trace
    requests: int | None = None

    @property
    def name(self) -> str:
        """How documents name the arrivals."""
        return f"trace:{self.trace.name}"

    def arrivals(self, plan: ProbePlan) -> Arrivals:
        """The arrivals of this probe: the same plan, the same arrivals."""
        offset = self.trace.offset_ns.astype(float)
        round_trip = float(offset[-1]) * len(offset) / (len(offset) - 1)
        scale = self.trace.rate_rps / plan.rate_rps
        begin = np.random.default_rng(plan.seed).random() * round_trip
        laps = int((begin + plan.sending_ns / scale) // round_trip) + 1
        times = ((offset[None, :] + round_trip * np.arange(laps)[:, None]).ravel() - begin) * scale
        rows = np.tile(np.arange(len(offset), dtype=np.int64), laps)
        inside = (times >= 0) & (times < plan.sending_ns)
        return Arrivals(
            scheduled_ns=times[inside].astype(np.int64), request=rows[inside] % (self.requests or len(offset))
        )


def _tokens(row: Mapping[str, object], column: str) -> int:
    value = row.get(column)
    return -1 if value is None or value == "" else round(Decimal(str(value)))
