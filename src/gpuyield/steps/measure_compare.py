"""Two kept measurements side by side: whether one sustains more than the other, and how sure that is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.errors import DeclarationError, Mistake
from gpuyield.ledger import Ledger
from gpuyield.measure.compare import BOUNDS, Ratio, differences, ratio_at
from gpuyield.measure.rules import ALPHA, CONFIDENCE
from gpuyield.model.document import inputs_digest, schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.measure_compare import compared_answer
from gpuyield.steps.documents import inputs_path, read_json, write_answer

PROVEN, UNDECIDED = 0, 4
_SCHEMAS = (schema_name("measure"), schema_name("measure-inputs"))


def compare(first: Path, second: Path, *, ledger_root: Path, out: Path | None) -> Answer:
    """The answer of `gpuyield measure --compare FIRST SECOND`.

    Raises:
        DeclarationError: They are no measurements, or not of the same load and objectives; all reasons.
    """
    documents = [_document(path) for path in (first, second)]
    kept = [_inputs(path, one, ledger_root) for path, one in zip((first, second), documents, strict=True)]
    differ = differences(documents[0], documents[1], inputs=(kept[0], kept[1]))
    if differ:
        fix = "Measure both with the same objectives, --requests (or --trace), --arrivals, --protocol and --seed."
        raise DeclarationError.of([Mistake(what=f"{one}.", where=f"{first} and {second}", fix=fix) for one in differ])
    ratios = [ratio_at(kept[0], kept[1], confidence=one) for one in (CONFIDENCE, 1 - BOUNDS * ALPHA)]
    document = {
        "schema": schema_name("measure-comparison"),
        "first": _shown(first, documents[0]),
        "second": _shown(second, documents[1]),
        "objectives": documents[0]["objectives"],
        "arrival": documents[0]["arrival"],
        "load": documents[0]["load"],
        "ratio": asdict(ratios[0]),
        "ratio_of_stated_rates": asdict(ratios[1]),
        "ratio_per_gpu": _per_gpu(ratios[0], documents[0], documents[1]),
        "proven": _proven(ratios[0]),
    }
    notes = write_answer(document, out)
    return compared_answer(
        document,
        exit_code=UNDECIDED if document["proven"] is None else PROVEN,
        notes=notes,
        next_=[Next(command=f"gpuyield verify {second}", why="checks its bounds again, from the counts alone")],
    )


def _proven(ratio: Ratio) -> Mapping[str, Any] | None:
    """Which one sustains more, and by which share at least; None where neither is shown to."""
    if ratio.lo is not None and ratio.lo > 1:
        return {"more": "second", "at_least": ratio.lo - 1, "confidence": ratio.confidence}
    if ratio.hi is not None and ratio.hi < 1:
        return {"more": "first", "at_least": 1 / ratio.hi - 1, "confidence": ratio.confidence}
    return None


def _per_gpu(ratio: Ratio, first: Mapping[str, Any], second: Mapping[str, Any]) -> Mapping[str, Any] | None:
    gpus = []
    for one in (first, second):
        result = one["result"]
        if result["replicas"] is None or result["gpus_per_replica"] is None:
            return None
        gpus.append(result["replicas"] * result["gpus_per_replica"])
    scale = gpus[0] / gpus[1]
    return {
        "confidence": ratio.confidence,
        "lo": None if ratio.lo is None else ratio.lo * scale,
        "hi": None if ratio.hi is None else ratio.hi * scale,
    }


def _shown(path: Path, document: Mapping[str, Any]) -> Mapping[str, Any]:
    keys = ("certified_rps", "refuted_rps", "estimate_rps", "replicas", "gpus_per_replica", "expires_at")
    return {
        "file": str(path),
        "service": document["service"],
        "started_at": document["started_at"],
        "level": document["level"],
        "config": document["config"],
        "inputs_digest": document["inputs_digest"],
        **{key: document["result"][key] for key in keys},
    }


def _document(path: Path) -> dict[str, Any]:
    document = read_json(path)
    if document["schema"] != _SCHEMAS[0]:
        raise DeclarationError(
            f"it is no measurement but {document['schema'][:60]}.", where=str(path), fix="Keep one with --out FILE."
        )
    return document


def _inputs(path: Path, document: Mapping[str, Any], ledger_root: Path) -> dict[str, Any]:
    digest = str(document.get("inputs_digest"))
    for place in (inputs_path(path), inputs_path(Ledger(ledger_root).document_path("measure", digest))):
        try:
            data = place.read_bytes()
        except OSError:
            continue
        if inputs_digest(data) == digest:
            found: dict[str, Any] = json.loads(data)
            return found
    raise DeclarationError(
        "its inputs are missing, or are not those that its digest names.",
        where=str(inputs_path(path)),
        fix="Keep the file beside it that --out wrote, or name the ledger with --ledger.",
    )
