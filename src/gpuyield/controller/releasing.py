"""gpuyield controller release: what is held and would be let go, and with `apply` what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuyield.collect.kubernetes import ClusterApi
from gpuyield.controller.release import Held, chosen, held_jobs, let_go
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.report.tables import Column, Table

_WAIT_S = 10.0


def release_answer(
    api: ClusterApi, names: Sequence[str], *, everything: bool, apply: bool, now_ms: Callable[[], int]
) -> Answer:
    """Which jobs would be let go; with `apply`, where each has come to.

    Raises:
        DeclarationError: No job is named, or one that is not held.
        SourceError: Out of reach, or refused: everything that could be done was done.
    """
    if bool(names) == everything:
        what = "no job is named." if not names else "some are named, and all."
        raise DeclarationError(what, where="gpuyield controller release", fix="Write JOB, or --all.")
    held = chosen(held_jobs(api), names)
    states = {one.id: _why(one) for one in held}
    if apply and held:
        states, mistakes = let_go(api, held, now_ms=now_ms, wait_s=_WAIT_S)
        if mistakes:
            raise SourceError.of(mistakes)
    named = "--all" if everything else " ".join(names)
    rows = tuple((one.id, one.kind.kind, states[one.id]) for one in held)
    columns = (Column("job", "job"), Column("kind", "kind"), Column("state", "now" if apply else "held by"))
    return Answer(
        document={
            "schema": schema_name("controller-release"),
            "applied": apply,
            "jobs": [
                {
                    "job": one.id,
                    "kind": one.kind.kind,
                    "gated": one.is_gated,
                    "parked": one.is_parked,
                    "checks": list(one.checks),
                    "state": states[one.id] if apply else None,
                }
                for one in held
            ],
        },
        headline=_headline(held, states, apply=apply),
        tables=(Table(title="", columns=columns, rows=rows),) if rows else (),
        notes=_notes(states, apply=apply),
        next=_next(named, held, states, apply=apply),
    )


def _why(one: Held) -> str:
    parts = [
        "the gate" if one.is_gated else "",
        "parking" if one.is_parked else "",
        f"the check {', '.join(one.checks)}" if one.checks else "",
    ]
    return ", ".join(part for part in parts if part)


def _headline(held: Sequence[Held], states: dict[str, str], *, apply: bool) -> tuple[str, ...]:
    if not held:
        return ("gpuyield holds no job.",)
    if not apply:
        return (f"{count(len(held), 'job')} would be let go, without a plan. Nothing was changed.",)
    started = sum(state == "started" for state in states.values())
    return (f"{count(len(held), 'job')} let go, {started:,} started.",)


def _notes(states: dict[str, str], *, apply: bool) -> tuple[str, ...]:
    notes = ["A controller that runs goes on to hold what comes next; see that it is down where that is not meant."]
    if apply and any(state != "started" for state in states.values()):
        notes.append("What waits for quota now is asked for by the check later: run it again, or take the check away.")
    return tuple(notes)


def _next(named: str, held: Sequence[Held], states: dict[str, str], *, apply: bool) -> tuple[Next, ...]:
    off = """kubectl patch clusterqueue QUEUE --type=merge -p '{"spec":{"admissionChecksStrategy":null}}'"""
    plain = Next(command=off, why="leaves a queue to plain Kueue")
    if not held:
        return ()
    if not apply:
        return (Next(command=f"gpuyield controller release {named} --apply", why="lets them go"), plain)
    waiting = any(state != "started" for state in states.values())
    again = Next(command=f"gpuyield controller release {named} --apply", why="answers for those that wait")
    return (*([again] if waiting else []), plain)
