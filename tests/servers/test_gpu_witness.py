"""A real metrics store that scrapes the GPU's exporter tells how busy the GPU was while a service was measured."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from doubles.model_server import RunningDouble, running_double
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient
from gpuyield.collect.prometheus import Prometheus
from gpuyield.declare.yaml_file import load_declaration
from gpuyield.demo.engine import EngineSettings
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.sender.target import parse_target
from gpuyield.model.measure import ResponseStatus
from gpuyield.model.witness import Witness
from gpuyield.steps.measure_gpus import MetricsStore, gpus_of
from gpuyield.steps.measure_pages import WATCH_PATIENCE
from gpuyield.steps.measure_watch import Watched
from gpuyield.units import MINUTE_MS, Window
from measure.sending import every, plan_for, prompts
from required import missing
from servers.programs import ProgramMissing
from servers.stores import PROMETHEUS_3, VICTORIA_1_151, Generation, scraping

pytestmark = pytest.mark.servers


def _config(port: int) -> str:
    return f"""\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: dcgm-exporter
    honor_labels: true
    metrics_path: /gpu-metrics
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.mark.parametrize("generation", [PROMETHEUS_3, VICTORIA_1_151], ids=lambda one: one.name)
def test_a_declared_store_tells_how_busy_the_services_cards_were(generation: Generation, tmp_path: Path) -> None:
    # Two slots, a request every 50 ms that takes 160 ms: the GPU has something to do nearly all the time.
    engine = EngineSettings(slots=2, step_s=0.04, output_tokens=4)
    with running_double(engine=engine, pod="ml/chat-0") as server:
        try:
            with scraping(generation, _config(server.port), tmp_path) as url:
                _wait_for_scrapes(url)
                ours, others = (_watch(server, url, namespace, tmp_path) for namespace in ("ml", "elsewhere"))
        except ProgramMissing as err:
            missing("SERVERS", str(err))

    assert ours.gpu is not None, ours.gaps
    assert (ours.gpu.metric, ours.gpu.gpus) == ("DCGM_FI_DEV_GPU_UTIL", 1)
    assert ours.gpu.busy > 0.6
    assert ours.gpu.readings >= 3
    assert ours.gaps == ()
    assert others.gpu is None
    assert [gap.reason for gap in others.gaps] == [
        "the metrics store has no GPU that namespace elsewhere holds and how busy it was"
    ]


def test_a_store_that_does_not_answer_is_a_gap_and_leaves_the_probe_alone(tmp_path: Path) -> None:
    with running_double(engine=EngineSettings(slots=2, step_s=0.01, output_tokens=2)) as server:
        seen = _watch(server, "http://127.0.0.1:9", "ml", tmp_path, requests=20)

    assert seen.gpu is None
    assert "the metrics store did not tell of the GPUs" in seen.gaps[0].reason


def _wait_for_scrapes(url: str) -> None:
    """A server finds its targets some seconds after it started."""
    store = Prometheus(HttpClient(endpoint(product="a store", url=url, declared_at="test")))
    until_s = time.monotonic() + 30
    while time.monotonic() < until_s:
        now_ms = time.time_ns() // 1_000_000
        if store.raw("DCGM_FI_DEV_GPU_UTIL", (), Window(now_ms - MINUTE_MS, now_ms)):
            return
        time.sleep(0.2)
    raise AssertionError("nothing was scraped")


def _watch(server: RunningDouble, store: str, namespace: str, folder: Path, *, requests: int = 120) -> Witness:
    """What is seen of a request every 50 ms, with this store declared."""
    file = folder / "gpuyield.yaml"
    file.write_text(f"sources: {{prometheus: {{url: {store}}}}}\n")
    gpus = gpus_of(None, namespace, load_declaration(file), folder)
    assert isinstance(gpus, MetricsStore)
    root = endpoint(product="a page", url=server.url.removesuffix("/v1"), declared_at="test")
    orders = Orders(target=parse_target(server.url), spoken=Chat(), lines=prompts("hi"), model="double")
    arrivals = every(0.05, requests, kinds=1)
    with LiveBench(orders) as bench:
        run = Watched(bench, HttpClient(root, patience=WATCH_PATIENCE), gpus).run(plan_for(arrivals), arrivals)

    assert run.witness is not None
    assert (run.records.status == ResponseStatus.OK).all()
    return run.witness
