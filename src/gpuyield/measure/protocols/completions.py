"""OpenAI-compatible text completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # JSON values

from gpuyield.measure.protocols.choices import Choices
from gpuyield.measure.protocols.protocol import cannot_ask
from gpuyield.measure.requests import RequestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Completions(Choices):
    """`/completions`."""

    path: str = "/completions"

    def content(self, line: RequestLine) -> dict[str, Any]:
        """A prompt."""
        match line.kind:
            case "prompt":
                return {"prompt": line.content}
            case "body":
                return dict(line.content)
        raise cannot_ask(line, "completions", "prompt or body")
