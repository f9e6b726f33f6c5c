"""Read a YAML text as a tree with places.

Scalars stay text: `06:00` is no number, `NO` is no boolean and `2026-12-01` is no date object here. Only a plain
`null`, `true` or `false` is more than text. Anchors and merge keys are fine; tags that make objects, duplicate keys,
aliases that contain themselves and trees that grow beyond all bounds are mistakes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

from gpuyield.declare.tree import Entry, Node, Tree, decode, shown
from gpuyield.errors import DeclarationError, Mistake

_MAX_DEPTH = 50
_MAX_NODES = 200_000
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_TAG_PREFIX = "tag:yaml.org,2002:"
_SAFE_TAGS = frozenset({"!", *(_TAG_PREFIX + name for name in ("str", "int", "float", "bool", "null", "seq", "map"))})
_TEXT_TAGS = frozenset({"!", _TAG_PREFIX + "str"})


def read_tree(
    data: bytes,
    *,
    file: str,
    max_bytes: int = 4 << 20,
    max_nodes: int = _MAX_NODES,
    when_empty: str = "gpuyield init drafts one.",
) -> Tree:
    """The one YAML document of these bytes; `when_empty` is the advice where there is none.

    Raises:
        DeclarationError: Not UTF-8, no YAML, several documents, or any of the mistakes named above.
    """
    text = decode(data, file=file, max_bytes=max_bytes)
    reading = _Reading(file=file, max_nodes=max_nodes)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            reading.take(event)
    except yaml.MarkedYAMLError as err:
        reading.stop(err)
    if reading.root is None:
        raise DeclarationError("the file is empty.", where=f"{file}:1:1", fix=when_empty)
    if reading.mistakes:
        raise DeclarationError.of(reading.mistakes)
    return Tree(file=file, root=reading.root)


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read yet; `key` waits for its value."""

    node: Node
    anchor: str | None
    key: tuple[int, int, str] | None = None
    skip: bool = False
    merges: list[Node] = field(default_factory=list)


class _Reading:
    """Builds the tree from parser events; keeps every mistake."""

    def __init__(self, *, file: str, max_nodes: int) -> None:
        self.file = file
        self.max_nodes = max_nodes
        self.root: Node | None = None
        self.mistakes: list[Mistake] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, Node] = {}
        self._documents = 0

    def take(self, event: yaml.Event) -> None:
        """One event of the parser."""
        match event:
            case yaml.DocumentStartEvent():
                self._start_document(event)
            case yaml.ScalarEvent():
                self._check_tag(event)
                self._put(self._scalar(event), event.anchor)
            case yaml.AliasEvent():
                self._alias(event)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._start(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._end()

    def stop(self, err: yaml.MarkedYAMLError) -> None:
        """The text is no YAML: say so beside what was found before."""
        mark = err.problem_mark or err.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = (err.problem or "it cannot be read").strip()
        if "nesting" in problem:
            self._fail(line, column, f"nested deeper than {_MAX_DEPTH} levels.", "Write it flat.")
        tabs = "start any token" in problem
        self._say(
            line,
            column,
            f"not YAML: {shown(problem)}.",
            "YAML indents with spaces, never tabs; quote a text that starts with @, ` or %."
            if tabs
            else "Check indentation, quotes and brackets near here.",
        )
        raise DeclarationError.of(self.mistakes) from err

    def _say(self, line: int, column: int, what: str, fix: str) -> None:
        self.mistakes.append(Mistake(what=what, where=f"{self.file}:{line}:{column}", fix=fix))

    def _fail(self, line: int, column: int, what: str, fix: str) -> None:
        """A mistake after which reading on makes no sense."""
        self._say(line, column, what, fix)
        raise DeclarationError.of(self.mistakes)

    def _start_document(self, event: yaml.Event) -> None:
        self._documents += 1
        if self._documents > 1:
            self._fail(*_spot(event), "a second YAML document starts here.", "Keep one document per file.")

    def _check_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        if event.tag is not None and event.tag not in _SAFE_TAGS:
            name = event.tag.replace(_TAG_PREFIX, "!!")
            self._say(*_spot(event), f"tag {shown(name)} is not allowed.", "Remove it; values are read as text.")

    def _scalar(self, event: yaml.ScalarEvent) -> Node:
        line, column = _spot(event)
        value: str | bool | None = event.value
        if not event.style and event.tag not in _TEXT_TAGS:
            value = None if event.value in _NULLS else _BOOLEANS.get(event.value, event.value)
        return Node(line, column, value)

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        self._check_tag(event)
        line, column = _spot(event)
        if len(self._open) >= _MAX_DEPTH:
            self._fail(line, column, f"nested deeper than {_MAX_DEPTH} levels.", "Write it flat.")
        empty: list[Node] | dict[str, Entry] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._open.append(_Open(Node(line, column, empty), event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        if isinstance(done.node.value, dict):
            for merged in done.merges:
                self._merge(done.node, merged)
        self._put(done.node, done.anchor)

    def _alias(self, event: yaml.AliasEvent) -> None:
        line, column = _spot(event)
        target = self._anchors.get(event.anchor or "")
        if target is None:
            inside = any(one.anchor == event.anchor for one in self._open)
            self._fail(
                line,
                column,
                f"alias *{shown(event.anchor)} " + ("contains itself." if inside else "names no anchor."),
                "Write the value here.",
            )
        else:
            self._put(Node(line, column, target.value, target.size, target.depth), None)

    def _put(self, node: Node, anchor: str | None) -> None:
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if isinstance(parent.node.value, list):
            parent.node.value.append(node)
        elif isinstance(parent.node.value, dict):
            self._put_in_mapping(parent, parent.node.value, node)
        parent.node.size += node.size
        parent.node.depth = max(parent.node.depth, node.depth + 1)
        if parent.node.depth > _MAX_DEPTH:
            self._fail(node.line, node.column, f"nested deeper than {_MAX_DEPTH} levels.", "Write it flat.")
        if parent.node.size > self.max_nodes:
            self._fail(
                node.line, node.column, f"more than {self.max_nodes:,} values.", "Use fewer aliases, or split it."
            )

    def _put_in_mapping(self, parent: _Open, entries: dict[str, Entry], node: Node) -> None:
        if parent.key is None and not parent.skip:
            self._take_key(parent, entries, node)
            return
        if parent.key is not None:
            line, column, key = parent.key
            if key == "<<":
                parent.merges.append(node)
            else:
                entries[key] = Entry(line, column, node)
        parent.key, parent.skip = None, False

    def _take_key(self, parent: _Open, entries: dict[str, Entry], node: Node) -> None:
        if isinstance(node.value, list | dict) or node.value is None:
            self._say(node.line, node.column, "a key must be text.", "Write key: value.")
            parent.skip = True
            return
        key = node.value if isinstance(node.value, str) else str(node.value).lower()
        if key in entries:
            first = entries[key]
            self._say(
                node.line,
                node.column,
                f'key "{shown(key)}" is there twice (first in line {first.line}).',
                "Keep one of them.",
            )
            parent.skip = True
            return
        parent.key = (node.line, node.column, key)

    def _merge(self, into: Node, merged: Node) -> None:
        sources = merged.value if isinstance(merged.value, list) else [merged]
        for source in sources:
            if not isinstance(source.value, dict) or not isinstance(into.value, dict):
                self._say(merged.line, merged.column, "<< must name a mapping.", "Write <<: *anchor.")
                return
            for key, entry in source.value.items():
                into.value.setdefault(key, entry)


def _spot(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (1, 1)
