"""Server-Sent Events, split as the HTML standard says: lines end in LF, CRLF or CR and in nothing else.

Source: WHATWG HTML, section 9.2.6, interpreting an event stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Events:
    """The events of a stream that have data, in order.

    `ends[i]` is the offset of the byte that completed event i. `names` holds the events that have a name.
    `torn`: bytes of an event that never ended.
    """

    data: list[bytes]
    ends: list[int]
    names: dict[int, bytes]
    torn: bytes


def split_events(content: bytes) -> Events:
    """The events of a stream as far as it came."""
    if b"\r" in content or content.startswith(_BYTE_ORDER_MARK):
        return _by_lines(content)
    found = Events(data=[], ends=[], names={}, torn=b"")
    blocks = content.split(b"\n\n")
    found.torn = blocks.pop()
    data, ends = found.data, found.ends
    at = 0
    for block in blocks:
        at += len(block) + 2
        if block.startswith(b"data: ") and b"\n" not in block:
            data.append(block[6:])
            ends.append(at - 1)
        else:
            _add(found, block.split(b"\n"), at - 1)
    return found


def _by_lines(content: bytes) -> Events:
    found = Events(data=[], ends=[], names={}, torn=b"")
    at = 3 if content.startswith(_BYTE_ORDER_MARK) else 0
    begin = at
    lines: list[bytes] = []
    for end in _LINE_END.finditer(content, at):
        line = content[at : end.start()]
        at = end.end()
        if line:
            lines.append(line)
            continue
        _add(found, lines, at - 1)
        lines, begin = [], at
    found.torn = content[begin:]
    return found


def _add(found: Events, lines: list[bytes], end: int) -> None:
    data: list[bytes] = []
    name = b""
    for line in lines:
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    if not data:
        return
    if name:
        found.names[len(found.data)] = name
    found.data.append(b"\n".join(data))
    found.ends.append(end)
