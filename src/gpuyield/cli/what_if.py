"""gpuyield what-if: the plan with changes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common, Seed
from gpuyield.report.answer import Answer


def what_if(
    *,
    jobs: Path | None = None,
    capacity: Path | None = None,
    gpus: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    resource: str | None = None,
    job: Path | None = None,
    move: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    drop: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    origin: str | None = None,
    seed: Seed = 0,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """The same plan with changes, and what they do.

    Without --jobs it changes the plan of the live cluster, else of the declared jobs that the ledger shows, as gpuyield
    plan makes it.

    Parameters
    ----------
    jobs:
        Jobs to plan, as in gpuyield plan.
    capacity:
        What exists, as in gpuyield plan.
    gpus:
        More or fewer GPUs: +8, -4; or what exists and the change: 4+4.
    resource:
        Kind of GPUs that --gpus changes, such as gpu/h100 (default: the only one).
    job:
        File of one or more jobs to add; or the manifest of a Job, JobSet or CronJob that is not submitted yet: when it
        would start on the live cluster, on what, with how much slack, and what it lacks.
    move:
        JOB=DEADLINE or milestone:NAME=TIME (repeatable).
    drop:
        Job to leave out (repeatable).
    origin:
        Start of the plan (default: now, to the minute).
    seed:
        The same inputs and seed give the same plan.
    """
    from gpuyield.steps.what_if import what_if_answer as step

    return step(
        file=common.file,
        ledger_root=common.ledger_root,
        jobs=jobs,
        capacity=capacity,
        gpus=gpus,
        resource=resource,
        add=job,
        moves=move,
        drops=drop,
        origin=origin,
        seed=seed,
    )
