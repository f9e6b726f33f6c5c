"""Real Prometheus and VictoriaMetrics of two generations on loopback, filled with the past."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuyield.demo.exposition import Series
from gpuyield.demo.writers import victoria_lines, write_openmetrics
from ports import free_port
from servers.programs import built_program, debian_environment, debian_program

_READY_S = 60.0


class ServerFailed(Exception):
    """A server did not start or did not take the data; the end of its log follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One kind of server of one age."""

    name: str
    product: str
    find: Callable[[str], Path]
    environment: Callable[[], Mapping[str, str]]

    @property
    def is_prometheus(self) -> bool:
        """Prometheus, or else VictoriaMetrics."""
        return self.product == "prometheus"


def _plain_environment() -> Mapping[str, str]:
    return os.environ


PROMETHEUS_2 = Generation(
    name="prometheus-2.42", product="prometheus", find=debian_program, environment=debian_environment
)
VICTORIA_1_79 = Generation(
    name="victoriametrics-1.79", product="victoria-metrics", find=debian_program, environment=debian_environment
)
PROMETHEUS_3 = Generation(
    name="prometheus-3.16", product="prometheus", find=built_program, environment=_plain_environment
)
VICTORIA_1_151 = Generation(
    name="victoriametrics-1.151", product="victoria-metrics", find=built_program, environment=_plain_environment
)


@contextlib.contextmanager
def running(generation: Generation, series: Sequence[Series], folder: Path) -> Iterator[str]:
    """The server with these series in it, while the context lasts; gives its URL.

    Raises:
        ProgramMissing: Its programs cannot be had here.
        ServerFailed: It did not start, or did not take the data.
    """
    make = _prometheus if generation.is_prometheus else _victoria
    with make(generation, series, folder) as url:
        yield url


@contextlib.contextmanager
def scraping(generation: Generation, config: str, folder: Path) -> Iterator[str]:
    """The server, empty, that scrapes what `config` (a prometheus.yml) says, while the context lasts; gives its URL.

    Raises:
        ProgramMissing: Its programs cannot be had here.
        ServerFailed: It did not start.
    """
    (folder / "prometheus.yml").write_text(config)
    make = _prometheus if generation.is_prometheus else _victoria
    with make(generation, [], folder) as url:
        yield url


@contextlib.contextmanager
def _prometheus(generation: Generation, series: Sequence[Series], folder: Path) -> Iterator[str]:
    server, tool = generation.find("prometheus"), generation.find("promtool")
    text, data, config = folder / "past.om", folder / "data", folder / "prometheus.yml"
    with text.open("wb") as out:
        write_openmetrics(series, out)
    data.mkdir()
    if series:
        filled = subprocess.run(
            [tool, "tsdb", "create-blocks-from", "--max-block-duration=162h", "openmetrics", text, data, "-q"],
            env=generation.environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if filled.returncode:
            raise ServerFailed(f"promtool did not take the data: {filled.stderr[-500:]}")
    text.unlink()
    if not config.exists():
        config.write_text("global: {scrape_interval: 1m}\n")

    def command(port: int) -> list[str]:
        return [
            str(server),
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=50y",
            f"--web.listen-address=127.0.0.1:{port}",
            "--log.level=warn",
        ]

    with _process(command, "/-/ready", folder, generation.environment()) as url:
        yield url


@contextlib.contextmanager
def _victoria(generation: Generation, series: Sequence[Series], folder: Path) -> Iterator[str]:
    server, config = generation.find("victoria-metrics"), folder / "prometheus.yml"
    scrape = [f"-promscrape.config={config}"] if config.exists() else []

    def command(port: int) -> list[str]:
        return [
            str(server),
            f"-storageDataPath={folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=50y",
            "-search.latencyOffset=0s",
            "-search.disableCache",
            "-loggerLevel=WARN",
            *scrape,
        ]

    with _process(command, "/health", folder, generation.environment()) as url:
        batch: list[bytes] = []
        for line in victoria_lines(series):
            batch.append(line)
            if len(batch) == 500:
                _post(f"{url}/api/v1/import", b"".join(batch))
                batch.clear()
        _post(f"{url}/api/v1/import", b"".join(batch))
        _get(f"{url}/internal/force_flush")
        yield url


@contextlib.contextmanager
def _process(
    command: Callable[[int], Sequence[str]], ready: str, folder: Path, environment: Mapping[str, str]
) -> Iterator[str]:
    """A process of its own session that answers on a free port; ended with all that it started."""
    port = free_port()
    url, log_path = f"http://127.0.0.1:{port}", folder / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command(port),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_ready(process, url + ready, log_path)
        yield url
    finally:
        _end(process)


def _wait_ready(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    began, pause = time.monotonic(), threading.Event()
    while True:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, http.client.HTTPException, TimeoutError):
            _get(url)
            return
        if process.poll() is not None or time.monotonic() - began > _READY_S:
            raise ServerFailed(f"{url} is not ready.\n{log_path.read_text(errors='replace')[-2000:]}")
        pause.wait(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _get(url: str) -> bytes:
    with _DIRECT.open(url, timeout=30) as answer:
        return bytes(answer.read())


def _post(url: str, body: bytes) -> None:
    with _DIRECT.open(urllib.request.Request(url, data=body, method="POST"), timeout=120) as answer:
        answer.read()
