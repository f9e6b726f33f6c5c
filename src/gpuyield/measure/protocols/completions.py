"""OpenAI-compatible text completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # JSON values

from gpuyield.measure.protocols.chat import how_to_answer
from gpuyield.measure.protocols.choices import read_choices
from gpuyield.measure.protocols.framing import Response
from gpuyield.measure.protocols.protocol import cannot_ask, encoded
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.requests import RequestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions:
    """`/completions`. `usage`: ask for token counts at the end of a stream."""

    streams: bool = True
    usage: bool = True
    path: str = "/completions"

    def body(self, line: RequestLine, *, model: str) -> bytes:
        """The body of a request with a prompt."""
        fields: dict[str, Any] = {"model": model, "max_tokens": line.max_tokens}
        match line.kind:
            case "prompt":
                fields["prompt"] = line.content
            case "body":
                fields |= line.content
            case _:
                raise cannot_ask(line, "completions", "prompt or body")
        return encoded(fields | how_to_answer(streams=self.streams, usage=self.usage))

    def read(self, response: Response, *, keep_text: bool) -> Reading:
        """What a response says."""
        return read_choices(response, keep_text=keep_text)
