"""gpuyield controller manifests, lint and release: what comes before the controller runs, and when it does not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from gpuyield.cli.help import Columns
from gpuyield.cli.options import COMMON, Common, Whole
from gpuyield.model.marks import NAMESPACE
from gpuyield.report.answer import Answer

IMAGE = "gpuyield:0.1.0"


def add_to(app: App) -> None:
    """Give `gpuyield controller` these commands."""
    app.command(
        manifests,
        help_formatter=Columns("gpuyield controller manifests --deadlines warn --out gpuyield-controller.yaml"),
    )
    app.command(lint, help_formatter=Columns("gpuyield controller lint --gate"))
    app.command(release, help_formatter=Columns("gpuyield controller release evals/nightly-1201"))


def manifests(
    *,
    image: str = IMAGE,
    namespace: str = NAMESPACE,
    replicas: Whole = 2,
    deadlines: Literal["off", "warn", "deny"] = "warn",
    gate: Literal["add", "require", "off"] = "add",
    hold: Literal["gate", "queue"] = "gate",
    config: Path | None = None,
    out: Path | None = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Print the YAML of everything that the controller needs; nothing is given to a cluster.

    Namespace, roles (reading and enforcing apart), AdmissionCheck, two replicas with what protects them, and policies:
    on deadlines, on the gate, and on the controller's own account. deploy/helm/gpuyield is the same as a chart.

    Parameters
    ----------
    image:
        Image that holds gpuyield; see deploy/Containerfile.
    namespace:
        Namespace of the controller.
    replicas:
        One leads, the others stand by.
    deadlines:
        What happens to jobs without a deadline that can be read, in namespaces labelled gpuyield.dev/managed=true.
    gate:
        Add the gate to their jobs (Kubernetes 1.36), require it, or neither.
    hold:
        What holds a job until its time: the gate, or a LocalQueue on hold where Kueue's gate does not work.
    config:
        A gpuyield.yaml for the controller: limits, milestones, families.
    out:
        File to write it to.
    """
    from gpuyield.controller.handing_over import manifests_answer
    from gpuyield.controller.manifests.settings import Deadlines, Gate, Hold, Settings

    settings = Settings(
        image=image,
        namespace=namespace,
        replicas=replicas,
        deadlines=Deadlines(deadlines),
        gate=Gate(gate),
        hold=Hold(hold),
    )
    return manifests_answer(settings, config=config, out=out)


def lint(
    *,
    context: str | None = None,
    gate: Annotated[bool, Parameter(negative="")] = False,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Look for settings of planned queues that would break a plan; print the patch for each. Reads only.

    Preemption, quota that is lent to queues outside the plan, borrowed quota that its owner takes back, StrictFIFO, a
    check that is not asked on every flavor, and namespaces that did not opt in.

    Parameters
    ----------
    context:
        Context of the kubeconfig.
    gate:
        Exit 10 where a setting breaks a plan.
    """
    from gpuyield.collect.kubernetes import connect
    from gpuyield.controller.linting import lint_answer

    return lint_answer(connect(context), gate=gate)


def release(
    *jobs: str,
    all: Annotated[bool, Parameter(negative="")] = False,
    apply: Annotated[bool, Parameter(negative="")] = False,
    context: str | None = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Break the glass: let jobs go without a plan, also with the controller down. Shows what it would do first.

    It takes the gate of gpuyield off, switches parked Workloads on, and answers its checks with Ready. It needs the
    role gpuyield-break-glass, and the group gpuyield:break-glass where the guard policy is installed.

    Parameters
    ----------
    jobs:
        Jobs, as NAMESPACE/NAME.
    all:
        All that gpuyield holds.
    apply:
        Do it.
    context:
        Context of the kubeconfig.
    """
    from gpuyield.collect.kubernetes import connect
    from gpuyield.controller.releasing import release_answer
    from gpuyield.steps.setting import wall_clock_ms

    return release_answer(connect(context), jobs, everything=all, apply=apply, now_ms=wall_clock_ms)
