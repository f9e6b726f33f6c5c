"""What becomes of a job that nobody has submitted yet, from its manifest, on the live cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuyield.collect.kueue.manifests import Manifests, read_manifests
from gpuyield.decide.live.foreign import Foreign
from gpuyield.decide.live.problem import LiveProblem, live_problem
from gpuyield.decide.live.submitted import freed, missing, mistakes_of, submitted, with_submitted
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.evidence import Gap
from gpuyield.report.answer import Answer
from gpuyield.report.screens.submit import submit_answer
from gpuyield.steps.live import LiveCluster, live_cluster, live_namespace
from gpuyield.steps.plan import make
from gpuyield.units import parse_zone

_TIME_LIMIT = "10s"


def manifest_answer(
    data: bytes, *, file: Path, ledger_root: Path, manifest: Path, others: tuple[str, ...], seed: int
) -> Answer:
    """The answer of `gpuyield what-if --job my.yaml` for a manifest; `others` are the options given beside it.

    Raises:
        DeclarationError: Mistakes in the manifest, all at once, or the question is not about a live cluster.
    """
    if others:
        raise DeclarationError(
            "a manifest is asked about on the live cluster, by itself.", where=others[0], fix=f"Leave out {others[0]}."
        )
    found = live_cluster(file=file, ledger_root=ledger_root)
    if found is None:
        raise DeclarationError(
            "it holds Kubernetes manifests, and there is no live cluster with Kueue to ask.",
            where=f"--job {manifest}",
            fix="Set KUBECONFIG or declare sources.kubernetes, or write the job as {id, gpus, duration_s, deadline}.",
        )
    live = found.live
    asked = _read(data, found, manifest)
    after = live_problem(with_submitted(live.seen, asked.work, asked.recurring), found.terms)
    return _answer(found, after, asked, manifest=manifest, seed=seed)


def _read(data: bytes, found: LiveCluster, manifest: Path) -> Manifests:
    """The jobs of the file; every mistake in it, and those against this cluster."""
    seen = found.live.seen
    mistakes: list[Mistake] = []
    asked = read_manifests(
        data, file=str(manifest), namespace=live_namespace(found.declaration), at_ms=seen.at_ms, mistakes=mistakes
    )
    against = mistakes_of(asked.work, asked.recurring, seen, found.declaration)
    mistakes += [replace(one, where=f"{manifest}: {one.where}") for one in against]
    if mistakes:
        raise DeclarationError.of(mistakes)
    return asked


def _answer(found: LiveCluster, after: LiveProblem, asked: Manifests, *, manifest: Path, seed: int) -> Answer:
    before = found.live
    names = (*(one.id for one in after.problem.jobs), *(one.work.id for one in after.work))
    foreign = Foreign(names, own=asked.namespaces)
    known = {one.id for one in before.problem.jobs}
    new = [one.id for one in after.problem.jobs if one.id not in known]
    old = make(before.problem, seed=seed, time_limit=_TIME_LIMIT)
    made = make(after.problem, seed=seed, time_limit=_TIME_LIMIT, start_from=old.plan)
    late = missing(made.plan, new)
    earliest = None
    if late:
        earliest = make(freed(after.problem, late), seed=seed, time_limit=_TIME_LIMIT, start_from=old.plan).plan
    its = tuple(one for one in after.gaps if any(one.where.startswith(name) for name in _named(asked)))
    passed = tuple(Gap(reason="It is no job: it was passed over.", where=one) for one in asked.passed_over)
    return submit_answer(
        submitted(before, after, made.plan, earliest, own=foreign),
        old.document,
        made.document,
        foreign=foreign,
        gaps=(*its, *passed),
        manifest=str(manifest),
        zone=parse_zone(found.declaration.reporting_zone),
    )


def _named(asked: Manifests) -> list[str]:
    return [
        *(one.id for one in asked.work),
        *(f"{one.namespace}/{one.name}" for one in asked.recurring),
        *(f"CronJob {one.namespace}/{one.name}" for one in asked.recurring),
    ]
