"""gpuyield init: look around, draft gpuyield.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from gpuyield.cli.options import COMMON, Common
from gpuyield.report.answer import Answer


def init(
    *,
    prometheus: str | None = None,
    opencost: str | None = None,
    context: str | None = None,
    out: Annotated[Path | None, Parameter(allow_leading_hyphen=True)] = None,
    force: Annotated[bool, Parameter(negative="")] = False,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Look around read-only and draft gpuyield.yaml, so that only business facts are left to fill in.

    Parameters
    ----------
    prometheus:
        Address of Prometheus, VictoriaMetrics, Thanos or Mimir, or namespace/name:port of a service of the cluster
        (default: one that the cluster of the kubeconfig has, else http://127.0.0.1:9090).
    opencost:
        Address of OpenCost, likewise (default: one that the cluster has).
    context:
        Context of the kubeconfig to look in (default: the current one).
    out:
        File to write (default: the one of -f); - prints it.
    force:
        Replace the file if it is there.
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.init import init as step

    with progress(common) as tell:
        return step(
            prometheus=prometheus,
            opencost=opencost,
            context=context,
            out=out if out is not None else common.file,
            force=force,
            tell=tell,
        )
