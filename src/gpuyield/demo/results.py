"""What came of the jobs: an outcome for each attempt, and verdicts for most of them."""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.demo.cluster import BatchJob, Pod
from gpuyield.demo.story import Dice
from gpuyield.model.outcome import CheckResult, EvaluatorKind, ExecStatus, Outcome, OutcomeKind, Verdict

SOURCE = "demo"
_CHECKED = {"nightly-eval": ("schema_valid", 0.92), "finetune-7b": ("loss_below_target", 0.9)}
"""Families whose results are checked: the check, and how often it passes."""


def judge_jobs(
    jobs: Sequence[BatchJob], pods: Sequence[Pod], dice: Dice
) -> tuple[tuple[Outcome, ...], tuple[Verdict, ...]]:
    """Outcomes of all attempts that ended, and the verdicts on those of checked families."""
    by_uid = {pod.uid: pod for pod in pods}
    outcomes: list[Outcome] = []
    verdicts: list[Verdict] = []
    for job in jobs:
        if job.family not in _CHECKED:
            continue
        attempts = [by_uid[uid] for uid in job.uids if uid in by_uid]
        ended = [pod for pod in attempts if pod.end_phase and pod.running_ms is not None]
        outcomes += [_outcome(job, pod, number) for number, pod in enumerate(ended, start=1)]
        if ended and ended[-1].end_phase == "Succeeded":
            verdicts += _verdict(job, ended[-1], len(ended), dice)
    return tuple(outcomes), tuple(verdicts)


def _outcome(job: BatchJob, pod: Pod, attempt: int) -> Outcome:
    succeeded = pod.end_phase == "Succeeded"
    return Outcome(
        source=SOURCE,
        outcome_id=f"{job.namespace}/{job.name}",
        attempt=attempt,
        kind=OutcomeKind.JOB,
        started_us=(pod.running_ms or 0) * 1000,
        ended_us=(pod.ended_ms or 0) * 1000,
        exec_status=ExecStatus.SUCCEEDED if succeeded else ExecStatus.FAILED,
        namespace=job.namespace,
        workload_kind="CronJob" if job.cron else "Job",
        workload=job.cron or job.name,
        pod_uid=pod.uid,
        node=pod.node or "",
        error_type="" if succeeded else "exit_1",
    )


def _verdict(job: BatchJob, pod: Pod, attempt: int, dice: Dice) -> list[Verdict]:
    check, pass_share = _CHECKED[job.family]
    die = dice.of(f"verdict/{job.namespace}/{job.name}")
    if die.random() < 0.1 or pod.ended_ms is None:
        return []
    passed = die.random() < pass_share
    return [
        Verdict(
            verdict_id=f"{SOURCE}/{job.namespace}/{job.name}/{check}",
            source=SOURCE,
            outcome_id=f"{job.namespace}/{job.name}",
            attempt=attempt,
            check=check,
            evaluator_kind=EvaluatorKind.CODE,
            evaluator="ci",
            score=1.0 if passed else 0.0,
            result=CheckResult.PASS if passed else CheckResult.FAIL,
            decided_us=(pod.ended_ms + 600_000) * 1000,
        )
    ]
