"""Puts a plan that was made elsewhere in place of the controller's: verified first, then written by one pointer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuyield.collect.kubernetes import connect
from gpuyield.controller.plan_parts import StoredPlan, TornStore, pack
from gpuyield.controller.store import POINTER, PlanStore
from gpuyield.errors import DeclarationError
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.sentences import count
from gpuyield.steps.documents import place_of_inputs, read_json
from gpuyield.steps.setting import read_declaration
from gpuyield.verify import check, read_limited
from gpuyield.verify.report import Refused

SOMEBODY = "published"
_LISTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A verified plan from a file."""

    stored: StoredPlan
    jobs: int
    pieces: int


def publish_answer(
    *,
    document: Path,
    inputs: Path | None,
    ledger_root: Path,
    namespace: str,
    apply: bool,
    file: Path,
) -> Answer:
    """The answer of `gpuyield plan publish`; without `apply` nothing is written, and no cluster is asked.

    Raises:
        DeclarationError: It is no plan, or does not stand its check.
        SourceError: The cluster is out of reach, or refuses.
    """
    found = read_publication(document, inputs, ledger_root)
    said = f"A plan of {count(found.jobs, 'job')}, {count(found.pieces, 'ConfigMap')} and the pointer {POINTER}"
    answer = {
        "schema": schema_name("publication"),
        "namespace": namespace,
        "jobs": found.jobs,
        "pieces": found.pieces,
        "inputs_digest": found.stored.document.get("inputs_digest"),
    }
    if not apply:
        return Answer(
            document={**answer, "published": False, "generation": None},
            headline=(f"{said} would be written to {namespace}; it stands its check.",),
            next=(Next(command=f"gpuyield plan publish {document} --apply", why="puts it in force"),),
        )
    declared = read_declaration(file).sources.kubernetes
    api = connect(declared.context if declared else None)
    generation = put_in_place(found.stored, PlanStore(api, namespace))
    return Answer(
        document={**answer, "published": True, "generation": generation},
        headline=(
            f"{said} are in {namespace}, as generation {generation}.",
            "The controller verifies it, takes it over within seconds, and carries it on from there.",
        ),
        next=(Next(command="gpuyield plan", why="shows what waits now"),),
    )


def read_publication(document: Path, inputs: Path | None, ledger_root: Path) -> Publication:
    """A plan from its files, verified."""
    found = read_json(document)
    if found["schema"] != schema_name("plan"):
        raise DeclarationError("it is no plan.", where=str(document), fix="Name what gpuyield plan --out FILE wrote.")
    place = place_of_inputs(document, found, inputs, ledger_root)
    try:
        data = read_limited(place)
    except (OSError, Refused) as err:
        raise DeclarationError(f"its inputs cannot be read: {err}.", where=str(place)) from err
    report = check(found, data)
    if not report.accepted:
        why = "; ".join(str(one) for one in report.refused[:_LISTED])
        raise DeclarationError(
            f"it does not stand its check: {why}.", where=str(document), fix=f"See gpuyield verify {document}."
        )
    stored = StoredPlan(document=found, inputs=data, by=SOMEBODY)
    return Publication(stored=stored, jobs=len(found.get("jobs", ())), pieces=len(pack(stored)))


def put_in_place(stored: StoredPlan, store: PlanStore) -> int:
    """Write a plan over the one that is there; its generation."""
    try:
        before = store.pointer()
    except TornStore:
        before = None
    generation = 1 if before is None else before.generation + 1
    store.write(StoredPlan(document=stored.document, inputs=stored.inputs, generation=generation, by=stored.by))
    return generation
