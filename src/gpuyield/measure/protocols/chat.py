"""OpenAI-compatible chat completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any  # JSON values

from gpuyield.measure.protocols.choices import Choices
from gpuyield.measure.protocols.protocol import cannot_ask
from gpuyield.measure.requests import RequestLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat(Choices):
    """`/chat/completions`."""

    path: str = "/chat/completions"

    def content(self, line: RequestLine) -> dict[str, Any]:
        """Messages; a prompt becomes one message of the user."""
        match line.kind:
            case "messages":
                return {"messages": line.content}
            case "prompt":
                return {"messages": [{"role": "user", "content": line.content}]}
            case "body":
                return dict(line.content)
        raise cannot_ask(line, "chat", "messages, prompt or body")
