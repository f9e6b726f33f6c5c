"""A problem that the collected cluster gives: its declared jobs, or a job file's, on the GPUs that batch work has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gpuyield.errors import DeclarationError
from gpuyield.model.evidence import Gap
from gpuyield.model.job import PlanObjective, Problem
from gpuyield.report.answer import Answer
from gpuyield.steps.declared_work import Asked, declared_work
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.observed import conditional_answer
from gpuyield.steps.plan import deadline
from gpuyield.steps.setting import chosen_window, read_setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWork:
    """The problem of the cluster's declared work (None: none is declared), and what is not known of it."""

    evidence: Evidence
    problem: Problem | None
    gaps: tuple[Gap, ...]

    def conditional(self, *, seed: int, time_limit: str, gate: bool) -> Answer:
        """What to say where no job declares a deadline."""
        return conditional_answer(self.evidence, seed=seed, should_stop=deadline(time_limit), gate=gate)


def cluster_work(
    *, file: Path, ledger_root: Path, jobs: Path | None, origin: str | None, objective: str, resource: str | None
) -> ClusterWork:
    """The declared work of the cluster as it was last seen.

    Raises:
        DeclarationError: Nothing was collected, and nothing says how many GPUs exist.
    """
    if jobs is not None and not ledger_root.is_dir():
        raise DeclarationError(
            "nothing says how many GPUs exist.",
            where="--jobs",
            fix="Add --gpus N or --capacity FILE, or run gpuyield collect first.",
        )
    setting = read_setting(file, ledger_root)
    # The window that a decision looks at by default, so that both plan the same work.
    evidence = gather_chosen(setting, chosen_window(setting, window=None, begin=None, end=None))
    work = declared_work(evidence, Asked(jobs=jobs, origin=origin))
    named = Gap(reason="It declares a deadline, but nothing tells how long it runs: it is not planned.", where="jobs")
    gaps = (*work.gaps, *(replace(named, where=job) for job in work.incomplete))
    if work.problem is None:
        return ClusterWork(evidence=evidence, problem=None, gaps=gaps)
    problem = replace(work.problem, objective=PlanObjective(objective), resource=resource)
    return ClusterWork(evidence=evidence, problem=problem, gaps=gaps)
