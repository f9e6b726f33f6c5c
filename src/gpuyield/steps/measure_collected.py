"""Mistakes of several options, collected so that all of them are said at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpuyield.errors import DeclarationError, Mistake

_Value = TypeVar("_Value")


class Collected:
    """Runs readers one by one and keeps all their mistakes."""

    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []

    def value(self, read: Callable[[], _Value]) -> _Value | None:
        """What it reads; None where that was a mistake."""
        try:
            return read()
        except DeclarationError as err:
            self.mistakes.extend(err.mistakes)
            return None

    def wrong(self, what: str, where: str, fix: str) -> None:
        """Keep a mistake."""
        self.mistakes.append(Mistake(what=what, where=where, fix=fix))
