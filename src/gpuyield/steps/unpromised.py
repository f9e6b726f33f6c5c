"""Work that holds GPUs without a promise: services without an objective, jobs without a deadline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from gpuyield.account.jobs import is_batch
from gpuyield.steps.decide import service_name
from gpuyield.steps.evidence import Evidence
from gpuyield.steps.seen import family_name
from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeclared:
    """A service, or the jobs of one family, without a promise; `jobs` is None for a service."""

    name: str
    jobs: int | None
    gpu_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Promising:
    """What is declared and what is not, of all GPU time that was held (`total_gpu_ms`)."""

    services: tuple[Undeclared, ...]
    batch: tuple[Undeclared, ...]
    declared_gpu_ms: int
    total_gpu_ms: int

    @property
    def declared_share(self) -> float | None:
        """Part of held GPU time under an objective or a deadline; None where nothing was held."""
        return self.declared_gpu_ms / self.total_gpu_ms if self.total_gpu_ms else None

    def share(self, one: Undeclared) -> float:
        """Its part of all that was held."""
        return one.gpu_ms / self.total_gpu_ms


def promising(evidence: Evidence) -> Promising:
    """Who owes what, the most GPU time first."""
    objectives = {one.name for one in evidence.setting.declaration.services if one.objectives}
    services: dict[str, int] = defaultdict(int)
    batch: dict[str, int] = defaultdict(int)
    jobs: dict[str, set[str]] = defaultdict(set)
    total = declared = 0
    for holding in evidence.accounting.pods.holdings:
        part = Window(holding.from_ms, max(holding.from_ms, holding.to_ms)).cut(evidence.window)
        if part is None:
            continue
        gpu_ms = holding.devices * part.length_ms
        total += gpu_ms
        if is_batch(holding):
            promised = evidence.promises.jobs.get((holding.namespace, holding.job or ""))
            if promised is not None and promised.limit_ms is not None:
                declared += gpu_ms
                continue
            family = (promised.family if promised else None) or family_name(holding.owner.workload)
            batch[f"{holding.namespace}/{family}"] += gpu_ms
            jobs[f"{holding.namespace}/{family}"].add(holding.job or holding.pod)
        elif (name := service_name(holding, evidence)) in objectives:
            declared += gpu_ms
        else:
            services[name] += gpu_ms
    return Promising(
        services=_ordered(Undeclared(name=name, jobs=None, gpu_ms=gpu_ms) for name, gpu_ms in services.items()),
        batch=_ordered(Undeclared(name=name, jobs=len(jobs[name]), gpu_ms=gpu_ms) for name, gpu_ms in batch.items()),
        declared_gpu_ms=declared,
        total_gpu_ms=total,
    )


def _ordered(found: Iterable[Undeclared]) -> tuple[Undeclared, ...]:
    return tuple(sorted(found, key=lambda one: (-one.gpu_ms, one.name)))
