"""gpuyield plan: when each job runs, or why that is impossible; and a plan handed to the controller (publish)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from gpuyield.cli.help import Columns
from gpuyield.cli.options import COMMON, Common, Seed, Whole
from gpuyield.model.marks import NAMESPACE
from gpuyield.report.answer import Answer

_EXAMPLE = "gpuyield plan --jobs jobs.yaml --gpus 4 --origin 2026-11-30T21:00:00Z --out night.json"

app = App(name="plan", help_formatter=Columns(_EXAMPLE))


@app.default
def plan(
    *,
    jobs: Path | None = None,
    capacity: Path | None = None,
    gpus: Whole | None = None,
    origin: str | None = None,
    objective: Literal["on-time", "fewest-gpus", "makespan", "cheapest"] = "on-time",
    resource: str | None = None,
    quantile: Literal["p50", "p70", "p90"] = "p70",
    time_limit: str = "10s",
    seed: Seed = 0,
    gate: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """When each job runs, or why that is impossible, and the fewest GPUs.

    Without --jobs it takes what waits and runs on the live cluster with Kueue (sources.kubernetes, or KUBECONFIG and
    nothing collected), under its quotas; without Kueue the declared jobs that the ledger shows, and where none is
    declared it answers conditionally, from the batch jobs that were seen. Without --capacity and --gpus it plans on the
    GPUs that services leave.

    Parameters
    ----------
    jobs:
        Jobs to plan: JSON, JSON lines, YAML, CSV or Parquet.
    capacity:
        What exists, as steps over time.
    gpus:
        Or a constant number of GPUs.
    origin:
        Start of the plan (default: now, to the minute).
    objective:
        What the plan is best at, once all deadlines that can be met are met.
    resource:
        Resource that fewest-gpus counts (default: the only one).
    quantile:
        Which quantile of their run times jobs are planned with, where they give quantiles.
    time_limit:
        The longest time to search.
    seed:
        The same inputs and seed give the same plan.
    gate:
        Exit 10 when not all deadlines are met.
    out:
        File to write the plan to as well, with its inputs beside it; NAME.html: a page with pictures, and the plan
        beside it as NAME.json.
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.plan import plan_answer as step

    with progress(common) as tell:
        return step(
            file=common.file,
            ledger_root=common.ledger_root,
            jobs=jobs,
            capacity=capacity,
            gpus=gpus,
            origin=origin,
            objective=objective,
            resource=resource,
            quantile=quantile,
            time_limit=time_limit,
            seed=seed,
            gate=gate,
            out=out,
            tell=tell,
        )


@app.command(help_formatter=Columns("gpuyield plan publish plan.json --apply"))
def publish(
    document: Path,
    /,
    *,
    inputs: Path | None = None,
    namespace: str = NAMESPACE,
    apply: Annotated[bool, Parameter(negative="")] = False,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Hand a plan to the controller, in place of its own; without --apply only say what would be written.

    It is verified here, and again by the controller, which carries it on from there as the cluster changes. Jobs go by
    NAMESPACE/NAME. Needs the role gpuyield-publisher.

    Parameters
    ----------
    document:
        What gpuyield plan --out FILE wrote.
    inputs:
        Its canonical inputs (default: beside it, else in the ledger).
    namespace:
        Namespace of the controller.
    apply:
        Write it.
    """
    from gpuyield.controller.publish import publish_answer

    return publish_answer(
        document=document,
        inputs=inputs,
        ledger_root=common.ledger_root,
        namespace=namespace,
        apply=apply,
        file=common.file,
    )
