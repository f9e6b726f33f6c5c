"""When a streamed answer is whole, and when it ended: the table of the docs, case by case, with exact times."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.protocols.framing import Ended, Response
from gpuyield.measure.protocols.reading import Reading
from gpuyield.model.measure import ResponseStatus

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"
COMMENT = b": still here\n\n"
OK, CUT_OFF = ResponseStatus.OK, ResponseStatus.CUT_OFF
ERROR, MALFORMED = ResponseStatus.ERROR_EVENT, ResponseStatus.MALFORMED


def event(**fields: Any) -> bytes:
    return b"data: " + msgspec.json.encode(fields) + b"\n\n"


def piece(finish: str | None = None, **delta: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": delta, "finish_reason": finish}])


ROLE = piece(role="assistant", content="")
HELLO, THERE, STOP = piece(content="hello"), piece(content=" there"), piece("stop")
THOUGHT = piece(reasoning_content="hm")
USAGE = event(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 7})


def read(*parts: bytes, ended: Ended = Ended.MESSAGE) -> Reading:
    """What is read of a head at 0 and one chunk a read at 10, 20, 30, ...; a message that ended has its last chunk."""
    chunks = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    if ended is Ended.MESSAGE:
        chunks.append(_END)
    reads = [_HEAD, *chunks]
    return Chat().read(Response([10 * number for number in range(len(reads))], reads, ended), keep_text=True)


@pytest.mark.parametrize(
    ("parts", "ended", "status", "end"),
    [
        ((HELLO, STOP, DONE), Ended.MESSAGE, OK, 30),
        ((HELLO, STOP), Ended.MESSAGE, OK, 30),
        ((HELLO, STOP, DONE), Ended.LATE, OK, 30),
        ((HELLO, STOP, DONE), Ended.CLOSED, OK, 30),
        ((HELLO, STOP, DONE, THERE, b"garbage"), Ended.MESSAGE, OK, 30),
        ((HELLO, DONE), Ended.MESSAGE, CUT_OFF, None),
        ((HELLO,), Ended.MESSAGE, CUT_OFF, None),
        ((HELLO, DONE, STOP), Ended.MESSAGE, CUT_OFF, None),
        ((HELLO, STOP), Ended.CLOSED, CUT_OFF, None),
        ((HELLO,), Ended.CLOSED, CUT_OFF, None),
        ((HELLO,), Ended.LATE, ResponseStatus.TIMEOUT, None),
        ((HELLO,), Ended.STOPPED, ResponseStatus.IN_FLIGHT, None),
        ((HELLO, event(error={"message": "x"}), DONE), Ended.MESSAGE, ERROR, None),
        ((event(error={"message": "x"}),), Ended.MESSAGE, ERROR, None),
        ((HELLO, b"event: error\n" + event(message="x"), STOP, DONE), Ended.MESSAGE, ERROR, None),
        ((HELLO, event(object="error", message="x"), STOP, DONE), Ended.MESSAGE, ERROR, None),
        ((HELLO, piece("error"), DONE), Ended.MESSAGE, ERROR, None),
        ((HELLO, piece("abort"), DONE), Ended.MESSAGE, CUT_OFF, None),
        ((HELLO, piece("length"), DONE), Ended.MESSAGE, OK, 30),
        ((ROLE, STOP, DONE), Ended.MESSAGE, MALFORMED, None),
        ((STOP, DONE), Ended.MESSAGE, MALFORMED, None),
        ((DONE,), Ended.MESSAGE, CUT_OFF, None),
        ((), Ended.MESSAGE, CUT_OFF, None),
    ],
)
def test_an_answer_is_whole_when_its_finish_came_and_nothing_is_missing(
    parts: tuple[bytes, ...], ended: Ended, status: ResponseStatus, end: int | None
) -> None:
    reading = read(*parts, ended=ended)

    assert reading.status is status, reading.problem
    if end is not None:
        assert reading.end_ns == end


@pytest.mark.parametrize(
    ("parts", "first", "last", "reads", "gap"),
    [
        ((ROLE, HELLO, THERE, STOP, USAGE, DONE), 20, 30, 2, 10),
        ((ROLE, THOUGHT, HELLO, STOP, DONE), 20, 30, 2, 10),
        ((THOUGHT, STOP, DONE), 10, 10, 1, -1),
        ((HELLO, COMMENT, COMMENT, THERE, STOP, DONE), 10, 40, 2, 30),
        ((HELLO + THERE, STOP, DONE), 10, 10, 1, -1),
        ((HELLO[:9], HELLO[9:] + THERE[:20], THERE[20:], STOP, DONE), 20, 30, 2, 10),
        ((piece(content="a b c d"), STOP, USAGE, DONE), 10, 10, 1, -1),
    ],
)
def test_the_first_and_the_last_token_are_the_reads_that_completed_content(
    parts: tuple[bytes, ...], first: int, last: int, reads: int, gap: int
) -> None:
    reading = read(*parts)

    assert reading.status is OK, reading.problem
    assert (reading.first_ns, reading.last_ns, reading.reads, reading.gap_max_ns) == (first, last, reads, gap)
    assert reading.output_tokens == (7 if USAGE in parts else -1), "the server counts, or nobody"
