"""What the double says in the words of each endpoint: chat and completions, responses, embeddings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol  # JSON values

from gpuyield.demo.asked import Asked, Fault, Wish

CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/embeddings",
)


class Said(NamedTuple):
    """An event of a stream, when token `token` is there (-1: at once); `name` where the endpoint names its events."""

    token: int
    data: bytes
    name: str = ""


class Endpoint(Protocol):
    """The words of one endpoint."""

    @property
    def bad(self) -> Mapping[Fault, bytes]:
        """The event that ends a stream which goes wrong so."""
        ...

    def whole(self, asked: Asked, wish: Wish, words: Sequence[str]) -> dict[str, Any]:
        """The answer at once."""
        ...

    def events(self, asked: Asked, wish: Wish, words: Sequence[str]) -> Iterator[Said]:
        """The answer token by token, to its end."""
        ...


def endpoint_of(path: str) -> Endpoint:
    """The endpoint at a path that writes text."""
    return _Items() if path == RESPONSES else _Choices(chat=path == CHAT)


def embeddings(asked: Asked) -> dict[str, Any]:
    """One embedding."""
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5, 0.125]}],
        "model": asked.model,
        "usage": {"prompt_tokens": asked.prompt_tokens, "total_tokens": asked.prompt_tokens},
    }


class _Choices:
    """Chat and completions: choices with a finish, the usage in a chunk of its own, and `[DONE]`."""

    bad: Mapping[Fault, bytes] = {
        Fault.ERROR_EVENT: b'{"error":{"message":"as asked","code":500}}',
        Fault.BROKEN_JSON: b'{"choices":[{"index":0,"delta":{"content":"x}]}',
        Fault.NOT_UTF8: b'{"choices":[{"index":0,"delta":{"content":"\xff\xfe"}}]}',
    }

    def __init__(self, *, chat: bool) -> None:
        self._chat = chat

    def whole(self, asked: Asked, wish: Wish, words: Sequence[str]) -> dict[str, Any]:
        """One choice with all the words."""
        text = "".join(words)
        choice: dict[str, Any] = {"index": 0, "finish_reason": None if wish.fault is Fault.NO_FINISH else "stop"}
        choice |= {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        fields = {
            "id": "double",
            "object": "chat.completion" if self._chat else "text_completion",
            "model": asked.model,
            "choices": [choice],
        }
        return fields | ({} if wish.fault is Fault.NO_USAGE else {"usage": _usage(asked)})

    def events(self, asked: Asked, wish: Wish, words: Sequence[str]) -> Iterator[Said]:
        """A chunk for each token or few, the finish, the usage, and `[DONE]`."""
        fault = wish.fault
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        base = {"id": "double", "object": kind, "model": asked.model}
        last = asked.output_tokens - 1
        if self._chat and fault is Fault.ROLE_FIRST:
            yield Said(-1, self._chunk(base, {"role": "assistant", "content": ""}))
        for token, at, text in _steps(words, wish):
            yield Said(token, self._chunk(base, _delta(text, at, len(words), fault)))
        yield Said(last, self._chunk(base, {}, "tool_calls" if fault is Fault.TOOL_CALLS else "stop"))
        if asked.usage and fault is not Fault.NO_USAGE:
            yield Said(last, _json(base | {"choices": [], "usage": _usage(asked)}))
        if fault is not Fault.NO_DONE:
            yield Said(last, b"[DONE]")

    def _chunk(self, base: Mapping[str, Any], said: Mapping[str, Any], finish: str | None = None) -> bytes:
        content = {"delta": said} if self._chat else {"text": said.get("content", "")}
        return _json({**base, "choices": [{"index": 0, "finish_reason": finish, **content}]})


class _Items:
    """Responses: events that name themselves, and the whole response with its usage in the last of them."""

    bad: Mapping[Fault, bytes] = {
        Fault.ERROR_EVENT: b'{"type":"error","code":"server_error","message":"as asked"}',
        Fault.BROKEN_JSON: b'{"type":"response.output_text.delta","delta":"x}',
        Fault.NOT_UTF8: b'{"type":"response.output_text.delta","delta":"\xff\xfe"}',
    }

    def whole(self, asked: Asked, wish: Wish, words: Sequence[str]) -> dict[str, Any]:
        """One message with all the words."""
        done = wish.fault is not Fault.NO_FINISH
        return self._response(asked, wish, words, status="completed" if done else "in_progress")

    def events(self, asked: Asked, wish: Wish, words: Sequence[str]) -> Iterator[Said]:
        """The beginning, a delta for each token or few, and the end with the whole."""
        last = asked.output_tokens - 1
        begun = self._response(asked, wish, (), status="in_progress")
        yield _named(-1, "response.created", response=begun)
        for token, at, text in _steps(words, wish):
            yield _named(token, _kind(at, len(words), wish.fault), item_id="item", output_index=0, delta=text)
        whole = self._response(asked, wish, words, status="completed")
        yield _named(last, "response.completed", response=whole)

    def _response(self, asked: Asked, wish: Wish, words: Sequence[str], *, status: str) -> dict[str, Any]:
        content = [{"type": "output_text", "text": "".join(words), "annotations": []}]
        message = {"type": "message", "id": "item", "role": "assistant", "status": status, "content": content}
        counted = status == "completed" and wish.fault is not Fault.NO_USAGE
        usage = {
            "input_tokens": asked.prompt_tokens,
            "output_tokens": asked.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": asked.prompt_tokens + asked.output_tokens,
        }
        return {
            "id": "double",
            "object": "response",
            "model": asked.model,
            "status": status,
            "error": None,
            "output": [message] if words else [],
            "usage": usage if counted else None,
        }


def _named(token: int, name: str, **fields: Any) -> Said:
    return Said(token, _json({"type": name, **fields}), name)


def _kind(at: int, total: int, fault: Fault) -> str:
    if fault is Fault.REASONING_ONLY or (fault is Fault.REASONING_FIRST and at < total // 2):
        return "response.reasoning_text.delta"
    return "response.function_call_arguments.delta" if fault is Fault.TOOL_CALLS else "response.output_text.delta"


def _steps(words: Sequence[str], wish: Wish) -> Iterator[tuple[int, int, str]]:
    """The last token, the first token and the text of each chunk."""
    step = wish.number if wish.fault is Fault.TOKENS_PER_CHUNK else 1
    for at in range(0, len(words), step):
        group = words[at : at + step]
        yield at + len(group) - 1, at, "".join(group)


def _delta(text: str, at: int, total: int, fault: Fault) -> dict[str, Any]:
    if fault is Fault.REASONING_ONLY or (fault is Fault.REASONING_FIRST and at < total // 2):
        return {"reasoning_content": text} if fault is Fault.REASONING_FIRST else {"reasoning": text}
    if fault is Fault.TOOL_CALLS:
        called = {"name": "look", "arguments": ""} if at == 0 else {"arguments": text}
        return {"tool_calls": [{"index": 0, "function": called}]}
    return {"content": text}


def _usage(asked: Asked) -> dict[str, int]:
    return {
        "prompt_tokens": asked.prompt_tokens,
        "completion_tokens": asked.output_tokens,
        "total_tokens": asked.prompt_tokens + asked.output_tokens,
    }


def _json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
