"""gpuyield explain: a job, a lever or a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer


def explain(
    what: str,
    /,
    *,
    document: Path | None = None,
    namespace: Annotated[str | None, Parameter(name=("--namespace", "-n"))] = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """A job: when, and why not earlier; a lever or a figure: its path to the evidence.

    Parameters
    ----------
    what:
        Name of a job, of a lever (reschedule, reclaim) or of a figure (idle_held, unobserved, ...); job/NAME asks the
        live cluster, for which rights on the job's namespace are enough.
    document:
        Plan or decision that holds it (default: plan.json and decide.json beside the file given with -f).
    namespace:
        Namespace of job/NAME (default: that of the kubeconfig's context).
    """
    if "/" in what and document is None:
        from gpuyield.controller.explain import explain_live_job, is_live_job

        if is_live_job(what):
            return explain_live_job(what=what, namespace=namespace, file=common.file, ledger_root=common.ledger_root)
    from gpuyield.steps.explain import explain_answer as step

    return step(what=what, document=document, file=common.file, ledger_root=common.ledger_root)
