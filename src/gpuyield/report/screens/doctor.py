"""The answer of `gpuyield doctor`: each source and fact, whether it is there, and what its absence costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any  # JSON has no narrower type than this.

from gpuyield.errors import Mistake
from gpuyield.model.document import schema_name, window_document
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Cell, Column, Kind, Table
from gpuyield.units import Window, format_duration

_MOST_ROWS = 15


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    MISSING = "missing"
    """Something that certainty needs is not there."""
    DOUBTFUL = "doubtful"
    """It is there, and not as it should be."""
    FAILED = "failed"
    """It does not answer, or refuses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One source or fact: what was found, what its absence costs in certainty, and how to mend it.

    `names` are the metrics that tell it. `mistake` is why a source failed.
    """

    what: str
    state: State = State.OK
    found: str = ""
    cost: str = ""
    fix: str = ""
    names: tuple[str, ...] = ()
    mistake: Mistake | None = None

    @property
    def words(self) -> str:
        """What it costs, and what to do."""
        return f"{self.cost} {self.fix}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenWork:
    """Work without a promise: what it lacks, how many jobs it is (None: a service), and its part of GPU-hours."""

    name: str
    lacks: str
    jobs: int | None
    gpu_hours: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A cause of differences between OpenCost's hours and ours, in words, with their number and their sum."""

    cause: str
    words: str
    pods: int
    gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRow:
    """GPU-hours of the pods of one name: OpenCost's (None: no row), ours held, and each difference by its cause."""

    pod: str
    opencost: float | None
    ours: float
    differences: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node by OpenCost and by us: GPU-hours, the price of one, and why they differ ("" where they do not)."""

    node: str
    flavor: str | None
    opencost: float | None
    ours: float | None
    price: float | None
    declared: float | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A live OpenCost against our own integration of the same window."""

    window: Window
    resolution_ms: int
    pods_same: int
    differences: Sequence[Difference] = ()
    pods: Sequence[PodRow] = ()
    nodes: Sequence[NodeRow] = ()


LEDGER = "ledger"
"""What the check of the ledger is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Everything that was looked at."""

    checks: Sequence[Check]
    open_work: Sequence[OpenWork] = ()
    declared_share: float | None = None
    compared: Compared | None = None
    exit_code: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the document that stand for themselves."""


def doctor_answer(found: Diagnosis) -> Answer:
    """All checks, what is missing first said in a line."""
    failed = [one for one in found.checks if one.state is State.FAILED]
    missing = [one for one in found.checks if one.state is State.MISSING]
    doubtful = [one for one in found.checks if one.state is State.DOUBTFUL]
    lines = []
    if failed:
        lines.append(f"{count(len(failed), 'source')} out of reach: {', '.join(one.what for one in failed)}.")
    if missing:
        lines.append(f"{count(len(missing), 'thing')} missing: {', '.join(one.what for one in missing)}.")
    if doubtful:
        lines.append(f"{count(len(doubtful), 'thing')} doubtful: {', '.join(one.what for one in doubtful)}.")
    tables = [_checks(found.checks)]
    if found.open_work:
        tables.append(_open_work(found.open_work))
    if found.compared:
        tables += _compared_tables(found.compared)
    mistakes = tuple(one.mistake for one in failed if one.mistake) if found.exit_code else ()
    return Answer(
        document=_document(found, mistakes),
        headline=tuple(lines) or ("Everything answers, and nothing is missing.",),
        tables=tuple(tables),
        notes=tuple(f"{one.what}: {one.words}" for one in (*failed, *missing, *doubtful) if one.words),
        next=(_next(found),),
        exit_code=found.exit_code,
        mistakes=mistakes,
    )


def _next(found: Diagnosis) -> Next:
    if found.exit_code:
        return Next(command="gpuyield doctor", why="again, when it is mended")
    if any(one.what == LEDGER and one.state is State.OK for one in found.checks):
        return Next(command="gpuyield account --by team", why="where every GPU-hour went")
    return Next(command="gpuyield collect --window 14d", why="read what is there into the ledger")


def _checks(checks: Sequence[Check]) -> Table:
    return Table(
        title="",
        columns=(Column("what", "what"), Column("state", "state"), Column("found", "found")),
        rows=tuple((one.what, str(one.state), one.found) for one in checks),
    )


def _open_work(work: Sequence[OpenWork]) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (one.name, one.lacks, one.jobs, round(one.gpu_hours, 1), one.share) for one in work[:_MOST_ROWS]
    ]
    rest = work[_MOST_ROWS:]
    if rest:
        hours, share = sum(one.gpu_hours for one in rest), sum(one.share for one in rest)
        rows.append((f"{len(rest)} more", "", None, round(hours, 1), share))
    return Table(
        title="Nothing is declared for",
        columns=(
            Column("work", "work"),
            Column("lacks", "lacks"),
            Column("jobs", "jobs", Kind.COUNT),
            Column("gpu_h", "GPU-hours", Kind.NUMBER),
            Column("share", "of all held", Kind.RATIO),
        ),
        rows=tuple(rows),
    )


def _compared_tables(found: Compared) -> list[Table]:
    nodes = Table(
        title=f"OpenCost and our own integration, {found.window}, by node",
        columns=(
            Column("node", "node"),
            Column("flavor", "flavor"),
            Column("opencost_gpu_h", "OpenCost GPU-hours", Kind.NUMBER),
            Column("gpuyield_gpu_h", "ours", Kind.NUMBER),
            Column("opencost_gpu_hour", "its price", Kind.NUMBER),
            Column("declared_gpu_hour", "declared", Kind.NUMBER),
            Column("why", "why they differ"),
        ),
        rows=tuple(
            (one.node, one.flavor, _short(one.opencost), _short(one.ours), _short(one.price, 6), one.declared, one.why)
            for one in found.nodes
        ),
    )
    pods = Table(
        title=f"The same by pod: {count(found.pods_same, 'pod')} equal,"
        f" OpenCost looks every {format_duration(found.resolution_ms)}",
        columns=(
            Column("pod", "pod"),
            Column("opencost_gpu_h", "OpenCost GPU-hours", Kind.NUMBER),
            Column("gpuyield_gpu_h", "ours", Kind.NUMBER),
            Column("why", "difference"),
        ),
        rows=tuple(
            (
                one.pod,
                _short(one.opencost),
                _short(one.ours),
                ", ".join(f"{cause} {hours:+.2f}" for cause, hours in one.differences.items()),
            )
            for one in found.pods[:_MOST_ROWS]
        ),
    )
    causes = Table(
        title="Why",
        columns=(
            Column("cause", "cause"),
            Column("pods", "pods", Kind.COUNT),
            Column("gpu_h", "OpenCost minus ours", Kind.NUMBER),
            Column("words", ""),
        ),
        rows=tuple((one.cause, one.pods, _short(one.gpu_hours), one.words) for one in found.differences),
    )
    return [nodes, *([pods] if found.pods else []), *([causes] if found.differences else [])]


def _document(found: Diagnosis, mistakes: Sequence[Mistake]) -> dict[str, Any]:
    # At exit 3 a script gets the error document; what else was found stands in it too.
    head: dict[str, Any] = {"schema": schema_name("doctor")}
    if found.exit_code:
        errors = [{"what": one.what, "where": one.where, "fix": one.fix} for one in mistakes]
        head = {"schema": schema_name("error"), "exit_code": found.exit_code, "errors": errors}
    return {
        **head,
        **found.extra,
        "checks": [
            {
                "what": one.what,
                "state": str(one.state),
                "found": one.found,
                "cost": one.cost,
                "fix": one.fix,
                "names": list(one.names),
            }
            for one in found.checks
        ],
        "declared_share": found.declared_share,
        "undeclared": [
            {"name": one.name, "lacks": one.lacks, "jobs": one.jobs, "gpu_h": one.gpu_hours, "share": one.share}
            for one in found.open_work
        ],
        "opencost": None if found.compared is None else _compared_document(found.compared),
    }


def _compared_document(found: Compared) -> dict[str, Any]:
    return {
        "window": window_document(found.window),
        "resolution_s": found.resolution_ms / 1000,
        "pods_same": found.pods_same,
        "differences": [
            {"cause": one.cause, "pods": one.pods, "gpu_h": one.gpu_hours, "words": one.words}
            for one in found.differences
        ],
        "pods": [
            {
                "pod": one.pod,
                "opencost_gpu_h": one.opencost,
                "gpuyield_gpu_h": one.ours,
                "differences": dict(one.differences),
            }
            for one in found.pods
        ],
        "nodes": [
            {
                "node": one.node,
                "flavor": one.flavor,
                "opencost_gpu_h": one.opencost,
                "gpuyield_gpu_h": one.ours,
                "opencost_gpu_hour": one.price,
                "declared_gpu_hour": one.declared,
                "why": one.why,
            }
            for one in found.nodes
        ],
    }


def _short(value: float | None, places: int = 2) -> float | None:
    return None if value is None else round(value, places)
