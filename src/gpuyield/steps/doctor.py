"""Which sources answer, what is missing, and what each gap costs in certainty."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyield.collect.look import Look, look
from gpuyield.collect.probe import api_server, probe
from gpuyield.errors import DeclarationError, GpuyieldError
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Declaration
from gpuyield.report.answer import Answer
from gpuyield.report.screens.doctor import Check, Diagnosis, OpenWork, State, doctor_answer
from gpuyield.steps import doctor_checks as checking
from gpuyield.steps.doctor_opencost import asked_opencost, compare
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.look import connect
from gpuyield.steps.needs import NEEDS
from gpuyield.steps.setting import Setting, chosen_window, read_declaration, wall_clock_ms, was_collected
from gpuyield.steps.unpromised import Promising, promising
from gpuyield.units import DAY_MS, HOUR_MS, Window, format_instant

Tell = Callable[[str], None]
SOURCE_FAILED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the questions start from."""

    declared: Declaration
    folder: Path
    ledger_root: Path
    now_ms: int

    @property
    def context(self) -> str | None:
        return self.declared.sources.context


def doctor(*, file: Path, ledger_root: Path, opencost: bool, tell: Tell) -> Answer:
    """The answer of `gpuyield doctor`: 0 when it could look, 3 when Prometheus does not answer.

    Raises:
        DeclarationError: The declaration has mistakes, or an OpenCost is to be compared and none is declared.
    """
    declared = read_declaration(file)
    if opencost and declared.sources.opencost is None:
        raise DeclarationError(
            "no OpenCost is declared.",
            where="sources.opencost",
            fix='Write sources: {opencost: {url: "http://127.0.0.1:9003"}} into gpuyield.yaml.',
        )
    asked = _Asked(declared=declared, folder=file.parent, ledger_root=ledger_root, now_ms=wall_clock_ms())
    tell("asking Prometheus")
    found, checks = _prometheus(asked)
    is_lost = any(one.state is State.FAILED for one in checks)
    if declared.sources.kubernetes is not None:
        tell("asking the API server")
        checks.append(_kubernetes(asked))
    tell("reading the ledger")
    evidence = _evidence(asked)
    checks += checking.of_ledger(evidence, ledger_root, asked.now_ms)
    promised = promising(evidence) if evidence else None
    checks += checking.of_promises(promised)
    checks += checking.of_prices(declared, evidence)
    compared = None
    if declared.sources.opencost is not None:
        tell("asking OpenCost")
        source, check = asked_opencost(
            declared.sources.opencost, _day(evidence, asked.now_ms), context=asked.context, folder=asked.folder
        )
        if opencost and source is not None:
            tell("comparing with OpenCost")
            compared, check = compare(source, evidence, check)
        checks.append(check)
        is_lost |= opencost and check.state is State.FAILED
    return doctor_answer(
        Diagnosis(
            checks=checks,
            open_work=_open_work(promised),
            declared_share=promised.declared_share if promised else None,
            compared=compared,
            exit_code=SOURCE_FAILED if is_lost else 0,
            extra=_facts(found),
        )
    )


def _prometheus(asked: _Asked) -> tuple[Look | None, list[Check]]:
    endpoint = asked.declared.sources.prometheus
    if endpoint is None:
        return None, [
            Check(
                what="Prometheus",
                state=State.MISSING,
                found="not declared",
                cost="Nothing can be collected.",
                fix="Run gpuyield init.",
            )
        ]
    try:
        source = connect(endpoint, context=asked.context, folder=asked.folder, environment=os.environ, home=Path.home())
        found = look(source, now_ms=asked.now_ms)
        checks = checking.of_store(found, asked.declared.rules, asked.now_ms)
        if found.newest_ms is None:
            return found, checks
        day = Window(found.newest_ms - DAY_MS, found.newest_ms + 1)
        wanted = tuple(dict.fromkeys(name for need in NEEDS for name in need.metrics))
        return found, [*checks, *checking.of_metrics(found, source.names(wanted, day))]
    except GpuyieldError as err:
        return None, [checking.failed("Prometheus", err, "Nothing new can be collected.")]


def _kubernetes(asked: _Asked) -> Check:
    try:
        server = api_server(asked.context, environment=os.environ, home=Path.home())
        seen = probe(server)
    except GpuyieldError as err:
        return checking.failed("Kubernetes", err, "Queues and services of the cluster are not seen.")
    kueue = f"Kueue {seen.kueue.version}" if seen.kueue else "no Kueue"
    if seen.gaps:
        return Check(
            what="Kubernetes",
            state=State.MISSING,
            found=f"context {seen.context}, {kueue}",
            cost=" ".join(gap.reason for gap in seen.gaps),
        )
    return Check(what="Kubernetes", found=f"context {seen.context}, {len(seen.services)} services, {kueue}")


def _evidence(asked: _Asked) -> Evidence | None:
    if not was_collected(asked.ledger_root):
        return None
    setting = Setting(declaration=asked.declared, ledger=Ledger.existing(asked.ledger_root), folder=asked.folder)
    return gather_chosen(setting, chosen_window(setting, window=None, begin=None, end=None))


def _day(evidence: Evidence | None, now_ms: int) -> Window:
    """The last whole UTC day of the ledger, else of the calendar."""
    end_ms = evidence.window.to_ms if evidence else now_ms
    day_ms = end_ms - end_ms % DAY_MS
    return Window(day_ms - DAY_MS, day_ms)


def _open_work(promised: Promising | None) -> tuple[OpenWork, ...]:
    if promised is None:
        return ()
    lacking = [*((one, "an objective") for one in promised.services), *((one, "a deadline") for one in promised.batch)]
    return tuple(
        OpenWork(name=one.name, lacks=lacks, jobs=one.jobs, gpu_hours=one.gpu_ms / HOUR_MS, share=promised.share(one))
        for one, lacks in sorted(lacking, key=lambda pair: (-pair[0].gpu_ms, pair[0].name))
    )


def _facts(found: Look | None) -> dict[str, object]:
    if found is None:
        return {"prometheus": None}
    return {
        "prometheus": {
            "product": found.build.product,
            "version": found.build.version,
            "oldest": None if found.first_ms is None else format_instant(found.first_ms),
            "newest": None if found.newest_ms is None else format_instant(found.newest_ms),
            "clock_ahead_s": None if found.clock_ahead_ms is None else found.clock_ahead_ms / 1000,
            "names": {str(kind): list(told) for kind, told in found.names.items()},
            "scrapes": [
                {
                    "exporter": one.exporter,
                    "metric": one.metric,
                    "interval_s": None if one.interval_ms is None else one.interval_ms / 1000,
                    "copies": one.copies,
                }
                for one in found.scrapes
            ],
        }
    }
