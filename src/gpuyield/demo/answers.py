"""The bytes that the model-server double writes: OpenAI-compatible answers, and every way in which they go wrong.

An answer is a list of parts, each with the number of the token it waits for. Faults are asked for in the text of a
request, as `[[fault:NAME]]`, or come with a share of all answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple  # JSON values

_FAULT = re.compile(rb"\[\[fault:([a-z0-9_]+)(?::(\d+))?\]\]")
_TAG = re.compile(rb"\[\[tag:([A-Za-z0-9_.-]{1,40})\]\]")
_RIGHT = re.compile(rb"\[\[answer:([^\[\]]{1,200})\]\]")


class Fault(StrEnum):
    """How an answer differs from a plain good one. Some are no faults but ways in which good servers differ."""

    NONE = "none"
    ROLE_FIRST = "role_first"
    """A chunk with the role alone at once, long before the first token."""
    REASONING_FIRST = "reasoning_first"
    REASONING_ONLY = "reasoning_only"
    TOOL_CALLS = "tool_calls"
    NO_USAGE = "no_usage"
    TOKENS_PER_CHUNK = "tokens_per_chunk"
    """`:N` tokens in each chunk."""
    CHUNKS_PER_READ = "chunks_per_read"
    """`:N` events in each write."""
    SPLIT = "split"
    """Every `:N` bytes in a write of their own."""
    CRLF = "crlf"
    LINE_SEPARATORS = "line_separators"
    """U+2028, U+2029 and U+0085 in the text, as they are."""
    COMMENTS = "comments"
    NOT_CHUNKED = "not_chunked"
    """The body ends with the connection."""
    ERROR_EVENT = "error_event"
    NO_FINISH = "no_finish"
    """Half of the tokens, then the end of the message: no finish, no `[DONE]`."""
    NO_DONE = "no_done"
    """A finish, but no `[DONE]`."""
    CUT = "cut"
    """Half of the tokens, then the connection is closed."""
    DONE_THEN_LATE = "done_then_late"
    """Bytes after `[DONE]`, and more after the end of the message."""
    HANGS_AFTER_DONE = "hangs_after_done"
    EMPTY = "empty"
    BROKEN_JSON = "broken_json"
    NOT_UTF8 = "not_utf8"
    WRONG_CHUNK = "wrong_chunk"
    TOO_MANY = "too_many"
    UNAVAILABLE = "unavailable"
    FAILS = "fails"
    SILENT = "silent"
    """No byte ever comes."""
    STALLS = "stalls"
    """Half of the tokens, then silence."""
    CLOSES_IDLE = "closes_idle"
    """A good answer, and the connection is closed after it without a word."""
    TRAILERS = "trailers"


class Wish(NamedTuple):
    """A fault and its number."""

    fault: Fault
    number: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request asks for."""

    path: str
    streams: bool
    usage: bool
    prompt_tokens: int
    output_tokens: int
    model: str
    right: str = ""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes to write when token `token` is there; -1: at once. `pause`: let what was written be read first."""

    token: int
    data: bytes
    pause: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What is written for a request, and whether the connection is closed after it, or left without an end."""

    parts: Sequence[Part]
    closes: bool = False
    hangs: bool = False


def wished(body: bytes) -> Wish:
    """The fault that a request asks for in its text."""
    found = _FAULT.search(body)
    if found is None or found[1].decode() not in set(Fault):
        return Wish(Fault.NONE)
    return Wish(Fault(found[1].decode()), int(found[2] or 1))


def tag_of(body: bytes) -> str:
    """The name that a request gives itself for the log: `[[tag:NAME]]`."""
    found = _TAG.search(body)
    return found[1].decode() if found else ""


def right_answer(body: bytes) -> str:
    """The answer that a request calls right: `[[answer:TEXT]]`."""
    found = _RIGHT.search(body)
    return found[1].decode("utf-8", "replace") if found else ""


def write_answer(asked: Asked, wish: Wish, *, good: bool) -> Script:
    """What is written for a request; `good` answers begin with what the request calls right."""
    match wish.fault:
        case Fault.TOO_MANY | Fault.UNAVAILABLE | Fault.FAILS:
            status = {Fault.TOO_MANY: 429, Fault.UNAVAILABLE: 503, Fault.FAILS: 500}[wish.fault]
            return Script(parts=[Part(-1, error(status, "as asked", retry=status != 500))])
        case Fault.SILENT:
            return Script(parts=[], hangs=True)
    if asked.path == "/v1/embeddings":
        return Script(parts=[Part(0, whole(_embeddings(asked)))])
    words = _words(asked, wish, good=good)
    if not asked.streams:
        return _answer_at_once(asked, wish, words)
    return _stream(asked, wish, words)


def error(status: int, message: str, *, retry: bool = False) -> bytes:
    """An answer with an error status."""
    fields = {"error": {"message": message, "type": "error", "code": status}}
    return whole(fields, status=status, more=["Retry-After: 1"] if retry else [])


def whole(fields: Any, *, status: int = 200, more: Iterable[str] = ()) -> bytes:
    """An answer with its length."""
    return plain(json.dumps(fields, separators=(",", ":")).encode(), "application/json", status=status, more=more)


def plain(content: bytes, kind: str, *, status: int = 200, more: Iterable[str] = ()) -> bytes:
    """An answer of any type."""
    lines = [f"HTTP/1.1 {status} Status", f"Content-Type: {kind}", f"Content-Length: {len(content)}", *more, "", ""]
    return "\r\n".join(lines).encode() + content


def _words(asked: Asked, wish: Wish, *, good: bool) -> list[str]:
    if wish.fault is Fault.EMPTY:
        return []
    words = [f"w{number} " for number in range(asked.output_tokens)]
    if asked.right:
        words[0] = asked.right + " " if good else "wrong "
    if wish.fault is Fault.LINE_SEPARATORS:
        words = [f"{word}\u2028\u2029\x85" for word in words]
    return words


def _answer_at_once(asked: Asked, wish: Wish, words: list[str]) -> Script:
    chat = asked.path == "/v1/chat/completions"
    last = asked.output_tokens - 1
    text = "".join(words)
    choice: dict[str, Any] = {"index": 0, "finish_reason": None if wish.fault is Fault.NO_FINISH else "stop"}
    choice |= {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    fields = {"id": "double", "object": "chat.completion" if chat else "text_completion", "model": asked.model}
    body = whole(fields | {"choices": [choice]} | ({} if wish.fault is Fault.NO_USAGE else {"usage": _usage(asked)}))
    match wish.fault:
        case Fault.ERROR_EVENT:
            return Script(parts=[Part(last, whole({"error": {"message": "as asked"}}))])
        case Fault.CUT:
            return Script(parts=[Part(last, body[: -len(text) // 2 - 20])], closes=True)
        case Fault.STALLS:
            return Script(parts=[Part(last, body[: -len(text) // 2 - 20])], hangs=True)
        case Fault.BROKEN_JSON:
            return Script(parts=[Part(last, body[:-1] + b"!")])
        case Fault.SPLIT:
            return Script(parts=_split([Part(last, body)], wish.number))
    return Script(parts=[Part(last, body)], closes=wish.fault is Fault.CLOSES_IDLE)


def _stream(asked: Asked, wish: Wish, words: list[str]) -> Script:
    fault = wish.fault
    events = list(_events(asked, wish, words))
    half = fault in (Fault.NO_FINISH, Fault.CUT, Fault.STALLS, Fault.ERROR_EVENT, Fault.BROKEN_JSON, Fault.NOT_UTF8)
    if half or fault is Fault.WRONG_CHUNK:
        kept = [(token, event) for token, event in events if token < max(1, len(words) // 2)]
        bad = {
            Fault.ERROR_EVENT: b'{"error":{"message":"as asked","code":500}}',
            Fault.BROKEN_JSON: b'{"choices":[{"index":0,"delta":{"content":"x}]}',
            Fault.NOT_UTF8: b'{"choices":[{"index":0,"delta":{"content":"\xff\xfe"}}]}',
        }
        last = kept[-1][0]
        kept += [(last, bad[fault])] if fault in bad else []
        ends_well = fault in (Fault.BROKEN_JSON, Fault.NOT_UTF8)
        events = kept + ([one for one in events if one[0] == len(words) - 1][-3:] if ends_well else [])
    line = "\r\n" if fault is Fault.CRLF else "\n"
    texts = [(token, b"data: " + event + (line * 2).encode()) for token, event in events]
    if fault is Fault.COMMENTS:
        texts = [(token, b": ping\n\nretry: 3000\nid: 7\n" + text) for token, text in texts]
    if fault is Fault.CHUNKS_PER_READ:
        count = max(1, wish.number)
        groups = [texts[at : at + count] for at in range(0, len(texts), count)]
        texts = [(group[-1][0], b"".join(text for _, text in group)) for group in groups]
    return _framed(texts, wish)


def _framed(texts: Sequence[tuple[int, bytes]], wish: Wish) -> Script:
    fault = wish.fault
    head = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream; charset=utf-8"]
    chunked = fault is not Fault.NOT_CHUNKED
    head.append("Transfer-Encoding: chunked" if chunked else "Connection: close")
    begin = "\r\n".join([*head, "", ""]).encode()
    parts = [Part(token, b"%x\r\n%s\r\n" % (len(text), text) if chunked else text) for token, text in texts]
    if fault is Fault.WRONG_CHUNK:
        parts[-1] = Part(parts[-1].token, b"zz\r\n" + parts[-1].data)
    parts[0] = replace(parts[0], data=begin + parts[0].data)
    last = parts[-1].token
    unended = fault in (Fault.CUT, Fault.STALLS, Fault.WRONG_CHUNK, Fault.HANGS_AFTER_DONE)
    if fault is Fault.DONE_THEN_LATE:
        parts.append(Part(-1, b"7\r\nlate!\n\n\r\n", pause=True))
    if chunked and not unended:
        trailer = b"X-Checksum: 7\r\n" if fault is Fault.TRAILERS else b""
        parts.append(Part(last, b"0\r\n" + trailer + b"\r\n", pause=fault is Fault.DONE_THEN_LATE))
    if fault is Fault.DONE_THEN_LATE:
        parts.append(Part(-1, b"7\r\nlate!!!\r\n0\r\n\r\n", pause=True))
    if fault is Fault.SPLIT:
        parts = _split(parts, wish.number)
    closes = fault in (Fault.CUT, Fault.NOT_CHUNKED, Fault.CLOSES_IDLE, Fault.WRONG_CHUNK)
    return Script(parts=parts, closes=closes, hangs=fault in (Fault.STALLS, Fault.HANGS_AFTER_DONE))


def _split(parts: Sequence[Part], size: int) -> list[Part]:
    size = max(1, size)
    return [
        Part(part.token, part.data[at : at + size], pause=True)
        for part in parts
        for at in range(0, len(part.data), size)
    ]


def _events(asked: Asked, wish: Wish, words: Sequence[str]) -> Iterable[tuple[int, bytes]]:
    fault = wish.fault
    chat = asked.path == "/v1/chat/completions"
    base = {"id": "double", "object": "chat.completion.chunk" if chat else "text_completion", "model": asked.model}
    last = asked.output_tokens - 1

    def event(token: int, said: dict[str, Any], finish: str | None = None) -> tuple[int, bytes]:
        choice = {"index": 0, "finish_reason": finish} | (
            {"delta": said} if chat else {"text": said.get("content", "")}
        )
        text = json.dumps(base | {"choices": [choice]}, separators=(",", ":"), ensure_ascii=False)
        return token, text.encode()

    if chat and fault is Fault.ROLE_FIRST:
        yield event(-1, {"role": "assistant", "content": ""})
    step = wish.number if fault is Fault.TOKENS_PER_CHUNK else 1
    for at in range(0, len(words), step):
        group = words[at : at + step]
        yield event(at + len(group) - 1, _said("".join(group), at, len(words), fault))
    yield event(last, {}, "tool_calls" if fault is Fault.TOOL_CALLS else "stop")
    if asked.usage and fault is not Fault.NO_USAGE:
        usage = base | {"choices": [], "usage": _usage(asked)}
        yield last, json.dumps(usage, separators=(",", ":")).encode()
    if fault is not Fault.NO_DONE:
        yield last, b"[DONE]"


def _said(text: str, at: int, total: int, fault: Fault) -> dict[str, Any]:
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


def _embeddings(asked: Asked) -> dict[str, Any]:
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.25, -0.5, 0.125]}],
        "model": asked.model,
        "usage": {"prompt_tokens": asked.prompt_tokens, "total_tokens": asked.prompt_tokens},
    }
