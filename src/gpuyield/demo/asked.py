"""What a request to the double asks for: an answer, and a way in which it goes wrong.

Faults are asked for in the text of a request, as `[[fault:NAME]]`, or come with a share of all answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

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
