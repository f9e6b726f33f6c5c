"""A problem that the collected cluster gives: its declared jobs, or a job file's, on the GPUs that batch work has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gpuyield.declare.jobs import JobTerms, parse_jobs
from gpuyield.declare.problem import gpu_resources
from gpuyield.declare.rows import read_rows
from gpuyield.declare.yaml_file import read_file
from gpuyield.errors import DeclarationError
from gpuyield.model.evidence import Gap
from gpuyield.model.job import PlanObjective, Problem
from gpuyield.report.answer import Answer
from gpuyield.steps.declared_work import Asked, declared_work
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.live import LiveCluster, live_cluster
from gpuyield.steps.observed import conditional_answer
from gpuyield.steps.plan import deadline
from gpuyield.steps.setting import chosen_window, read_setting
from gpuyield.units import parse_zone


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWork:
    """The problem of the cluster's declared work (None: none is declared), and what is not known of it."""

    evidence: Evidence | None
    problem: Problem | None
    gaps: tuple[Gap, ...]
    live: LiveCluster | None = None

    def conditional(self, *, seed: int, time_limit: str, gate: bool) -> Answer:
        """What to say where no job declares a deadline."""
        assert self.evidence is not None
        return conditional_answer(self.evidence, seed=seed, should_stop=deadline(time_limit), gate=gate)


def cluster_work(
    *, file: Path, ledger_root: Path, jobs: Path | None, origin: str | None, objective: str, resource: str | None
) -> ClusterWork:
    """The work of the live cluster, else the declared work of the cluster as it was last seen.

    Raises:
        DeclarationError: Nothing was collected, and nothing says how many GPUs exist.
    """
    found = live_cluster(file=file, ledger_root=ledger_root)
    if found is not None:
        return live_work(found, jobs=jobs, origin=origin, objective=objective, resource=resource)
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


def live_work(
    found: LiveCluster, *, jobs: Path | None, origin: str | None, objective: str, resource: str | None
) -> ClusterWork:
    """What waits and runs on the live cluster; with a job file its jobs in place of those that wait.

    Raises:
        DeclarationError: Another origin than now, or mistakes in the job file.
    """
    if origin is not None:
        raise DeclarationError(
            "a plan of the live cluster starts now.", where="--origin", fix="Leave it out, or name --capacity FILE."
        )
    problem = found.live.problem
    if jobs is not None:
        rows = read_rows(jobs, read_file(jobs))
        running = tuple(one for one in problem.jobs if one.started_ms is not None)
        terms = JobTerms(
            origin_ms=problem.origin_ms,
            zone=parse_zone(found.declaration.reporting_zone),
            milestones=found.declaration.milestones,
            gpu_resources=gpu_resources(problem.capacity),
            queues=[one.queue for one in problem.quotas],
            known_ids=[one.id for one in running],
            history=found.history,
        )
        problem = replace(problem, jobs=(*parse_jobs(rows, terms), *running), sources=(rows.source,))
    problem = replace(problem, objective=PlanObjective(objective), resource=resource)
    return ClusterWork(evidence=None, problem=problem, gaps=found.live.gaps, live=None if jobs is not None else found)
