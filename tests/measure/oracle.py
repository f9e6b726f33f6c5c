"""Whether a streamed answer is whole, found out slowly: the standard library's HTTP, lines one by one, json.

It says what may be counted at most: an answer that it calls broken must never count as a success.
"""

from __future__ import annotations

import http.client
import io
import json
import re
import socket
from typing import Any, cast


class _Socket:
    """Bytes as a socket, for http.client."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def makefile(self, mode: str) -> io.BytesIO:
        """The bytes as a file."""
        return io.BytesIO(self._raw)


def may_count(raw: bytes, protocol: str = "chat") -> bool:
    """Whether the bytes of a connection, closed after them, hold a whole streamed answer with content."""
    # All that is asked of its socket is a file; the types ask for a real one.
    answer = http.client.HTTPResponse(cast("socket.socket", _Socket(raw)))
    whole = True
    try:
        answer.begin()
        if not 200 <= answer.status < 300:
            return False
        content = answer.read()
    except http.client.IncompleteRead as err:
        whole, content = False, err.partial
    except (http.client.HTTPException, ValueError, OSError):
        return False
    return _is_whole_response(content) if protocol == "responses" else _is_whole_chat(content, ended=whole)


def _is_whole_response(content: bytes) -> bool:
    found = False
    for event in _events(content):
        try:
            fields = json.loads(event.decode("utf-8"))
        except ValueError:
            return False
        kind = fields.get("type") if isinstance(fields, dict) else None
        if not isinstance(kind, str) or kind in ("error", "response.failed"):
            return False
        found = found or (kind.endswith(".delta") and bool(fields.get("delta")))
        if kind in ("response.completed", "response.incomplete"):
            return found
    return False


def _is_whole_chat(content: bytes, *, ended: bool) -> bool:
    found = finished = done = False
    for event in _events(content):
        if event == b"[DONE]":
            done = True
            break
        try:
            fields = json.loads(event.decode("utf-8"))
        except ValueError:
            return False
        if not isinstance(fields, dict) or fields.get("error"):
            return False
        for choice in fields.get("choices") or []:
            if not isinstance(choice, dict):
                return False
            finished = finished or isinstance(choice.get("finish_reason"), str)
            found = found or _has_content(choice.get("delta"))
    return found and finished and (done or ended)


def _events(content: bytes) -> list[bytes]:
    events: list[bytes] = []
    data: list[bytes] = []
    # Only what a line end closes is a line, and only what an empty line closes is an event.
    lines = re.split(rb"\r\n|\n|\r", content)
    for line in lines[:-1]:
        if line.startswith(b"data:"):
            value = line[5:]
            data.append(value[1:] if value.startswith(b" ") else value)
        elif not line and data:
            events.append(b"\n".join(data))
            data = []
    if lines[-1] == b"data: [DONE]" or (data == [b"[DONE]"] and not lines[-1]):
        events.append(b"[DONE]")
    return events


def _has_content(delta: Any) -> bool:
    said = delta if isinstance(delta, dict) else {}
    keys = ("content", "reasoning", "reasoning_content", "refusal", "tool_calls", "function_call", "audio")
    return any(said.get(key) for key in keys)
