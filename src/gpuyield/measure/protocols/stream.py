"""What every stream of OpenAI's kind has: JSON in Server-Sent Events, a finish, and most often `[DONE]` at the end.

An answer is whole when its finish came and nothing is missing: the HTTP message ended as announced, or `[DONE]` was
there. Everything else is a miss, however many tokens it brought.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar  # JSON values

import msgspec

from gpuyield.measure.protocols.events import split_events
from gpuyield.measure.protocols.framing import Body, Response
from gpuyield.measure.protocols.reading import UNKNOWN, Reading, is_whole, opened, unfinished
from gpuyield.model.measure import ResponseStatus

_DONE = b"[DONE]"
_LARGEST_COUNT = 2**53
_Event = TypeVar("_Event")
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


@dataclass(slots=True)
class Stream(Generic[_Event]):
    """The events of a stream. `done_at` is the offset where `[DONE]`, or its like, was complete, -1 without one.

    `wrong`: an event is not of the protocol; those before it are here. `error`: one is named so.
    """

    events: list[_Event]
    ends: list[int]
    done_at: int
    wrong: bool
    error: bool


class Decoder(Generic[_Event]):
    """Decodes the events of a protocol, whose shape is `kind`, a whole stream at once where all are well.

    `kinds` is the list of them, which a type cannot make of another one while the program runs.
    """

    def __init__(self, kind: type[_Event], kinds: type[list[_Event]]) -> None:
        self._one = msgspec.json.Decoder(kind)
        self._many = msgspec.json.Decoder(kinds)

    def stream(self, body: Body) -> Stream[_Event]:
        """What a stream brought as far as it came; nothing after `[DONE]` counts."""
        found = split_events(body.content)
        data, done_at = found.data, -1
        if _DONE in data:
            at = data.index(_DONE)
            done_at = found.ends[at]
            del data[at:]
        elif found.torn.strip() == b"data: " + _DONE:
            done_at = len(body.content) - 1
        events, wrong = self._decode(data)
        named = any(name == b"error" for at, name in found.names.items() if at < len(data))
        return Stream(events=events, ends=found.ends, done_at=done_at, wrong=wrong, error=named)

    def answer(self, body: Body, reading: Reading) -> _Event | None:
        """An answer that is not streamed; None when it is not whole or not of the protocol, and the reading failed."""
        if not is_whole(body, reading):
            return None
        found = self._decoded(body.content)
        if found is None:
            reading.fail(ResponseStatus.MALFORMED, "the answer is not of the protocol")
        return found

    def _decoded(self, content: bytes) -> _Event | None:
        try:
            return self._one.decode(_utf8(content))
        except _UNREADABLE:
            return None

    def _decode(self, data: Sequence[bytes]) -> tuple[list[_Event], bool]:
        try:
            events = self._many.decode(_utf8(b"[" + b",".join(data) + b"]"))
        except _UNREADABLE:
            pass
        else:
            return events, len(events) != len(data)
        events = []
        for one in data:
            event = self._decoded(one)
            if event is None:
                return events, True
            events.append(event)
        return events, False


class ReadBody(Protocol):
    """Reads a body, streamed or not."""

    def __call__(self, body: Body, reading: Reading, *, keep_text: bool) -> Reading:
        """What it says."""
        ...


def read_either(response: Response, *, streamed: ReadBody, at_once: ReadBody, keep_text: bool) -> Reading:
    """What a response says, however the server chose to answer; its text only where it is asked for."""
    body, reading = opened(response)
    if body is None:
        return reading
    read = streamed if _is_stream(body) else at_once
    return read(body, reading, keep_text=keep_text)


def _is_stream(body: Body) -> bool:
    """Whether the body is an event stream, by its type, or by its beginning where none is given."""
    kind = body.head.content_type
    return "event-stream" in kind or (not kind and not body.content.lstrip().startswith(b"{"))


def take_times(reading: Reading, body: Body, ends: Sequence[int]) -> None:
    """Set when content came, from the offsets at which each event with content was complete."""
    if not ends:
        return
    reads = body.reads_at(ends)
    distinct = reads if len(reads) < 2 else list(dict.fromkeys(reads))
    times = body.times_of(distinct)
    reading.first_ns, reading.last_ns, reading.reads = times[0], times[-1], len(times)
    if len(times) > 1:
        reading.gap_max_ns = max(map(int.__sub__, times[1:], times))


def conclude(reading: Reading, body: Body, stream: Stream[Any], *, finished: bool, failed: bool) -> Reading:
    """The status of a stream that brought `finished` or `failed`; the end is `[DONE]` where it came."""
    if stream.done_at >= 0:
        reading.end_ns = body.time_at(stream.done_at)
    if failed or stream.error:
        return reading.fail(ResponseStatus.ERROR_EVENT, "an error event after HTTP 200")
    if stream.wrong:
        return reading.fail(ResponseStatus.MALFORMED, "an event that is not of the protocol")
    nothing_missing = body.whole or stream.done_at >= 0
    if not nothing_missing:
        return reading.fail(unfinished(body.ended), "the stream stopped before its end")
    if not finished:
        return reading.fail(ResponseStatus.CUT_OFF, "the stream ended without its finish")
    if not reading.reads:
        return reading.fail(ResponseStatus.MALFORMED, "the answer is empty")
    return reading


def _utf8(content: bytes) -> bytes:
    """The content, which the decoder does not check where it skips."""
    if not content.isascii():
        content.decode()
    return content


def count(value: object) -> int:
    """A token count of a server, `UNKNOWN` when it is none."""
    return value if type(value) is int and 0 <= value < _LARGEST_COUNT else UNKNOWN
