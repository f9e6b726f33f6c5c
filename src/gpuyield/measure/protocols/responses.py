"""OpenAI-compatible responses: typed events, with the whole response in the last one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # JSON values

import msgspec

from gpuyield.measure.protocols.framing import Body, Response
from gpuyield.measure.protocols.protocol import cannot_ask, encoded
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.protocols.stream import Decoder, conclude, count, read_either, take_times
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import ResponseStatus

_FINISHES = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"error", "response.failed"})


class _Usage(msgspec.Struct, gc=False):
    input_tokens: Any = None
    output_tokens: Any = None
    output_tokens_details: Any = None


class _Whole(msgspec.Struct, gc=False):
    status: str | None = None
    output: list[Any] = []
    usage: _Usage | None = None
    error: Any = None


class _Event(msgspec.Struct, gc=False):
    type: str
    delta: Any = None
    response: _Whole | None = None


_EVENTS = Decoder(_Event, list[_Event])
_ANSWER = Decoder(_Whole, list[_Whole])


@dataclass(frozen=True, slots=True, kw_only=True)
class Responses:
    """`/responses`."""

    streams: bool = True
    path: str = "/responses"

    def body(self, line: RequestLine, *, model: str) -> bytes:
        """The body; a prompt or messages are taken as the input."""
        fields: dict[str, Any] = {"model": model, "max_output_tokens": line.max_tokens}
        match line.kind:
            case "input" | "prompt" | "messages":
                fields["input"] = line.content
            case "body":
                fields |= line.content
            case _:
                raise cannot_ask(line, "responses", "input, prompt, messages or body")
        return encoded(fields | {"stream": True if self.streams else None})

    def read(self, response: Response, *, keep_text: bool) -> Reading:
        """What a response says."""
        return read_either(response, streamed=_read_stream, at_once=_read_answer, keep_text=keep_text)


def _read_stream(body: Body, reading: Reading, *, keep_text: bool) -> Reading:
    stream = _EVENTS.stream(body)
    content_ends: list[int] = []
    texts: list[str] = []
    finished = failed = False
    for event, end in zip(stream.events, stream.ends, strict=False):
        if event.type.endswith(".delta") and event.delta:
            content_ends.append(end)
            if keep_text and event.type == "response.output_text.delta" and isinstance(event.delta, str):
                texts.append(event.delta)
        elif event.type in _FAILURES:
            failed = True
        elif event.type in _FINISHES:
            # It holds the whole response and nothing follows it: what `[DONE]` is to the other streams.
            finished = True
            stream.done_at = end - 1
            if event.response is not None:
                _take_whole(reading, event.response)
            break
    take_times(reading, body, content_ends)
    reading.text = "".join(texts)
    return conclude(reading, body, stream, finished=finished, failed=failed)


def _read_answer(body: Body, reading: Reading, *, keep_text: bool) -> Reading:
    answer = _ANSWER.answer(body, reading)
    if answer is None:
        return reading
    if answer.error or answer.status == "failed":
        return reading.fail(ResponseStatus.ERROR_EVENT, "an error in an answer with HTTP 200")
    _take_whole(reading, answer)
    if answer.status not in ("completed", "incomplete"):
        return reading.fail(ResponseStatus.CUT_OFF, "the answer has no finish")
    if not answer.output:
        return reading.fail(ResponseStatus.MALFORMED, "the answer is empty")
    if keep_text:
        reading.text = "".join(_texts(answer.output))
    return reading.at_once()


def _take_whole(reading: Reading, whole: _Whole) -> None:
    if whole.usage is None:
        return
    reading.output_tokens = count(whole.usage.output_tokens)
    reading.input_tokens = count(whole.usage.input_tokens)
    details = whole.usage.output_tokens_details
    if isinstance(details, dict):
        reading.reasoning_tokens = count(details.get("reasoning_tokens"))


def _texts(output: list[Any]) -> list[str]:
    listed = [item.get("content") for item in output if isinstance(item, dict)]
    parts = [part for content in listed if isinstance(content, list) for part in content if isinstance(part, dict)]
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]
