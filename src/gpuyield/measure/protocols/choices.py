"""Protocols whose answers have choices: chat completions and text completions, streamed or not.

Content is what was generated: text, reasoning, a refusal, a tool call. The role alone, an empty text and the usage
are none; the first token is the first content, so reasoning that comes before the text is not waited through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any  # what servers write there differs

import msgspec

from gpuyield.measure.protocols.framing import Body, Response
from gpuyield.measure.protocols.protocol import encoded
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.protocols.stream import Decoder, conclude, count, read_either, take_times
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import ResponseStatus

_NO_FINISH = {"error": ResponseStatus.ERROR_EVENT, "abort": ResponseStatus.CUT_OFF}


class _Content(msgspec.Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning: Any = None
    reasoning_content: Any = None
    refusal: Any = None
    tool_calls: Any = None
    function_call: Any = None
    audio: Any = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Content | None = None
    message: _Content | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Any = None
    completion_tokens: Any = None
    completion_tokens_details: Any = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: Any = None


_DECODER = Decoder(_Event, list[_Event])


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices(ABC):
    """A protocol whose answers have choices. `usage`: ask for token counts at the end of a stream."""

    streams: bool = True
    usage: bool = True
    path: str = ""

    @abstractmethod
    def content(self, line: RequestLine) -> dict[str, Any]:
        """The fields that hold what is asked; of a body, all of it.

        Raises:
            DeclarationError: This protocol cannot ask that.
        """

    def body(self, line: RequestLine, *, model: str) -> bytes:
        """The body of a request; what the request says itself wins."""
        fields: dict[str, Any] = {"model": model, "max_tokens": line.max_tokens} | self.content(line)
        fields["stream"] = True if self.streams else None
        fields["stream_options"] = {"include_usage": True} if self.streams and self.usage else None
        return encoded(fields)

    def read(self, response: Response, *, keep_text: bool) -> Reading:
        """What a response says."""
        return read_either(response, streamed=_read_stream, at_once=_read_answer, keep_text=keep_text)


def _read_stream(body: Body, reading: Reading, *, keep_text: bool) -> Reading:
    stream = _DECODER.stream(body)
    content_ends: list[int] = []
    pieces: list[_Content | str] = []
    begun: set[int] = set()
    ended: dict[int, str] = {}
    failed = False
    for event, end in zip(stream.events, stream.ends, strict=False):
        if event.usage is not None:
            _take_usage(reading, event.usage)
        if event.error or event.object == "error":
            failed = True
        brought = False
        for choice in event.choices or ():
            begun.add(choice.index)
            if choice.finish_reason:
                ended[choice.index] = choice.finish_reason
            piece = choice.text or choice.delta
            if piece and _has_content(piece):
                brought = True
                if keep_text and choice.index == 0:
                    pieces.append(piece)
        if brought:
            content_ends.append(end)
    take_times(reading, body, content_ends)
    reading.text = _text(pieces) if keep_text else ""
    finished = bool(ended) and begun <= set(ended)
    return _by_finish(conclude(reading, body, stream, finished=finished, failed=failed), ended.values())


def _read_answer(body: Body, reading: Reading, *, keep_text: bool) -> Reading:
    answer = _DECODER.answer(body, reading)
    if answer is None:
        return reading
    if answer.usage is not None:
        _take_usage(reading, answer.usage)
    if answer.error or answer.object == "error":
        return reading.fail(ResponseStatus.ERROR_EVENT, "an error in an answer with HTTP 200")
    choices = answer.choices or []
    pieces = [choice.text or choice.message for choice in choices]
    if not any(piece and _has_content(piece) for piece in pieces):
        return reading.fail(ResponseStatus.MALFORMED, "the answer is empty")
    if not all(choice.finish_reason for choice in choices):
        return reading.fail(ResponseStatus.CUT_OFF, "the answer has no finish")
    if keep_text and pieces[0]:
        reading.text = _text([pieces[0]])
    return _by_finish(reading.at_once(), [choice.finish_reason or "" for choice in choices])


def _by_finish(reading: Reading, finishes: Iterable[str]) -> Reading:
    if reading.status is ResponseStatus.OK:
        for finish in finishes:
            if finish in _NO_FINISH:
                return reading.fail(_NO_FINISH[finish], f"the server finished it with {finish}")
    return reading


def _has_content(piece: _Content | str) -> bool:
    if not isinstance(piece, _Content):
        return True
    return bool(
        piece.content
        or piece.reasoning
        or piece.reasoning_content
        or piece.tool_calls
        or piece.refusal
        or piece.function_call
        or piece.audio
    )


def _take_usage(reading: Reading, usage: _Usage) -> None:
    reading.output_tokens = count(usage.completion_tokens)
    reading.input_tokens = count(usage.prompt_tokens)
    details = usage.completion_tokens_details
    if isinstance(details, dict):
        reading.reasoning_tokens = count(details.get("reasoning_tokens"))


def _text(pieces: list[_Content | str]) -> str:
    """The text to be graded: without reasoning; where there is none, the tool calls as JSON."""
    texts = [_plain(piece.content if isinstance(piece, _Content) else piece) for piece in pieces]
    text = "".join(texts)
    if text:
        return text
    calls: dict[object, dict[str, str]] = {}
    for piece in pieces:
        listed = piece.tool_calls if isinstance(piece, _Content) else None
        for number, call in enumerate(listed if isinstance(listed, list) else ()):
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                continue
            kept = calls.setdefault(str(call.get("index", number)), {"name": "", "arguments": ""})
            for key in kept:
                kept[key] += _plain(function.get(key))
    return msgspec.json.encode(list(calls.values())).decode() if calls else ""


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_plain(part.get("text")) for part in content if isinstance(part, dict))
    return ""
