"""A text file as a tree that knows the line and column of every key and value, and how messages show values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuyield.errors import DeclarationError, Mistake

Plain = str | bool | None | list["Plain"] | dict[str, "Plain"]
Path = Sequence[str | int]

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SHOWN = 60
_PLACE = re.compile(r":(\d+):(\d+)$")


@dataclass(slots=True)
class Node:
    """A value and where it stands (counted from 1); `size` counts the values in it, itself included."""

    line: int
    column: int
    value: str | bool | list[Node] | dict[str, Entry] | None
    size: int = 1
    depth: int = 1

    def plain(self) -> Plain:
        """The value without its places."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {key: entry.node.plain() for key, entry in self.value.items()}
        return self.value


@dataclass(slots=True)
class Entry:
    """A key of a mapping, where the key stands, and its value."""

    line: int
    column: int
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """One YAML document of a file."""

    file: str
    root: Node

    def where(self, path: Path) -> str:
        """`file:line:col` of the value at this path, or of the nearest value above it that exists."""
        node = self.root
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node = found
        return f"{self.file}:{node.line}:{node.column}"

    def where_key(self, path: Path) -> str:
        """`file:line:col` of the key that a path ends with."""
        node = self.root
        for step in path[:-1]:
            node = _child(node, step) or node
        if isinstance(node.value, dict) and isinstance(path[-1], str) and path[-1] in node.value:
            entry = node.value[path[-1]]
            return f"{self.file}:{entry.line}:{entry.column}"
        return self.where(path)

    def scalars(self) -> Iterator[tuple[Node, str]]:
        """Every text in it, keys left out; what an alias names comes once."""
        seen: set[int] = set()
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node.value, str):
                yield node, node.value
            elif isinstance(node.value, list):
                waiting.extend(node.value)
            elif isinstance(node.value, dict):
                waiting.extend(entry.node for entry in node.value.values())


def decode(data: bytes, *, file: str, max_bytes: int) -> str:
    """The text of a UTF-8 file, without a byte order mark.

    Raises:
        DeclarationError: Too large, not UTF-8, or with control characters in it.
    """
    if len(data) > max_bytes:
        raise DeclarationError(
            f"the file has {len(data):,} bytes; at most {max_bytes:,} are read.",
            where=file,
            fix="Leave out what is not needed.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        line = data.count(b"\n", 0, err.start) + 1
        column = err.start - data.rfind(b"\n", 0, err.start)
        raise DeclarationError(
            "the file is not UTF-8 text.", where=f"{file}:{line}:{column}", fix="Save it as UTF-8."
        ) from err
    odd = _UNPRINTABLE.search(text)
    if odd:
        line = text.count("\n", 0, odd.start()) + 1
        column = odd.start() - text.rfind("\n", 0, odd.start())
        raise DeclarationError(
            f"control character U+{ord(odd[0]):04X}.", where=f"{file}:{line}:{column}", fix="Remove it."
        )
    return text


def shown(value: object) -> str:
    """A value as a message shows it: one line, never long."""
    text = value if isinstance(value, str) else str(value)
    flat = "".join(letter if letter.isprintable() else " " for letter in text)
    return flat if len(flat) <= _SHOWN else f"{flat[: _SHOWN - 3]}..."


def in_order(mistakes: Iterable[Mistake]) -> list[Mistake]:
    """The same mistakes of one file by line and column, without repetitions."""

    def place(one: Mistake) -> tuple[int, int]:
        found = _PLACE.search(one.where)
        return (int(found[1]), int(found[2])) if found else (0, 0)

    return sorted(dict.fromkeys(mistakes), key=place)


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node.value, dict) and isinstance(step, str) and step in node.value:
        return node.value[step].node
    if isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    return None


def plain_mapping(value: Plain) -> Mapping[str, Plain]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def plain_list(value: Plain) -> Sequence[Plain]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []
