"""How long the jobs that the ledger shows ran, by workload and by declared family."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpuyield.account import ObservedJob, observed_jobs
from gpuyield.plan.online.durations import Durations, PastRun, learn
from gpuyield.steps.evidence import gather_chosen
from gpuyield.steps.promises import Promises
from gpuyield.steps.setting import chosen_window, read_setting, was_collected


def durations_of(jobs: Iterable[ObservedJob], promises: Promises) -> Durations:
    """What the runs that ended say."""
    ended = sorted(((job.ended_ms, job.id, job) for job in jobs if job.ended_ms is not None), key=lambda one: one[:2])
    return learn(
        PastRun(family=name, run_ms=max(1, job.run_ms)) for *_, job in ended for name in sorted(groups(job, promises))
    )


def groups(job: ObservedJob, promises: Promises) -> set[str]:
    """The workload and the declared family of a job."""
    promised = promises.jobs.get((job.namespace, job.name))
    return {job.workload, *([promised.family] if promised and promised.family else [])}


def durations_in(file: Path, ledger_root: Path) -> Durations:
    """What the runs of the default window say; nothing where nothing was collected."""
    if not was_collected(ledger_root):
        return learn([])
    setting = read_setting(file, ledger_root)
    evidence = gather_chosen(setting, chosen_window(setting, window=None, begin=None, end=None))
    return durations_of(observed_jobs(evidence.accounting), evidence.promises)
