"""The error tree: what went wrong, where, and how to fix it.

GpuyieldError
+-- DeclarationError   2   what a person wrote is wrong (files, options)
+-- SourceError        3   a source is out of reach, refuses, or answers nonsense
+-- EvidenceError      4   too little evidence to answer
+-- PlanError          2   a planning problem that cannot be built
+-- InternalError      1   our bug

An error carries every mistake that was found, never only the first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong: `what` ends as a sentence, `where` is a place a person can open."""

    what: str
    where: str = ""
    fix: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}" + (f" {self.fix}" if self.fix else "")


class GpuyieldError(Exception):
    """Base of all errors a user may see; `mistakes` is never empty."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str = "", fix: str = "") -> None:
        self.mistakes: tuple[Mistake, ...] = (Mistake(what=what, where=where, fix=fix),)
        super().__init__(str(self.mistakes[0]))

    @classmethod
    def of(cls, mistakes: Iterable[Mistake]) -> Self:
        """One error for several mistakes, in the order given."""
        listed = tuple(mistakes)
        if not listed:
            raise ValueError("an error needs at least one mistake")
        error = cls(listed[0].what, where=listed[0].where, fix=listed[0].fix)
        error.mistakes = listed
        error.args = ("\n".join(str(one) for one in listed),)
        return error


class DeclarationError(GpuyieldError):
    """What a person wrote is wrong: a file, an option, an annotation."""

    exit_code = 2


class PlanError(GpuyieldError):
    """A planning problem that cannot be built from what was given."""

    exit_code = 2


class SourceError(GpuyieldError):
    """A source is out of reach, refuses, or answers what it cannot mean."""

    exit_code = 3


class EvidenceError(GpuyieldError):
    """There is too little evidence to answer."""

    exit_code = 4


class InternalError(GpuyieldError):
    """A law of ours does not hold: our bug."""

    exit_code = 1
