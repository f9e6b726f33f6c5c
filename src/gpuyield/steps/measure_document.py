"""The `measure` document with its inputs and raw records, and their places."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # Documents are JSON.

import msgspec

from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.measure.document import RawSource, Subject, measure_document, measure_inputs
from gpuyield.measure.recorded import likeness_of
from gpuyield.measure.search import Settings
from gpuyield.measure.served import Served
from gpuyield.model.evidence import Gap
from gpuyield.model.measure import Measurement
from gpuyield.steps.capacity import capacity_of, record_capacity
from gpuyield.steps.documents import keep
from gpuyield.steps.measure_asked import Asked
from gpuyield.steps.measure_kept import Kept
from gpuyield.units import DAY_MS

VALID_DAYS = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a search brought, with what was held fixed; `kept` holds its raw records."""

    asked: Asked
    served: Served
    settings: Settings
    measurement: Measurement
    kept: Kept
    started_at_ms: int


def document_of(found: Found, *, ledger_root: Path, out: Path | None) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The document, kept in the ledger and in `out`; and what could not be kept."""
    subject = _subject(found, _records_path(ledger_root, out, found))
    inputs = measure_inputs(subject, found.settings, found.measurement)
    document = measure_document(subject, found.settings, found.measurement)
    if found.asked.judge is not None:
        document["judge"] = found.asked.judge.document()
    notes = keep("measure", document, inputs, ledger_root=ledger_root, out=out)
    try:
        record_capacity(Ledger.create(ledger_root), capacity_of(document, inputs))
    except (DeclarationError, SourceError) as err:
        notes = (*notes, f"The ledger holds nothing of this, so that decide cannot rest on it: {err.mistakes[0].what}")
    return document, notes


def load_document(asked: Asked) -> dict[str, Any]:
    """What was sent, so that two measurements can be held against each other."""
    digest = hashlib.sha256()
    for one in asked.lines:
        digest.update(msgspec.json.encode([one.kind, one.content, one.max_tokens, one.expected]))
    if asked.trace is not None:
        digest.update(asked.trace.offset_ns.tobytes())
    return {
        "requests": asked.requests_words,
        "requests_sha256": f"sha256:{digest.hexdigest()}",
        "protocol": asked.protocol,
        "streams": asked.spoken.streams,
    }


def _records_path(ledger_root: Path, out: Path | None, found: Found) -> Path:
    if out is not None:
        return out.with_name(f"{out.name.removesuffix('.json')}.records.parquet")
    return ledger_root / "measure" / f"records-{found.started_at_ms}.parquet"


def _subject(found: Found, records: Path) -> Subject:
    asked, served = found.asked, found.served
    rate_rps = found.measurement.certified_rps or found.measurement.estimate_rps
    likeness = likeness_of(asked.recorded, found.kept.sent() if asked.recorded else (), rate_rps=rate_rps)
    rows = found.kept.records(records)
    sources = [RawSource(path=str(records), sha256=_sha256(records), rows=rows)] if rows else []
    if asked.requests_file is not None and asked.requests_sha256 is not None:
        sources.append(RawSource(path=asked.requests_file, sha256=asked.requests_sha256, rows=len(asked.lines)))
    return Subject(
        service=asked.name,
        arrival=asked.schedule.name,
        started_at_ms=found.started_at_ms,
        expires_at_ms=found.started_at_ms + VALID_DAYS * DAY_MS,
        config={
            "engine": served.engine,
            "version": served.version,
            "model": asked.model or None,
            "settings": dict(served.settings),
            "hardware": hardware_of(found.measurement, _gpus(asked)),
        },
        config_digest=served.digest,
        replicas=asked.replicas,
        gpus_per_replica=asked.gpus_per_replica,
        sources=tuple(sources),
        likeness=likeness,
        load=load_document(asked),
        gaps=(*_gaps(asked, served, found.measurement), *likeness.gaps),
    )


def hardware_of(found: Measurement, gpus: int | None) -> dict[str, int] | None:
    """The cards by model that the exporter told of during the probes.

    None where it did not, where not all probes saw the same, and where they are not the service's `gpus` (None: not
    told): then others hold some of them.
    """
    seen = [one.witness.gpu.models for one in found.probes if one.witness is not None and one.witness.gpu is not None]
    told = [dict(one) for one in seen if one]
    same = bool(told) and all(one == told[0] for one in told)
    return told[0] if same and gpus in (None, sum(told[0].values())) else None


def _gpus(asked: Asked) -> int | None:
    return None if asked.replicas is None or asked.gpus_per_replica is None else asked.replicas * asked.gpus_per_replica


def _gaps(asked: Asked, served: Served, found: Measurement) -> tuple[Gap, ...]:
    gaps: list[Gap] = []
    numbers = {"--replicas": asked.replicas, "--gpus-per-replica": asked.gpus_per_replica}
    unknown = [option for option, number in numbers.items() if number is None]
    if unknown:
        reason = f"replicas and GPUs of each are not known: {' and '.join(unknown)} would tell"
        gaps.insert(0, Gap(reason=reason, where="result.certified_rps_per_gpu"))
    if served.engine is None:
        gaps.append(Gap(reason="the server tells nothing of its engine and settings", where="config"))
    if hardware_of(found, _gpus(asked)) is None:
        reason = (
            "no exporter told of the service's GPUs and no others in every probe (--gpu-metrics, sources.prometheus)"
        )
        gaps.append(Gap(reason=reason, where="config.hardware"))
    return tuple(gaps)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
