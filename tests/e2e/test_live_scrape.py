"""A real server scrapes a small exporter every second: true stale marks, and labels renamed as servers rename them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from e2e.path import accounted, bounds_by_class, by_class, collected
from e2e.truth import totals
from gpuyield.units import Window
from required import missing
from servers.programs import ProgramMissing
from servers.session import Store
from servers.stores import scraping

DEVICE = 'resource="nvidia_com_gpu",unit="integer"'
STATE = f"""\
kube_node_status_capacity{{node="node-a",{DEVICE}}} 1
kube_node_status_allocatable{{node="node-a",{DEVICE}}} 1
kube_node_status_condition{{node="node-a",condition="Ready",status="true"}} 1
"""
TRAIN = 'namespace="team-a",pod="train-0",uid="u1"'
POD = f"""\
kube_pod_container_resource_requests{{{TRAIN},container="main",node="node-a",{DEVICE}}} 1
kube_pod_status_phase{{{TRAIN},phase="Pending"}} 0
kube_pod_status_phase{{{TRAIN},phase="Running"}} 1
"""
CARD = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0",UUID="GPU-1",Hostname="node-a"'
BUSY = CARD + ',namespace="team-a",pod="train-0",container="main"} 0.5\n'
FREE = CARD + "} 0\n"


class Pages:
    """Two pages that exporters print; they may change at any time."""

    def __init__(self) -> None:
        self.by_path = {"/state": STATE + POD, "/cards": BUSY}


@contextlib.contextmanager
def exporters(pages: Pages) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages.by_path[self.path].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _config(port: int) -> str:
    return f"""\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: kube-state-metrics
    honor_labels: true
    metrics_path: /state
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
  - job_name: dcgm-exporter
    metrics_path: /cards
    static_configs:
      - targets: ["127.0.0.1:{port}"]
        labels: {{namespace: monitoring, pod: dcgm-exporter-aaaaa, container: exporter}}
"""


def _times(url: str, selector: str) -> list[float]:
    asked = urllib.parse.urlencode({"query": f"{selector}[10m]"}).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query", data=asked) as answer:
        found = json.load(answer)["data"]["result"]
    return sorted(at for one in found for at, _ in one["values"])


def _wait_for(condition: Callable[[], bool]) -> None:
    began, pause = time.monotonic(), threading.Event()
    while not condition():
        assert time.monotonic() - began < 60
        pause.wait(0.1)


@pytest.mark.servers
def test_what_a_live_server_scraped_belongs_to_the_workload_and_ends_with_it(store: Store, tmp_path: Path) -> None:
    pages = Pages()
    home = tmp_path / "server"
    home.mkdir()
    cards = 'DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-1"}'
    with exporters(pages) as port, contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(scraping(store.generation, _config(port), home))
        except ProgramMissing as err:
            missing("SERVERS", str(err))
        requests = "kube_pod_container_resource_requests"
        _wait_for(lambda: len(_times(url, requests)) >= 5 and len(_times(url, cards)) >= 5)
        pages.by_path = {"/state": STATE, "/cards": FREE}
        _wait_for(lambda: _times(url, cards)[-1] > _times(url, requests)[-1] + 4)
        held = _times(url, requests)
        seen = _times(url, cards)
        window = Window(int(max(held[0], seen[0]) * 1000), int(held[-1] * 1000) + 3000)

        accounting = accounted(collected(url, window, tmp_path / "ledger"), window)

    found = totals(by_class(accounting))
    owners = {(owner.namespace, owner.workload) for owner in accounting.cells.owners}
    assert owners == {("team-a", "train-0")}
    assert sum(found.values()) == window.length_ms
    # It was gone with the next scrape, not five minutes later, and half busy until then.
    allocated = found["busy"] + found["underused"] + found["unobserved"] + found["starting"]
    assert abs(allocated - (held[-1] * 1000 + 1000 - window.from_ms)) <= 1100
    assert abs(found["busy"] - allocated / 2) <= 1100
    assert bounds_by_class(accounting)["unallocated"].hi > 0
