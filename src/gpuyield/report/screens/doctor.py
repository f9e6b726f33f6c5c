"""The answer of `gpuyield doctor`: each source and fact, whether it is there, and what its absence costs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Kind, Table


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    MISSING = "missing"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One source or fact: what was found, and what its absence costs in certainty, with what to do."""

    what: str
    state: State
    found: str
    cost: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHours:
    """GPU-hours of a node, by OpenCost and by our own integration; None: it does not know the node."""

    node: str
    opencost: float | None
    ours: float | None


def doctor_answer(checks: tuple[Check, ...], compared: tuple[NodeHours, ...], *, exit_code: int) -> Answer:
    """All checks, what is missing first said in a line."""
    failed = [one for one in checks if one.state is State.FAILED]
    missing = [one for one in checks if one.state is State.MISSING]
    if failed:
        headline = f"{count(len(failed), 'source')} out of reach: {', '.join(one.what for one in failed)}."
    elif missing:
        headline = f"{count(len(missing), 'thing')} missing: {', '.join(one.what for one in missing)}."
    else:
        headline = "Everything answers, and nothing is missing."
    tables = [
        Table(
            title="",
            columns=(Column("what", "what"), Column("state", "state"), Column("found", "found"), Column("cost", "")),
            rows=tuple((one.what, str(one.state), one.found, one.cost) for one in checks),
        )
    ]
    if compared:
        tables.append(
            Table(
                title="GPU-hours of the last whole day, by node",
                columns=(
                    Column("node", "node"),
                    Column("opencost_gpu_h", "OpenCost", Kind.NUMBER),
                    Column("gpuyield_gpu_h", "ours", Kind.NUMBER),
                ),
                rows=tuple((one.node, _hours(one.opencost), _hours(one.ours)) for one in compared),
            )
        )
    # At exit 3 a script gets the error document; what else was found stands in it too.
    errors = [{"what": f"{one.what}: {one.cost}", "where": one.found, "fix": ""} for one in failed]
    head = {"schema": schema_name("error"), "exit_code": exit_code, "errors": errors} if exit_code else {}
    return Answer(
        document={
            "schema": schema_name("doctor"),
            **head,
            "checks": [
                {"what": one.what, "state": str(one.state), "found": one.found, "cost": one.cost} for one in checks
            ],
            "opencost": [
                {"node": one.node, "opencost_gpu_h": one.opencost, "gpuyield_gpu_h": one.ours} for one in compared
            ],
        },
        headline=(headline,),
        tables=tuple(tables),
        next=(Next(command="gpuyield collect --window 14d", why="read what is there into the ledger"),),
        exit_code=exit_code,
    )


def _hours(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
