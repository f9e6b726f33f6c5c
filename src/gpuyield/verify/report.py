"""What a check found: claims vouched for, claims refused with the reason, claims not re-checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

MOST_LISTED = 1_000


class Refused(Exception):
    """A claim that does not hold; its text is the reason, as a sentence."""


class NotRechecked(Exception):
    """A claim that cannot be judged from the inputs; its text is the reason, as a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A claim (a path in the document, such as `gpus.gpu.needed`) and what is to be said of it."""

    claim: str
    reason: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.reason}" if self.reason else self.claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of a check; a document is accepted when no claim of it is refused."""

    schema: str
    vouched: tuple[str, ...] = ()
    refused: tuple[Finding, ...] = ()
    not_rechecked: tuple[Finding, ...] = ()

    @property
    def accepted(self) -> bool:
        """Nothing is refused, and something is vouched for."""
        return bool(self.vouched) and not self.refused

    def lines(self) -> Iterator[str]:
        """The report as text, one finding a line; refusals first."""
        for finding in self.refused:
            yield f"refused      {finding}"
        for claim in self.vouched:
            yield f"vouched for  {claim}"
        for finding in self.not_rechecked:
            yield f"not checked  {finding}"
        yield "accepted" if self.accepted else "rejected"


@dataclass(slots=True)
class Findings:
    """Collects findings while a document is checked."""

    schema: str = ""
    vouched: list[str] = field(default_factory=list)
    refused: list[Finding] = field(default_factory=list)
    skipped: list[Finding] = field(default_factory=list)

    @contextmanager
    def claim(self, name: str) -> Iterator[None]:
        """Vouch for the claim unless the block raises `Refused` or `NotRechecked`."""
        try:
            yield
        except Refused as err:
            self.refuse(name, str(err))
        except NotRechecked as err:
            self.skip(name, str(err))
        else:
            self.vouch(name)

    def vouch(self, claim: str) -> None:
        """The claim follows from the inputs."""
        if claim not in self.vouched:
            self.vouched.append(claim)

    def refuse(self, claim: str, reason: str) -> None:
        """The claim is false, malformed or not proven."""
        if len(self.refused) < MOST_LISTED:
            self.refused.append(Finding(claim=claim, reason=reason))

    def skip(self, claim: str, reason: str) -> None:
        """The claim is neither shown nor refuted."""
        if len(self.skipped) < MOST_LISTED:
            self.skipped.append(Finding(claim=claim, reason=reason))

    def report(self) -> Report:
        """The report of everything found so far."""
        return Report(
            schema=self.schema,
            vouched=tuple(self.vouched),
            refused=tuple(self.refused),
            not_rechecked=tuple(self.skipped),
        )
