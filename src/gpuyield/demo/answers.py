"""The bytes that the model-server double writes: answers over HTTP, and every way in which they go wrong.

An answer is a list of parts, each with the number of the token it waits for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any  # JSON values

from gpuyield.demo.asked import Asked, Fault, Wish
from gpuyield.demo.spoken import EMBEDDINGS, Said, embeddings, endpoint_of


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


def write_answer(asked: Asked, wish: Wish, *, good: bool) -> Script:
    """What is written for a request; `good` answers begin with what the request calls right."""
    match wish.fault:
        case Fault.TOO_MANY | Fault.UNAVAILABLE | Fault.FAILS:
            status = {Fault.TOO_MANY: 429, Fault.UNAVAILABLE: 503, Fault.FAILS: 500}[wish.fault]
            return Script(parts=[Part(-1, error(status, "as asked", retry=status != 500))])
        case Fault.SILENT:
            return Script(parts=[], hangs=True)
    if asked.path == EMBEDDINGS:
        return Script(parts=[Part(0, whole(embeddings(asked)))])
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
    last = asked.output_tokens - 1
    body = whole(endpoint_of(asked.path).whole(asked, wish, words))
    half = body[: -(len("".join(words)) // 2) - 20]
    match wish.fault:
        case Fault.ERROR_EVENT:
            return Script(parts=[Part(last, whole({"error": {"message": "as asked"}}))])
        case Fault.CUT:
            return Script(parts=[Part(last, half)], closes=True)
        case Fault.STALLS:
            return Script(parts=[Part(last, half)], hangs=True)
        case Fault.BROKEN_JSON:
            return Script(parts=[Part(last, body[:-1] + b"!")])
        case Fault.SPLIT:
            return Script(parts=_split([Part(last, body)], wish.number))
    return Script(parts=[Part(last, body)], closes=wish.fault is Fault.CLOSES_IDLE)


def _stream(asked: Asked, wish: Wish, words: list[str]) -> Script:
    fault = wish.fault
    endpoint = endpoint_of(asked.path)
    events = list(endpoint.events(asked, wish, words))
    half = fault in (Fault.NO_FINISH, Fault.CUT, Fault.STALLS, Fault.ERROR_EVENT, Fault.BROKEN_JSON, Fault.NOT_UTF8)
    if half or fault is Fault.WRONG_CHUNK:
        kept = [said for said in events if said.token < max(1, len(words) // 2)]
        kept += [Said(kept[-1].token, endpoint.bad[fault])] if fault in endpoint.bad else []
        ends_well = fault in (Fault.BROKEN_JSON, Fault.NOT_UTF8)
        events = kept + ([said for said in events if said.token == len(words) - 1][-3:] if ends_well else [])
    line = b"\r\n" if fault is Fault.CRLF else b"\n"
    texts = [(said.token, _event(said, line)) for said in events]
    if fault is Fault.COMMENTS:
        texts = [(token, b": ping\n\nretry: 3000\nid: 7\n" + text) for token, text in texts]
    if fault is Fault.CHUNKS_PER_READ:
        count = max(1, wish.number)
        groups = [texts[at : at + count] for at in range(0, len(texts), count)]
        texts = [(group[-1][0], b"".join(text for _, text in group)) for group in groups]
    return _framed(texts, wish)


def _event(said: Said, line: bytes) -> bytes:
    name = b"event: %s%s" % (said.name.encode(), line) if said.name else b""
    return name + b"data: " + said.data + line * 2


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
