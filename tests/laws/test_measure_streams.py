"""Streams broken at random never hang, crash or count as a success: found out a second way by the standard library."""

from __future__ import annotations

import os
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.demo.answers import write_answer
from gpuyield.demo.asked import Asked, Fault, Wish
from gpuyield.demo.spoken import CHAT, RESPONSES
from gpuyield.measure.protocols.events import split_events
from gpuyield.measure.protocols.framing import Ended, Response
from gpuyield.measure.protocols.named import PROTOCOLS, protocol_named
from gpuyield.measure.sender.connection import Connection, Exchange, Pulse
from gpuyield.model.measure import ResponseStatus
from measure.oracle import may_count

_ORACLES = ("chat", "responses")
_SAMPLED = 3_000
_FULL = 100_000
_GOOD = (Fault.NONE, Fault.ROLE_FIRST, Fault.REASONING_FIRST, Fault.CRLF, Fault.COMMENTS, Fault.TOOL_CALLS)
_GARBAGE = (
    b"\x00",
    b"\r\n",
    b"\n\n",
    b"0\r\n\r\n",
    b"data: ",
    b"[DONE]",
    b"\xff\xfe",
    b'{"error":{"code":1}}',
    b"zz\r\n",
)


class _Transport:
    """Swallows what is sent."""

    def __init__(self) -> None:
        self.closing = False

    def write(self, data: bytes) -> None:
        """Nothing leaves."""

    def get_extra_info(self, name: str) -> None:
        """There is no socket."""

    def get_write_buffer_size(self) -> int:
        """Nothing waits."""
        return 0

    def abort(self) -> None:
        """Closed."""
        self.closing = True


def written(rng: Random, protocol: str = "chat") -> bytes:
    """A good answer of the double."""
    asked = Asked(
        path=RESPONSES if protocol == "responses" else CHAT,
        streams=True,
        usage=rng.random() < 0.5,
        prompt_tokens=3,
        output_tokens=rng.randint(1, 12),
        model="double",
    )
    script = write_answer(asked, Wish(rng.choice(_GOOD)), good=True)
    return b"".join(part.data for part in script.parts)


def broken(raw: bytes, rng: Random) -> bytes:
    """The same with one thing wrong."""
    at, size = rng.randrange(len(raw)), rng.randint(1, 60)
    match rng.randrange(9):
        case 0:
            return raw[:at]
        case 1:
            return raw[:at] + raw[at + size :]
        case 2:
            return raw[:at] + raw[at : at + size] + raw[at:]
        case 3:
            return raw[:at] + bytes([rng.randrange(256)]) + raw[at + 1 :]
        case 4:
            return raw[:at] + rng.choice(_GARBAGE) + raw[at:]
        case 5:
            lost = raw.replace(b"response.completed", b"response.comp1eted")
            return lost.replace(b'"finish_reason":"stop"', b'"finish_reason":null')
        case 6:
            return raw.replace(b"data: [DONE]", b"data: [GONE")[: -rng.randint(1, 20)]
        case 7:
            return rng.randbytes(rng.randint(1, 400))
        case _:
            blocks = raw.split(b"data: ")
            rng.shuffle(blocks)
            return b"data: ".join(blocks)


def received(raw: bytes, rng: Random) -> tuple[Response, int]:
    """What the sender's connection makes of bytes that come in random pieces and then the end; how often it ended."""
    over: list[Ended] = []
    connection = Connection(lambda _, __, ended: over.append(ended), lambda _: None, Pulse(lambda: None))
    connection.connection_made(cast("Any", _Transport()))
    exchange = Exchange(0, b"", 0)
    connection.send(exchange)
    at = 0
    while at < len(raw):
        size = rng.choice((1, 3, 7, 64, 300, 5_000))
        connection.data_received(raw[at : at + size])
        at += size
    connection.connection_lost(None)
    return exchange.response(over[0]), len(over)


def check_one(seed: int) -> None:
    """One broken stream through every protocol."""
    rng = Random(f"stream {seed}")
    protocol = _ORACLES[seed % len(_ORACLES)]
    raw = written(rng, protocol)
    for _ in range(rng.choice((1, 1, 2, 4))):
        raw = broken(raw, rng) or b"x"

    response, times = received(raw, rng)
    reading = protocol_named(protocol).read(response, keep_text=True)

    assert times == 1
    if reading.status is ResponseStatus.OK:
        assert may_count(raw, protocol), (seed, raw)
        assert reading.first_ns >= 0
    for name in PROTOCOLS:
        protocol_named(name).read(response, keep_text=True)


def test_a_broken_stream_never_counts_as_a_success() -> None:
    for seed in range(_SAMPLED):
        check_one(seed)


@pytest.mark.slow_laws
@pytest.mark.timeout(1800)
def test_a_hundred_thousand_broken_streams_never_count_as_a_success() -> None:
    count = _FULL if os.environ.get("GPUYIELD_LAWS", "full") == "full" else _FULL // 5
    for seed in range(_SAMPLED, _SAMPLED + count):
        check_one(seed)


def test_an_unbroken_stream_counts_in_whatever_pieces_it_comes() -> None:
    for seed in range(300):
        rng = Random(f"whole {seed}")
        protocol = _ORACLES[seed % len(_ORACLES)]
        raw = written(rng, protocol)

        response, times = received(raw, rng)
        reading = protocol_named(protocol).read(response, keep_text=True)

        assert (reading.status, times) == (ResponseStatus.OK, 1), reading.problem
        assert may_count(raw, protocol)


@given(st.lists(st.binary(max_size=30), max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_events_are_the_same_for_every_end_of_line(texts: list[bytes], end: bytes) -> None:
    plain = [text.replace(b"\r", b"").replace(b"\n", b"") for text in texts]

    found = split_events(b"".join(b"data: " + text + end * 2 for text in plain))

    assert found.data == plain
    assert found.torn == b""


@given(st.binary(max_size=400))
def test_no_bytes_at_all_make_the_reader_raise(raw: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
    for name in PROTOCOLS:
        for content in (raw, head + raw):
            response = Response([5], [content], Ended.CLOSED)

            assert protocol_named(name).read(response, keep_text=True).status in set(ResponseStatus)
