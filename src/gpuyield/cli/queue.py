"""gpuyield queue: why work waited."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, SPAN, Common, Span
from gpuyield.report.answer import Answer


def queue(
    *,
    by: str | None = None,
    span: Annotated[Span, Parameter(name="*")] = SPAN,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Why work waited: waiting GPU time by cause.

    On a live cluster with Kueue (sources.kubernetes, or KUBECONFIG and nothing collected) and without a window: each
    job that waits now, why, and when it starts by the plan; and what Kueue counted in the last day where the declared
    Prometheus scrapes it: whether queues grew, GPUs reserved and in use, waits, and what was stopped.

    Parameters
    ----------
    by:
        One or more of team,queue,family,workload,flavor; a family is one declared under batch.
    """
    from gpuyield.steps.queue import queue_answer as step

    return step(
        file=common.file,
        ledger_root=common.ledger_root,
        window=span.window,
        begin=span.begin,
        end=span.end,
        by=by,
    )
