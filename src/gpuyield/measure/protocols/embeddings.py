"""OpenAI-compatible embeddings: one answer, no tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # JSON values

import msgspec

from gpuyield.measure.protocols.framing import Response
from gpuyield.measure.protocols.protocol import cannot_ask, encoded
from gpuyield.measure.protocols.reading import Reading, opened
from gpuyield.measure.protocols.stream import Decoder, count
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import ResponseStatus


class _Vector(msgspec.Struct, gc=False):
    embedding: list[float] | str


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: Any = None


class _Answer(msgspec.Struct, gc=False):
    data: list[_Vector] = []
    usage: _Usage | None = None
    error: Any = None


_DECODER = Decoder(_Answer, list[_Answer])


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """`/embeddings`."""

    streams: bool = False
    path: str = "/embeddings"

    def body(self, line: RequestLine, *, model: str) -> bytes:
        """The body; a prompt is taken as the input."""
        fields: dict[str, Any] = {"model": model}
        match line.kind:
            case "input" | "prompt":
                fields["input"] = line.content
            case "body":
                fields |= line.content
            case _:
                raise cannot_ask(line, "embeddings", "input or body")
        return encoded(fields)

    def read(self, response: Response, *, keep_text: bool) -> Reading:
        """What a response says: good when every vector has numbers."""
        body, reading = opened(response)
        if body is None:
            return reading
        answer = _DECODER.answer(body, reading)
        if answer is None:
            return reading
        if answer.error:
            return reading.fail(ResponseStatus.ERROR_EVENT, "an error in an answer with HTTP 200")
        if not answer.data or not all(one.embedding for one in answer.data):
            return reading.fail(ResponseStatus.MALFORMED, "the answer is empty")
        if answer.usage is not None:
            reading.input_tokens = count(answer.usage.prompt_tokens)
        if keep_text:
            reading.text = body.content.decode("utf-8", "replace")
        return reading.at_once()
