"""gpuyield demo: a made-up cluster through the whole chain; its API (serve), and a model-server double (server)."""

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


@app.command(help_formatter=Columns("gpuyield demo server --port 8000 --slots 16 --step 10ms --tokens 32"))
def server(
    *,
    port: Whole = 8000,
    slots: Whole = 16,
    step: str = "10ms",
    prompt_token: str | None = None,
    sequence: str | None = None,
    tokens: Whole = 32,
    spread: str = "0",
    fault: tuple[str, ...] = (),
    model: str = "double",
    pod: str = "",
    seed: Seed = 0,
    log: Path | None = None,
    common: Annotated[Common, Parameter(name="*")] = COMMON,
) -> Answer:
    """A model-server double on 127.0.0.1, OpenAI-compatible, whose capacity is known: something to measure.

    Parameters
    ----------
    port:
        Port on 127.0.0.1; 0 takes a free one.
    slots:
        Requests that run at once; the others wait in order.
    step:
        Time of one token.
    prompt_token:
        Time to read one word of a prompt (default: none).
    sequence:
        Time that each running request adds to a step: continuous batching instead of slots alone (default: none).
    tokens:
        Tokens of an answer where the request sets no limit.
    spread:
        How much that number varies: the standard deviation of its logarithm.
    fault:
        A way to go wrong and its share of the answers, such as 'error_event 1%'; may be repeated.
    model:
        Name of the model.
    pod:
        NAMESPACE/NAME of the pod that it pretends to be, for the page of its GPU.
    seed:
        The same seed makes the same lengths and faults.
    log:
        File for what really happened to each request, as JSON lines, written at the end.
    """
    from gpuyield.cli.progress import say
    from gpuyield.steps.demo_server import serve_double

    return serve_double(
        port=port,
        slots=slots,
        step=step,
        prompt_token=prompt_token,
        sequence=sequence,
        tokens=tokens,
        spread=spread,
        faults=fault,
        model=model,
        pod=pod,
        seed=seed,
        log=log,
        ready=lambda line: say(common, line),
    )
