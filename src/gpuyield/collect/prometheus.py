"""Raw samples from Prometheus and those that speak like it (VictoriaMetrics, Thanos, Mimir).

Raw samples are asked by an instant query with a range selector, so no server computes anything for us. Where a
range begins and ends differs by server and version (closed, or open on the left): a little more is asked, and
the half-open window is cut here. A question too large for a server is halved until it is not.
"""

from __future__ import annotations

import contextlib
import email.utils
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from gpuyield.collect.http import Answer, AnswerTooLarge, AnswerTooLate, HttpClient
from gpuyield.errors import SourceError
from gpuyield.outcomes.fields import name as cleaned_name
from gpuyield.units import DAY_MS, MINUTE_MS, Window

_BEYOND_MS = 1_000
_LAST_SECOND = 253_402_300_800
"""The year 10,000."""
_TOO_MUCH = re.compile(
    r"too many samples|maximum of|maxSamples|max-samples|max_samples|limit|exceed|too large|memory|time.?out|timed out",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class RawSeries:
    """One label set (without the metric's name) with its samples in order; no two at one time."""

    labels: dict[str, str]
    ts_ms: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What answers: `product` and its version ("" where it does not say)."""

    product: str
    version: str


@dataclass(slots=True)
class _Tally:
    queries: int = 0
    samples: int = 0
    notes: set[tuple[str, str]] = field(default_factory=set)
    server_ms: int | None = None


class _Row(msgspec.Struct):
    metric: dict[str, str]
    values: msgspec.Raw = msgspec.Raw(b"[]")
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct, rename={"result_type": "resultType"}):
    result_type: str
    result: list[_Row]


class _Reply(msgspec.Struct, rename={"is_partial": "isPartial", "error_type": "errorType"}):
    status: str
    data: _Data | None = None
    error: str = ""
    error_type: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False


class _Names(msgspec.Struct):
    status: str
    data: list[str] | None = None


class _BuildReply(msgspec.Struct):
    status: str
    data: Any = None  # servers disagree about its shape, and some leave it empty


_REPLY = msgspec.json.Decoder(_Reply)
_NAMES = msgspec.json.Decoder(_Names)
_BUILD = msgspec.json.Decoder(_BuildReply)


class Prometheus:
    """Reads raw samples of one server; safe to use from several threads."""

    def __init__(self, http: HttpClient) -> None:
        self.http = http
        self._tally = _Tally()
        self._lock = threading.Lock()
        self._longest_ms: dict[str, int] = {}
        self._functions = True
        self._posts = not http.where.access

    @property
    def queries(self) -> int:
        """Questions asked so far."""
        return self._tally.queries

    @property
    def samples(self) -> int:
        """Samples read so far, those outside the windows left out."""
        return self._tally.samples

    def server_ms(self) -> int | None:
        """The server's clock at its last answer; None where it does not tell."""
        return self._tally.server_ms

    def take_notes(self) -> list[tuple[str, str]]:
        """What servers said about answers that may not be whole, since the last call: (reason, where)."""
        with self._lock:
            notes, self._tally.notes = sorted(self._tally.notes), set()
        return notes

    def build(self) -> Build:
        """Which server it is.

        Raises:
            SourceError: Out of reach, or not a Prometheus-like server.
        """
        answer = self._count(self.http.get("/api/v1/status/buildinfo"))
        victoria = "x-server-hostname" in answer.headers
        if answer.status != 200 or (victoria and not answer.body.strip()):
            if answer.status in (400, 404, 405, 501) or victoria:
                return Build(product="VictoriaMetrics" if victoria else "Prometheus", version="")
            raise self.http.refuse(answer)
        reply = self.http.json_of(answer, _BUILD)
        fields = reply.data if isinstance(reply.data, dict) else {}
        product = str(fields.get("application") or ("VictoriaMetrics" if victoria or not fields else "Prometheus"))
        return Build(product=product, version=str(fields.get("version") or ""))

    def names(self, wanted: Sequence[str], window: Window) -> set[str]:
        """Which of the metrics may have samples in the window (at least those that do).

        Raises:
            SourceError: Out of reach or refusing.
        """
        match = f'{{__name__=~"{"|".join(wanted)}"}}'
        answer = self._count(
            self.http.get(
                "/api/v1/label/__name__/values",
                [("match[]", match), ("start", _seconds(window.from_ms)), ("end", _seconds(window.to_ms))],
            )
        )
        if answer.status in (400, 404, 405, 422, 501):
            return set(wanted)
        if answer.status != 200:
            raise self.http.refuse(answer)
        reply = self.http.json_of(answer, _NAMES)
        return set(wanted) & set(reply.data or ())

    def raw(
        self, name: str, matchers: Iterable[str], window: Window, *, chunk_ms: int | None = None
    ) -> list[RawSeries]:
        """All samples of a metric with `from_ms <= time < to_ms`, series in the order of their labels.

        Raises:
            SourceError: Out of reach, refusing, or answering nonsense.
        """
        selector = f"{name}{{{','.join(matchers)}}}"
        gathered: dict[tuple[tuple[str, str], ...], list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]] = {}
        at_ms = window.from_ms
        while at_ms < window.to_ms:
            length_ms = min(chunk_ms or DAY_MS, self._longest_ms.get(name, DAY_MS))
            piece = Window(at_ms, min(window.to_ms, at_ms + length_ms))
            for row in self._piece(name, selector, piece):
                ts_ms, values = self._numbers(row, selector)
                inside = (ts_ms >= piece.from_ms) & (ts_ms < piece.to_ms)
                if inside.any():
                    row.metric.pop("__name__", None)
                    # Labels are a stranger's: what is stored has no control characters and at most 256 characters.
                    storable = ((label, cleaned_name(value)) for label, value in row.metric.items())
                    key = tuple(sorted(item for item in storable if item[1]))
                    gathered.setdefault(key, []).append((ts_ms[inside], values[inside]))
            at_ms = piece.to_ms
        series = [_joined(dict(key), parts) for key, parts in sorted(gathered.items())]
        with self._lock:
            self._tally.samples += sum(len(one.ts_ms) for one in series)
        return series

    def vector(self, expression: str, at_ms: int) -> list[tuple[dict[str, str], float]] | None:
        """Labels and values of an instant query; None where the server does not know the function or gives up.

        It saves reading what never changes; nothing is accounted by it.

        Raises:
            SourceError: Out of reach.
        """
        if not self._functions:
            return None
        try:
            answer = self._query(expression, at_ms)
        except (AnswerTooLarge, AnswerTooLate):
            return None
        if answer.status in (400, 422, 501, 503):
            self._functions = answer.status not in (400, 501)
            return None
        data = self._data(answer, expression)
        if data.result_type != "vector":
            return None
        found: list[tuple[dict[str, str], float]] = []
        for row in data.result:
            row.metric.pop("__name__", None)
            labels = {label: cleaned_name(value) for label, value in row.metric.items()}
            try:
                found.extend([] if row.value is None else [(labels, float(row.value[1]))])
            except ValueError:
                return None
        return found

    def _piece(self, name: str, selector: str, piece: Window) -> list[_Row]:
        """Rows of a piece of time; asked in halves where it is too much at once."""
        range_ms = piece.length_ms + _BEYOND_MS
        expression = f"{selector}[{range_ms}ms]"
        try:
            answer = self._query(expression, piece.to_ms)
            if (
                answer.status in (422, 503, 504, 413, 400, 500)
                and piece.length_ms > MINUTE_MS
                and self._is_too_much(answer)
            ):
                raise AnswerTooLarge(self.http.excerpt(answer))
            data = self._data(answer, expression)
        except (AnswerTooLarge, AnswerTooLate):
            if piece.length_ms <= MINUTE_MS:
                raise
            half_ms = max(MINUTE_MS, piece.length_ms // 2)
            with self._lock:
                self._longest_ms[name] = min(half_ms, self._longest_ms.get(name, DAY_MS))
            middle_ms = piece.from_ms + half_ms
            first = self._piece(name, selector, Window(piece.from_ms, middle_ms))
            return first + self._piece(name, selector, Window(middle_ms, piece.to_ms))
        if data.result_type != "matrix":
            raise SourceError(
                f"{self.http.where.product} at {self.http.where.base_url} answered a {data.result_type[:40]},"
                " not raw samples.",
                where=expression[:256],
                fix="Does a proxy rewrite queries? gpuyield needs range selectors in instant queries.",
            )
        return data.result

    def _query(self, expression: str, at_ms: int) -> Answer:
        form = [("query", expression), ("time", _seconds(at_ms))]
        if self._posts:
            answer = self._count(self.http.post("/api/v1/query", form))
            if answer.status not in (403, 405):
                return answer
        # A role that may only read may not send forms, through the API server's proxy least of all.
        answer = self._count(self.http.get("/api/v1/query", form))
        self._posts = self._posts and answer.status != 200
        return answer

    def _is_too_much(self, answer: Answer) -> bool:
        return bool(_TOO_MUCH.search(self.http.excerpt(answer)))

    def _data(self, answer: Answer, expression: str) -> _Data:
        if answer.status != 200:
            raise self.http.refuse(answer, asked=expression[:256])
        reply = self.http.json_of(answer, _REPLY, asked=expression[:256])
        if reply.status != "success" or reply.data is None:
            raise SourceError(
                f"{self.http.where.product} at {self.http.where.base_url} answered an error with status 200:"
                f" {self.http.excerpt(answer)}.",
                where=expression[:256],
                fix="See the server's log.",
            )
        name = expression.partition("{")[0]
        reasons = [f"the server warned: {text[:256]}" for text in reply.warnings or () if not text.startswith("PromQL")]
        if reply.is_partial:
            reasons.append("the server's answer is partial: some of its stores did not answer")
        if reasons:
            with self._lock:
                self._tally.notes.update((reason, name) for reason in reasons)
        return reply.data

    def _numbers(self, row: _Row, selector: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Times and values of `[[seconds, "value"], ...]`, without an object for each."""
        text = bytes(row.values)
        bare = text.translate(None, b'[]" \t\r\n')
        try:
            numbers = np.fromstring(bare, sep=",") if bare else np.zeros(0)
            pairs = numbers.reshape(text.count(b"[") - 1, 2) if len(numbers) else numbers.reshape(0, 2)
        except ValueError as err:
            raise SourceError(
                f"{self.http.where.product} at {self.http.where.base_url} answered a sample that is no number.",
                where=selector[:256],
                fix="Is it really Prometheus? gpuyield doctor asks each source alone.",
            ) from err
        # A time that no clock shows lies in no window.
        seconds = np.where(np.abs(pairs[:, 0]) < _LAST_SECOND, pairs[:, 0], -1.0)
        return np.rint(seconds * 1000).astype(np.int64), pairs[:, 1].copy()

    def _count(self, answer: Answer) -> Answer:
        with self._lock:
            self._tally.queries += 1
            date = answer.headers.get("date")
            if date:
                with contextlib.suppress(ValueError, TypeError, OverflowError):
                    self._tally.server_ms = int(email.utils.parsedate_to_datetime(date).timestamp()) * 1000
        return answer


def quoted(text: str) -> str:
    """A PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(label: str, words: Iterable[str]) -> str:
    """A matcher for a label that is one of the words."""
    alternatives = "|".join(re.sub(r"([.+*?()\[\]{}|^$\\])", r"\\\1", word) for word in words)
    return f"{label}=~{quoted(alternatives)}"


def _joined(labels: dict[str, str], parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]]) -> RawSeries:
    ts_ms = np.concatenate([part[0] for part in parts]) if len(parts) > 1 else parts[0][0]
    values = np.concatenate([part[1] for part in parts]) if len(parts) > 1 else parts[0][1]
    return RawSeries(labels, *in_order(ts_ms, values))


def in_order(
    ts_ms: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Samples sorted by time; of several at one time the greatest number, NaN only where there is no number."""
    if len(ts_ms) < 2 or bool(np.all(ts_ms[1:] > ts_ms[:-1])):
        return ts_ms, values
    order = np.lexsort((np.where(np.isnan(values), -np.inf, values), ~np.isnan(values), ts_ms))
    ts_ms, values = ts_ms[order], values[order]
    last = np.append(ts_ms[1:] != ts_ms[:-1], True)
    return ts_ms[last], values[last]


def _seconds(at_ms: int) -> str:
    return f"{at_ms // 1000}.{at_ms % 1000:03d}"
