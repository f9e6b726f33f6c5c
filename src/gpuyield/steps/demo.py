"""The whole chain on a made-up cluster: scenario, its API, the unchanged collector, and everything after it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from gpuyield.declare.yaml_file import load_declaration
from gpuyield.demo.api import make_server, serving
from gpuyield.demo.exposition import all_series
from gpuyield.demo.files import declaration_text, outcome_lines
from gpuyield.demo.scenario import make_scenario
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.model.declaration import Endpoint
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.demo import demo_answer
from gpuyield.steps.collect import collect_sources
from gpuyield.steps.declared_work import Asked
from gpuyield.steps.documents import write
from gpuyield.steps.evidence import gather
from gpuyield.steps.outcomes import import_declared
from gpuyield.steps.report import build, write_documents, write_page
from gpuyield.steps.setting import Setting
from gpuyield.units import DAY_MS, parse_instant

END_MS = parse_instant("2026-11-30T17:00:00Z")
"""The demo's now: a Monday evening, before the night's batch work comes in."""

Tell = Callable[[str], None]


def demo(*, out: Path, seed: int, gpus: int, days: int, tell: Tell) -> Answer:
    """The answer of `gpuyield demo`."""
    _check(gpus=gpus, days=days)
    tell("making up a cluster")
    scenario = make_scenario(seed=seed, gpus=gpus, days=days, end_ms=END_MS)
    _clear(out)
    write(out / "gpuyield.yaml", declaration_text(scenario).encode())
    write(out / "outcomes" / "demo.jsonl", outcome_lines(scenario).encode())
    declared = load_declaration(out / "gpuyield.yaml")
    ledger = Ledger.create(out / ".gpuyield")
    with serving(all_series(scenario)) as url:
        reached = replace(declared, sources=replace(declared.sources, prometheus=Endpoint(url=url)))
        collect_sources(
            reached,
            folder=out,
            ledger=ledger,
            window=scenario.window,
            now_ms=END_MS + DAY_MS,
            refresh=False,
            tell=tell,
        )
    import_declared(declared, folder=out, ledger=ledger, now_ms=END_MS)
    tell("accounting, planning, deciding")
    setting = Setting(declaration=declared, ledger=ledger, folder=out)
    evidence = gather(setting, scenario.window)
    built = build(evidence, Asked(), decision_path=out / "decide.json")
    write_documents(built, ledger_root=ledger.root, plan=out / "plan.json", decide=out / "decide.json")
    tell("drawing the page")
    write_page(built, out / "report.html")
    return demo_answer(built.facts, folder=str(out), gpus=scenario.gpus, days=days, seed=seed)


def serve(*, port: int, seed: int, gpus: int, days: int, ready: Callable[[str], None]) -> Answer:
    """Keep the API up until interrupted."""
    _check(gpus=gpus, days=days)
    if not 0 <= port <= 65_535:
        raise DeclarationError(f"{port} is no port.", where="--port", fix="Write a number from 0 to 65535.")
    scenario = make_scenario(seed=seed, gpus=gpus, days=days, end_ms=END_MS)
    try:
        server = make_server(all_series(scenario), port=port)
    except OSError as err:
        raise SourceError(
            f"port {port} cannot be used: {err.strerror or err}.", where="--port", fix="Name another one, or 0."
        ) from err
    url = f"http://127.0.0.1:{server.server_port}"
    ready(f"A made-up cluster answers at {url} as Prometheus would; {scenario.window}. Ctrl-C ends it.")
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    return Answer(
        document={"schema": schema_name("demo-serve"), "url": url},
        headline=(f"{url} is closed.",),
        next=(Next(command="gpuyield demo --out demo", why="the whole chain on the same cluster"),),
    )


def _check(*, gpus: int, days: int) -> None:
    if not 1 <= gpus <= 2_000:
        raise DeclarationError(f"{gpus} GPUs.", where="--gpus", fix="Write a number from 1 to 2000.")
    if not 1 <= days <= 90:
        raise DeclarationError(f"{days} days.", where="--days", fix="Write a number from 1 to 90.")


def _clear(out: Path) -> None:
    """Make room for a fresh demo; a folder that holds anything else is left alone.

    Raises:
        DeclarationError: The folder is no demo's.
    """
    try:
        if out.exists() and any(out.iterdir()):
            marker = out / "gpuyield.yaml"
            if not marker.is_file() or b"made up by gpuyield demo" not in marker.read_bytes():
                raise DeclarationError("the folder is not empty.", where=str(out), fix="Name a new folder with --out.")
            shutil.rmtree(out / ".gpuyield", ignore_errors=True)
        out.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise DeclarationError(
            f"no folder can be made there: {err.strerror or err}.", where=str(out), fix="Name a new folder with --out."
        ) from err
