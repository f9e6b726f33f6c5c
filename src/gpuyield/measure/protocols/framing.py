"""HTTP/1.1 responses as they lay on the wire: the head, the body, and when each part of the body was read.

Nothing is decoded while a response arrives: its reads are kept with their times, and looked at afterwards.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import accumulate

LARGEST_HEAD = 64 * 1024
LARGEST_RESPONSE = 256 * 2**20
_STATUS_LINE = re.compile(rb"HTTP/1\.[01] [1-5][0-9][0-9](?: |$)")
_HEX_SIZE = re.compile(rb"[0-9a-fA-F]{1,15}[ \t]*(;[^\r\n]*)?", re.DOTALL)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([^\r\n]*?)[ \t]*\r\n", re.IGNORECASE)
_SIZES = {b"%x" % size: size for size in range(1, 4096)}


class Ended(Enum):
    """Why reading stopped."""

    MESSAGE = "message"
    """The framing said that it is whole."""
    CLOSED = "closed"
    """The server closed the connection."""
    LATE = "late"
    """One of the time limits passed."""
    STOPPED = "stopped"
    """The probe gave up waiting."""
    TOO_LARGE = "too large"
    """More than `LARGEST_RESPONSE` bytes came."""


@dataclass(slots=True)
class Response:
    """The reads of one response: `times_ns[i]` is when `parts[i]` was there."""

    times_ns: Sequence[int]
    parts: Sequence[bytes]
    ended: Ended


class BrokenFraming(Exception):
    """What was read is no HTTP/1.1 response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The status line and the headers that matter. `size` is where the body begins; `length` None: not announced."""

    status: int
    size: int
    chunked: bool
    length: int | None
    keeps_alive: bool
    content_type: str
    content_encoding: str


def read_head(raw: bytes) -> Head | None:
    """The head of the final response, interim ones (100, 103) skipped; None while it is not whole.

    Raises:
        BrokenFraming: This is no HTTP/1.x head.
    """
    begin = 0
    while True:
        end = raw.find(b"\r\n\r\n", begin)
        if end < 0:
            if raw[begin : begin + 5] != b"HTTP/"[: len(raw) - begin]:
                raise BrokenFraming("the answer is not HTTP/1.1")
            if len(raw) - begin > LARGEST_HEAD:
                raise BrokenFraming("the head of the answer does not end")
            return None
        head = _head(raw[begin : end + 2], end + 4)
        if head.status >= 200 or head.status == 101:
            return head
        begin = end + 4


@lru_cache(maxsize=1024)
def _head(text: bytes, size: int) -> Head:
    line = text[: text.find(b"\r\n")]
    if not _STATUS_LINE.match(line):
        raise BrokenFraming("the answer is not HTTP/1.1")
    if text.count(b"\n") != text.count(b"\r\n"):
        raise BrokenFraming("a line of the head does not end as it must")
    lowered = text.lower()
    length: int | None = None
    lengths = set(_LENGTH.findall(text))
    if lengths:
        only = lengths.pop()
        if lengths or not only.isdigit() or len(only) > 15:
            raise BrokenFraming("the length of the answer is no number")
        length = int(only)
    chunked = b"\r\ntransfer-encoding:" in lowered and b"chunked" in lowered
    status = int(line[9:12])
    if status in (204, 304):
        chunked, length = False, 0
    keeps = b"\r\nconnection: close" not in lowered and (line.startswith(b"HTTP/1.1") or b"keep-alive" in lowered)
    return Head(
        status=status,
        size=size,
        chunked=chunked,
        length=None if chunked else length,
        keeps_alive=keeps and (chunked or length is not None),
        content_type=_header(text, b"content-type"),
        content_encoding=_header(text, b"content-encoding"),
    )


def _header(text: bytes, name: bytes) -> str:
    """The value of a header in lower case, empty when absent."""
    for line in text.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip().lower().decode("latin-1")
    return ""


class ChunkScan:
    """Follows chunked framing through a buffer that grows, without reading anything twice."""

    __slots__ = ("at", "ended", "pieces", "trailing")

    def __init__(self, at: int) -> None:
        self.at = at
        """Where the next chunk's size line begins."""
        self.ended = False
        self.trailing = False
        self.pieces: list[tuple[int, int]] = []
        """Begin and end of each chunk's data in the buffer."""

    def feed(self, raw: bytes | bytearray) -> bool:
        """Whether the body is whole in the buffer.

        Raises:
            BrokenFraming: A size line that is none.
        """
        find, held, at = raw.find, len(raw), self.at
        while not self.ended:
            line_end = find(b"\r\n", at)
            if line_end < 0:
                if held - at > LARGEST_HEAD:
                    raise BrokenFraming("a chunk's size line does not end")
                break
            if self.trailing:
                self.ended = line_end == at
                at = line_end + 2
                continue
            line = bytes(raw[at:line_end])
            size = _SIZES.get(line) or _chunk_size(line)
            begin = line_end + 2
            if size == 0:
                self.trailing, at = True, begin
                continue
            end = begin + size
            if end + 2 > held:
                break
            if raw[end : end + 2] != b"\r\n":
                raise BrokenFraming("a chunk is longer than it says")
            self.pieces.append((begin, end))
            at = end + 2
        self.at = at
        return self.ended


def _chunk_size(line: bytes) -> int:
    if not _HEX_SIZE.fullmatch(line):
        raise BrokenFraming("a chunk without its size")
    return int(line.partition(b";")[0], 16)


@dataclass(slots=True)
class Body:
    """The content of a response. `whole`: nothing is missing. `ended`: why reading stopped. `surplus`: bytes behind."""

    head: Head
    content: bytes
    whole: bool
    ended: Ended
    surplus: int
    _times_ns: Sequence[int]
    _read_ends: list[int]
    _pieces: list[tuple[int, int]]

    def reads_at(self, offsets: Sequence[int]) -> list[int]:
        """Which read brought the content's byte at each of the rising `offsets`."""
        pieces, read_ends = self._pieces, self._read_ends
        shift, piece, piece_end = self.head.size, -1, len(self.content) if not pieces else 0
        read, found = 0, []
        for offset in offsets:
            while offset >= piece_end:
                piece += 1
                begin, end = pieces[piece]
                shift = begin - piece_end
                piece_end += end - begin
            raw = offset + shift
            while read_ends[read] <= raw:
                read += 1
            found.append(read)
        return found

    def times_of(self, reads: Sequence[int]) -> list[int]:
        """When these reads were there."""
        return [self._times_ns[read] for read in reads]

    def time_at(self, offset: int) -> int:
        """When the content's byte at `offset` was there."""
        return self._times_ns[self.reads_at((offset,))[0]]

    @property
    def end_ns(self) -> int:
        """When the last byte of the message was there."""
        raw = self._read_ends[-1] - self.surplus - 1
        return self._times_ns[bisect_right(self._read_ends, raw)]


def read_body(response: Response) -> Body | None:
    """The body as far as it came, in whole chunks where it is chunked; None when not even the head is whole.

    Raises:
        BrokenFraming: What came breaks HTTP/1.1.
    """
    raw = response.parts[0] if len(response.parts) == 1 else b"".join(response.parts)
    head = read_head(raw) if raw else None
    if head is None:
        return None
    read_ends = list(accumulate(map(len, response.parts)))
    pieces: list[tuple[int, int]] = []
    if head.chunked:
        scan = ChunkScan(head.size)
        whole = scan.feed(raw)
        pieces = scan.pieces
        content = b"".join([raw[begin:end] for begin, end in pieces])
        surplus = len(raw) - scan.at if whole else 0
    elif head.length is not None:
        end = head.size + head.length
        content, whole, surplus = raw[head.size : end], len(raw) >= end, max(0, len(raw) - end)
    else:
        content, whole, surplus = raw[head.size :], response.ended is Ended.CLOSED, 0
    return Body(head, content, whole, response.ended, surplus, response.times_ns, read_ends, pieces)
