"""gpuyield controller run: enforce plans through Kueue until told to stop."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from gpuyield.cli.help import Columns
from gpuyield.cli.options import COMMON, Common, Whole
from gpuyield.report.answer import Answer


def add_to(app: App) -> None:
    """Give `gpuyield controller` this command."""
    app.command(run, help_formatter=Columns("gpuyield controller run --dry-run"))


def run(
    *,
    namespace: str | None = None,
    identity: str | None = None,
    bind: str = "0.0.0.0",
    port: Whole = 8080,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    context: str | None = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Start each job when the plan says so: plan, verify, release, and tell. Runs until SIGTERM.

    It plans ClusterQueues that name an AdmissionCheck of gpuyield. A job is released when its planned time has come,
    its quota is free, and what is planned before it on the same GPUs has ended; nothing that runs is ever stopped. In
    other queues it only takes its own gate off again. One replica leads, others stand by.

    Parameters
    ----------
    namespace:
        Namespace of its Lease and plan (default: POD_NAMESPACE, else gpuyield-system).
    identity:
        Name of this replica (default: POD_NAME, else the host name).
    bind:
        Address of /healthz, /readyz and /metrics.
    port:
        Their port; 0 takes any.
    dry_run:
        Look once, print the plan and what would be written, write nothing, and end.
    context:
        Context of the kubeconfig (default: that of sources.kubernetes, else its current one; in a pod its own).
    """
    from gpuyield.controller.options import Options
    from gpuyield.controller.run import run_controller

    return run_controller(
        Options(
            namespace=namespace,
            identity=identity,
            bind=bind,
            port=port,
            dry_run=dry_run,
            context=context,
            file=common.file,
            ledger_root=common.ledger_root,
            debug=common.debug,
        )
    )
