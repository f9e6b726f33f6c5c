"""Requests are read from JSON lines, whole or not at all."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.errors import DeclarationError
from gpuyield.measure.protocols.named import PROTOCOLS, protocol_named
from gpuyield.measure.requests import RequestLine, read_requests


def read(*rows: Any) -> tuple[RequestLine, ...]:
    """The requests of these rows."""
    return read_requests([row if isinstance(row, str) else json.dumps(row) for row in rows], file="requests.jsonl")


def mistakes(*rows: Any) -> list[str]:
    """What is wrong with these rows, and where."""
    with pytest.raises(DeclarationError) as caught:
        read(*rows)
    return [f"{one.where}: {one.what}" for one in caught.value.mistakes]


def test_each_line_is_a_request() -> None:
    found = read(
        {"id": "q1", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8, "expected": "hello"},
        "",
        {"prompt": "once upon"},
        {"id": 7, "input": ["a", "b"]},
        {"body": {"any": [1, 2.5, None]}},
    )

    assert [(one.id, one.kind) for one in found] == [("q1", "messages"), ("3", "prompt"), ("7", "input"), ("5", "body")]
    assert (found[0].max_tokens, found[0].expected) == (8, "hello")


def test_all_mistakes_are_named_with_their_line_and_nothing_of_the_prompts() -> None:
    found = mistakes(
        {"prompt": "secret text"},
        "{not json: secret}",
        [1],
        {"prompt": "secret", "input": "secret"},
        {"id": "a"},
        {"prompt": 5},
        {"messages": [{"content": "secret"}]},
        {"prompt": "secret", "max_tokens": 0},
        {"prompt": "secret", "max_token": 5},
        {"body": {"a": 1}, "max_tokens": 3},
        {"id": True, "prompt": "secret"},
        {"id": "1", "prompt": "secret"},
    )

    assert [place.split(":")[1] for place in found] == [str(number) for number in range(2, 13)]
    assert "secret" not in "".join(found)


def test_a_misspelt_field_gets_its_spelling() -> None:
    with pytest.raises(DeclarationError, match='Did you mean "max_tokens"'):
        read({"prompt": "a", "max_token": 5})


def test_a_file_without_a_request_is_an_error() -> None:
    assert mistakes("", " ") == ["requests.jsonl: no request in it."]


def test_a_byte_order_mark_is_no_mistake() -> None:
    assert len(read_requests([b'\xef\xbb\xbf{"prompt": "a"}'], file="f")) == 1


@given(st.binary(max_size=200))
def test_no_bytes_make_the_reader_crash(raw: bytes) -> None:
    with contextlib.suppress(DeclarationError):
        assert read_requests(raw.split(b"\n"), file="f")


@pytest.mark.parametrize(
    ("name", "line", "body"),
    [
        (
            "chat",
            {"prompt": "hi", "max_tokens": 3},
            {
                "model": "m",
                "max_tokens": 3,
                "messages": [{"role": "user", "content": "hi"}],
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        ),
        (
            "completions",
            {"prompt": "hi"},
            {"model": "m", "prompt": "hi", "stream": True, "stream_options": {"include_usage": True}},
        ),
        (
            "responses",
            {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3},
            {
                "model": "m",
                "max_output_tokens": 3,
                "input": [{"role": "user", "content": "hi"}],
                "stream": True,
            },
        ),
        ("embeddings", {"input": ["a", "b"]}, {"model": "m", "input": ["a", "b"]}),
        ("http", {"body": {"x": 1}}, {"x": 1}),
        (
            "chat",
            {"body": {"model": "other", "messages": [], "temperature": 0}},
            {
                "model": "other",
                "messages": [],
                "temperature": 0,
                "stream": True,
                "stream_options": {"include_usage": True},
            },
        ),
    ],
)
def test_a_request_becomes_the_body_of_its_protocol(name: str, line: dict[str, Any], body: dict[str, Any]) -> None:
    (request,) = read(line)

    assert json.loads(protocol_named(name).body(request, model="m")) == body


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("chat", {"input": "a"}),
        ("completions", {"messages": [{"role": "user", "content": "a"}]}),
        ("embeddings", {"messages": [{"role": "user", "content": "a"}]}),
        ("http", {"prompt": "a"}),
    ],
)
def test_a_request_that_a_protocol_cannot_ask_is_an_error_that_says_what_it_takes(
    name: str, line: dict[str, Any]
) -> None:
    (request,) = read(line)

    with pytest.raises(DeclarationError, match="does not take"):
        protocol_named(name).body(request, model="m")


def test_an_unknown_protocol_is_an_error() -> None:
    with pytest.raises(DeclarationError, match=", ".join(PROTOCOLS)):
        protocol_named("grpc")
