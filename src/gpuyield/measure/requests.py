"""The requests of a load test, from JSON lines: what is asked, and what a good answer would be.

A line holds one of `messages`, `prompt`, `input` or `body`, and may hold `id`, `max_tokens` and `expected`. A file is
taken whole or not at all: every mistake is named, and nothing of a prompt is ever quoted.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any  # JSON values

import msgspec

from gpuyield.errors import DeclarationError, Mistake

LONGEST_LINE = 64 * 2**20
SHOWN_MISTAKES = 1_000
_CONTENTS = ("messages", "prompt", "input", "body")
_FIELDS = ("id", *_CONTENTS, "max_tokens", "expected")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RequestLine:
    """One request: `content` is the value of its field `kind`. `expected` is what its checks compare with."""

    id: str
    kind: str
    content: Any
    max_tokens: int | None = None
    expected: Any = None

    def __repr__(self) -> str:
        return f"RequestLine(id={self.id!r}, kind={self.kind!r})"


def read_requests(lines: Iterable[bytes | str], *, file: str) -> tuple[RequestLine, ...]:
    """The requests of JSON lines, in order; empty lines are skipped, a line without an id gets its number.

    Raises:
        DeclarationError: All mistakes, as file:line; or there is no request at all.
    """
    found: list[RequestLine] = []
    mistakes: list[Mistake] = []
    places: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{file}:{number}"
        raw = line.encode() if isinstance(line, str) else line
        if number == 1:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if not raw.strip():
            continue
        try:
            request = _request(raw, number=number, where=where)
            first = places.setdefault(request.id, number)
            if first != number:
                raise DeclarationError(
                    f"the id of line {first} is there again.", where=where, fix="Write each id once, or leave it out."
                )
            found.append(request)
        except DeclarationError as err:
            mistakes.extend(err.mistakes)
    if not found and not mistakes:
        mistakes.append(Mistake(what="no request in it.", where=file, fix='Write {"prompt": "..."} in each line.'))
    if mistakes:
        raise DeclarationError.of(mistakes[:SHOWN_MISTAKES])
    return tuple(found)


def _request(raw: bytes, *, number: int, where: str) -> RequestLine:
    row = _object(raw, where)
    mistakes = [
        Mistake(what=f'"{_shown(key)}" is no field of a request.', where=where, fix=_instead(key))
        for key in row
        if key not in _FIELDS
    ]
    kinds = [kind for kind in _CONTENTS if row.get(kind) is not None]
    if len(kinds) != 1:
        what = "it asks nothing." if not kinds else f"{' and '.join(kinds)} are there together."
        mistakes.append(Mistake(what=what, where=where, fix="Write one of messages, prompt, input or body."))
    elif problem := _PROBLEMS[kinds[0]](row[kinds[0]]):
        mistakes.append(Mistake(what=problem[0], where=where, fix=problem[1]))
    max_tokens = row.get("max_tokens")
    if max_tokens is not None and (type(max_tokens) is not int or not 1 <= max_tokens <= 10**9):
        mistakes.append(
            Mistake(what="max_tokens is no whole number from 1 on.", where=where, fix='Write "max_tokens": 256.')
        )
    if kinds == ["body"] and max_tokens is not None:
        mistakes.append(
            Mistake(what="max_tokens stands beside a body.", where=where, fix="Write it into the body itself.")
        )
    name = row.get("id", number)
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        mistakes.append(Mistake(what="id is no text.", where=where, fix='Write "id": "q1", or leave it out.'))
    if mistakes:
        raise DeclarationError.of(mistakes)
    return RequestLine(
        id=str(name),
        kind=kinds[0],
        content=row[kinds[0]],
        max_tokens=max_tokens,
        expected=row.get("expected"),
    )


def _object(raw: bytes, where: str) -> Mapping[str, Any]:
    if len(raw) > LONGEST_LINE:
        raise DeclarationError(
            f"a line of more than {LONGEST_LINE // 2**20} MiB.", where=where, fix="Shorten the prompt."
        )
    try:
        row = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise DeclarationError(
            f"not JSON: {str(err)[:100]}.", where=where, fix="Write one object a line, in one line, in UTF-8."
        ) from err
    if not isinstance(row, dict):
        raise DeclarationError("not an object.", where=where, fix='Write {"prompt": "..."} in each line.')
    return row


def _text_problem(content: object) -> tuple[str, str] | None:
    if isinstance(content, str) and content:
        return None
    return ("prompt is no text, or an empty one.", 'Write "prompt": "...".')


def _messages_problem(content: object) -> tuple[str, str] | None:
    listed = content if isinstance(content, list) else []
    if listed and all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in listed):
        return None
    return ("messages is no list of messages.", 'Write "messages": [{"role": "user", "content": "..."}].')


def _input_problem(content: object) -> tuple[str, str] | None:
    if isinstance(content, str | list) and content:
        return None
    return ("input is neither text nor a list.", 'Write "input": "...".')


def _body_problem(content: object) -> tuple[str, str] | None:
    if isinstance(content, dict) and _is_finite(content):
        return None
    return ("body is no JSON object.", 'Write "body": {...}, as it is to be sent.')


def _is_finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(_is_finite(one) for one in value.values())
    if isinstance(value, list):
        return all(_is_finite(one) for one in value)
    return not isinstance(value, float) or math.isfinite(value)


_PROBLEMS = {
    "messages": _messages_problem,
    "prompt": _text_problem,
    "input": _input_problem,
    "body": _body_problem,
}


def _instead(key: str) -> str:
    near = difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.7)
    if near:
        return f'Did you mean "{near[0]}"?'
    return f"A line has {', '.join(_FIELDS)}; what else is to be sent goes into a body."


def _shown(key: str) -> str:
    line = "".join(one if one.isprintable() else "?" for one in key)
    return line if len(line) <= 40 else line[:37] + "..."
