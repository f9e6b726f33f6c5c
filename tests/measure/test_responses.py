"""The responses protocol: typed events, with the whole response in the last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpuyield.measure.protocols.framing import Ended, Response
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.protocols.responses import Responses
from gpuyield.model.measure import ResponseStatus

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_USAGE = {"input_tokens": 3, "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}
_CREATED = {"type": "response.created", "response": {"status": "in_progress", "output": []}}
_THOUGHT = {"type": "response.reasoning_text.delta", "delta": "hm"}
_TEXT = {"type": "response.output_text.delta", "delta": "hello"}
_COMPLETED = {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": _USAGE}}


def read(*events: dict[str, Any], ends: bool = True) -> Reading:
    """What is read of these events, one a read, at 10, 20, 30, ..."""
    texts = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
    parts = [_HEAD, *(b"%x\r\n%s\r\n" % (len(text), text) for text in texts), *([b"0\r\n\r\n"] if ends else [])]
    times = [10 * number for number in range(len(parts))]
    return Responses().read(Response(times, parts, Ended.MESSAGE if ends else Ended.CLOSED), keep_text=True)


def test_reasoning_is_the_first_content_and_text_is_what_is_graded() -> None:
    reading = read(_CREATED, _THOUGHT, _TEXT, _COMPLETED)

    assert reading.status is ResponseStatus.OK
    assert (reading.first_ns, reading.last_ns, reading.reads, reading.gap_max_ns) == (20, 30, 2, 10)
    assert (reading.output_tokens, reading.input_tokens, reading.reasoning_tokens) == (2, 3, 1)
    assert reading.text == "hello"


@pytest.mark.parametrize(
    ("events", "ends", "status"),
    [
        ((_CREATED, _TEXT), True, ResponseStatus.CUT_OFF),
        ((_CREATED, _TEXT), False, ResponseStatus.CUT_OFF),
        ((_CREATED, _TEXT, _COMPLETED), False, ResponseStatus.OK),
        ((_CREATED, _TEXT, _COMPLETED, {"type": "error", "message": "late"}), True, ResponseStatus.ERROR_EVENT),
        ((_CREATED, _TEXT, {"type": "error", "message": "x"}), True, ResponseStatus.ERROR_EVENT),
        ((_CREATED, _TEXT, {"type": "response.failed", "response": {}}), True, ResponseStatus.ERROR_EVENT),
        ((_CREATED, _COMPLETED), True, ResponseStatus.MALFORMED),
        ((_CREATED, _TEXT, {"type": "response.incomplete", "response": {}}), True, ResponseStatus.OK),
    ],
)
def test_what_lacks_its_finish_is_a_miss(
    events: tuple[dict[str, Any], ...], ends: bool, status: ResponseStatus
) -> None:
    assert read(*events, ends=ends).status is status


def test_an_answer_that_is_not_streamed_is_read_whole() -> None:
    output = [{"type": "message", "content": [{"type": "output_text", "text": "hello"}]}]
    body = json.dumps({"status": "completed", "output": output, "usage": _USAGE}).encode()
    raw = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    reading = Responses(streams=False).read(Response([5], [raw], Ended.MESSAGE), keep_text=True)

    assert (reading.status, reading.text, reading.output_tokens) == (ResponseStatus.OK, "hello", 2)
    assert (reading.first_ns, reading.end_ns) == (5, 5)
