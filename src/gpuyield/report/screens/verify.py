"""The answer of `gpuyield verify`: what is vouched for, what is refused and why, what was not re-checked."""

from __future__ import annotations

from typing import Protocol

from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Table

REJECTED = 10
_SHOWN = 12


class Said(Protocol):
    """A claim and what is to be said of it."""

    @property
    def claim(self) -> str:
        """What is claimed."""

    @property
    def reason(self) -> str:
        """Why it is refused, or cannot be judged."""


class Checked(Protocol):
    """The report of a check."""

    @property
    def schema(self) -> str:
        """That of the document."""

    @property
    def vouched(self) -> tuple[str, ...]:
        """Claims that follow from the inputs."""

    @property
    def refused(self) -> tuple[Said, ...]:
        """Claims that are false, malformed or not proven."""

    @property
    def not_rechecked(self) -> tuple[Said, ...]:
        """Claims that cannot be judged from the inputs."""

    @property
    def accepted(self) -> bool:
        """Nothing is refused, and something is vouched for."""


def verify_answer(
    report: Checked, *, document: str, inputs: str, passed_over: str | None = None, others: tuple[str, ...] = ()
) -> Answer:
    """Accepted (0) or rejected (10).

    `inputs` is the file that it was checked against, `passed_over` one that lies beside the document and is not of it;
    `others` are files that are not sources of the document.
    """
    accepted = report.accepted and not others
    if accepted:
        headline = f"accepted: {count(len(report.vouched), 'claim')} of {document} vouched for from its inputs alone."
    else:
        refused = len(report.refused) + len(others)
        headline = f"rejected: {count(refused, 'claim')} of {document} refused."
    rows: list[tuple[str, str, str]] = [("refused", "sources", text) for text in others]
    rows += [("refused", one.claim, one.reason) for one in report.refused]
    rows += [("not re-checked", one.claim, one.reason) for one in report.not_rechecked]
    rows += [("vouched for", claim, "") for claim in report.vouched]
    columns = (Column("result", "result"), Column("claim", "claim"), Column("reason", "reason"))
    shown = rows[:_SHOWN]
    notes = [f"Inputs: {inputs}"]
    if passed_over is not None:
        notes.append(f"Not used: {passed_over} is not what {document} was made from; the ledger's copy is.")
    if len(rows) > _SHOWN:
        notes.append(f"{count(len(rows) - _SHOWN, 'more claim')}: -o json or -o csv lists all.")
    return Answer(
        document={
            "schema": schema_name("verify"),
            "document": document,
            "inputs": inputs,
            "passed_over": passed_over,
            "of": report.schema,
            "accepted": accepted,
            "refused": [{"claim": one.claim, "reason": one.reason} for one in report.refused]
            + [{"claim": "sources", "reason": text} for text in others],
            "not_rechecked": [{"claim": one.claim, "reason": one.reason} for one in report.not_rechecked],
            "vouched": list(report.vouched),
        },
        headline=(headline,),
        tables=(Table(title="", columns=columns, rows=tuple(shown)),),
        csv=Table(title="", columns=columns, rows=tuple(rows)),
        notes=tuple(notes),
        next=(Next(command="gpuyield explain JOB --document " + document, why="why a job runs when it does"),),
        exit_code=0 if accepted else REJECTED,
    )
