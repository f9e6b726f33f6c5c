"""Read the fields of one row, collecting every mistake with its place instead of stopping at the first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from gpuyield.declare.row import Row
from gpuyield.declare.tree import Path, Plain, shown
from gpuyield.declare.values import did_you_mean
from gpuyield.errors import DeclarationError, Mistake

T = TypeVar("T")

Parse = Callable[[str, str], T]
"""Reads a text; its second argument is the label for messages."""


class RowReader:
    """The fields of a row; what is wrong goes into `mistakes`, and the value is None then."""

    def __init__(self, row: Row, mistakes: list[Mistake]) -> None:
        self._row = row
        self._mistakes = mistakes

    def has(self, key: str) -> bool:
        """Whether the field is given and not empty."""
        return self._row.fields.get(key) is not None

    def say(self, path: Path, what: str, fix: str) -> None:
        """Remember a mistake at this place of the row."""
        self._mistakes.append(Mistake(what=what, where=self._row.where(path), fix=fix))

    def text(self, key: str, parse: Parse[T], *, wanted: str) -> T | None:
        """The value of a field that is one text."""
        value = self._row.fields.get(key)
        return None if value is None else self.parsed((key,), value, parse, wanted=wanted)

    def parsed(self, path: Path, value: Plain, parse: Parse[T], *, wanted: str) -> T | None:
        """The value at a path, read by `parse`; `wanted` says what should stand there."""
        label = str(path[-1]) if isinstance(path[-1], str) else str(path[-2])
        if not isinstance(value, str):
            self.say(path, f"{label} is {kind_of(value)}.", f"Write {wanted}.")
            return None
        try:
            return parse(value, label)
        except DeclarationError as err:
            self.say(path, err.mistakes[0].what, err.mistakes[0].fix)
            return None

    def mapping(self, key: str, parse: Parse[T], *, wanted: str) -> dict[str, T] | None:
        """The entries of a field that is a mapping; those that are wrong are left out."""
        value = self._row.fields.get(key)
        if value is None:
            return None
        if not isinstance(value, dict) or not value:
            self.say((key,), f"{key} is {kind_of(value)}.", f"Write {wanted}.")
            return None
        found: dict[str, T] = {}
        for name, inner in value.items():
            one = self.parsed((key, name), inner, parse, wanted=wanted)
            if one is not None:
                found[name] = one
        return found

    def listed(self, key: str, *, wanted: str) -> list[Plain]:
        """The entries of a field that is a list; empty when it is absent."""
        value = self._row.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.say((key,), f"{key} is {kind_of(value)}.", f"Write {wanted}.")
            return []
        return value

    def raw(self, key: str) -> Plain:
        """The field as it was read."""
        return self._row.fields.get(key)

    def unknown_keys(self, known: Collection[str]) -> list[str]:
        """Keys that are neither known nor a note of the user (`x_...`)."""
        return [key for key in self._row.fields if key not in known and not key.startswith("x_")]


def kind_of(value: Plain) -> str:
    """What a value is, for a message."""
    match value:
        case None:
            return "empty"
        case bool():
            return "true" if value else "false"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case _:
            return f'"{shown(value)}"'


def say_unknown_keys(readers: Mapping[str, tuple[RowReader, int]], known: Collection[str]) -> None:
    """One mistake per unknown key, at its first row; `readers` has that row's reader and how many rows have it."""
    for key, (reader, count) in readers.items():
        times = f" (in {count:,} rows)" if count > 1 else ""
        reader.say(
            (key,), f'unknown key "{shown(key)}"{times}.', f"{did_you_mean(key, known)} A note may be x_{shown(key)}."
        )
