"""gpuyield demo: a made-up cluster through the whole chain; demo serve keeps its API up."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from gpuyield.cli.help import Columns
from gpuyield.cli.options import COMMON, Common, Seed, Whole
from gpuyield.report.answer import Answer

app = App(name="demo", help_formatter=Columns("gpuyield demo --out demo"))


@app.default
def run_demo(
    *,
    out: Path = Path("demo"),
    seed: Seed = 7,
    gpus: Whole = 32,
    days: Whole = 14,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """A made-up cluster from a seed, through the whole chain, to the decision page.

    Nothing is sent anywhere: the cluster's API answers on the loopback address only.

    Parameters
    ----------
    out:
        Folder that gets gpuyield.yaml, .gpuyield/, plan.json, decide.json and report.html.
    seed:
        The same seed makes the same cluster.
    gpus:
        GPUs of the made-up cluster.
    days:
        Days of history.
    """
    from gpuyield.cli.progress import progress
    from gpuyield.steps.demo import demo as step

    with progress(common) as tell:
        return step(out=out, seed=seed, gpus=gpus, days=days, tell=tell)


@app.command(help_formatter=Columns("gpuyield demo serve --port 9090"))
def serve(
    *,
    port: Whole = 9090,
    seed: Seed = 7,
    gpus: Whole = 32,
    days: Whole = 14,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """Keep the made-up cluster's Prometheus-compatible API up on 127.0.0.1 until interrupted.

    Parameters
    ----------
    port:
        Port on 127.0.0.1; 0 takes a free one.
    seed:
        The same seed makes the same cluster.
    gpus:
        GPUs of the made-up cluster.
    days:
        Days of history.
    """
    from gpuyield.cli.progress import say
    from gpuyield.steps.demo import serve as step

    return step(port=port, seed=seed, gpus=gpus, days=days, ready=lambda url: say(common, url))
