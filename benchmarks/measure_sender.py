"""The sender on one core against a compiled double on another, with servebench as live peer.

    python benchmarks/measure_sender.py [--sample N] [--peer FOLDER] [--no-peer]

Throughput comes from the double's own log, for us and for the peer alike. Needs gcc; the peer is installed into a
virtual environment of its own (kept in FOLDER when given). `--sample` is the number of rounds that alternate with it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.sender.limits import Job, Limits, Slice
from gpuyield.measure.sender.messages import Rows
from gpuyield.measure.sender.target import parse_target
from gpuyield.measure.sender.workers import Workers
from gpuyield.model.measure import ResponseStatus

PEER = "servebench==1.1.3"
SERVER_CPU, SENDER_CPU = 0, 1
AT_ONCE = 64
CHUNKS = 32
PROMPT = "word " * 32


@dataclass(frozen=True, slots=True)
class Log:
    """What the double wrote down, nanoseconds."""

    arrived: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]

    @property
    def rate(self) -> float:
        """Requests a second over the middle of the run."""
        ended = np.sort(self.last)
        low, high = len(ended) // 10, len(ended) * 9 // 10
        return float((high - low) / (ended[high] - ended[low]) * 1e9)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, default=3)
    options.add_argument("--peer", type=Path, default=None)
    options.add_argument("--no-peer", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        double = compiled(folder)
        peer = None if chosen.no_peer else peer_program(chosen.peer or folder / "peer")
        throughput(double, folder, peer, rounds=chosen.sample)
        for rate in (200, 1_000):
            open_loop(double, folder, rate_rps=rate)


def throughput(double: Path, folder: Path, peer: Path | None, *, rounds: int) -> None:
    """Requests and chunks a second when always busy."""
    single, single_cpu, ours, theirs, cpu = [], [], [], [], []
    for _ in range(rounds):
        with serving(double, folder, 0, 0, 0) as url:
            rows = busy(url, 40_000, streams=False)
        single_cpu.append(rows.cpu_s / 40_000 * 1e6)
        single.append(read_log(folder).rate)
        with serving(double, folder, CHUNKS, 0, 0) as url:
            rows = busy(url, 10_000, streams=True)
        ours.append(read_log(folder).rate * CHUNKS)
        cpu.append(rows.cpu_s / 10_000 / CHUNKS * 1e6)
        if peer is not None:
            with serving(double, folder, CHUNKS, 0, 0) as url:
                run_peer(peer, url, folder)
            theirs.append(read_log(folder).rate * CHUNKS)
    print(f"measure.sender.single {median(single):,.0f} requests/s (20000)")
    print(f"measure.sender.single.cpu {median(single_cpu):.1f} us/request")
    print(f"measure.sender.stream {median(ours):,.0f} chunks/s (80000)")
    print(f"measure.sender.stream.cpu {median(cpu):.2f} us/chunk")
    if theirs:
        ratios = [our / their for our, their in zip(ours, theirs, strict=True)]
        print(f"measure.peer.stream {median(theirs):,.0f} chunks/s")
        print(f"measure.sender.over_peer {median(ratios):.2f} ratio (1, 2)")


def open_loop(double: Path, folder: Path, *, rate_rps: int) -> None:
    """Ten seconds on schedule: lateness, error of the time to the first token, memory."""
    count = rate_rps * 10
    scheduled = np.rint(np.arange(count) / rate_rps * 1e9).astype(np.int64)
    with (
        serving(double, folder, CHUNKS, 50_000, 10_000) as url,
        Workers(job_for(url, streams=True), number=1, cpus=[SENDER_CPU]) as workers,
    ):
        workers.open(rate_rps)
        sent = workers.run([whole_slice(scheduled)], lambda _: True)
        rows = fine(sent.rows[0])
        peak_mb = sum(peak_bytes(pid) for pid in workers.pids) / 1e6
    log = read_log(folder)
    columns = rows.columns
    seen_ms = np.median(columns["first_ns"] - columns["sent_ns"]) / 1e6
    true_ms = np.median(log.first - log.arrived) / 1e6
    name = f"measure.sender.open_{rate_rps}"
    late = "(0.002)" if rate_rps == 1_000 else "(, 0.001)"
    print(f"{name}.slip_p50 {np.percentile(rows.lags_ns, 50) / 1e9:.6f} s")
    print(f"{name}.slip_p99 {np.percentile(rows.lags_ns, 99) / 1e9:.6f} s {late}")
    print(f"{name}.ttft_p50_error {abs(seen_ms - true_ms):.3f} ms (0.3)")
    print(f"{name}.cpu {rows.cpu_s / rows.duration_s:.3f} core")
    print(f"{name}.waited {0.0 if rows.waited_s is None else rows.waited_s:.2f} s without a core, though ready")
    if rate_rps == 1_000:
        print(f"{name}.memory {peak_mb:.1f} MB (80)")


def busy(url: str, requests: int, *, streams: bool) -> Rows:
    """Keep 64 requests running until so many are done."""
    with Workers(job_for(url, streams=streams), number=1, cpus=[SENDER_CPU]) as workers:
        workers.open(AT_ONCE)
        sent = workers.run([whole_slice(np.zeros(requests, dtype=np.int64), at_once=AT_ONCE)], lambda _: True)
        return fine(sent.rows[0])


def whole_slice(scheduled: NDArray[np.int64], *, at_once: int = 0) -> Slice:
    request = np.zeros(len(scheduled), dtype=np.int64)
    return Slice(scheduled_ns=scheduled, request=request, drain_ns=10_000_000_000, at_once=at_once)


def fine(rows: Rows | None) -> Rows:
    if rows is None or (rows.status != ResponseStatus.OK).any():
        sys.exit(f"the run failed: {None if rows is None else rows.problems}")
    return rows


def job_for(url: str, *, streams: bool) -> Job:
    spoken = Chat(streams=streams)
    line = RequestLine(id="1", kind="prompt", content=PROMPT, max_tokens=CHUNKS)
    return Job(
        target=parse_target(url),
        spoken=spoken,
        bodies=[spoken.body(line, model="double")],
        limits=Limits(connect_s=60),
        keep_texts=False,
    )


def compiled(folder: Path) -> Path:
    program = folder / "double"
    source = Path(__file__).with_name("measure_double.c")
    subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
    return program


@contextmanager
def serving(double: Path, folder: Path, chunks: int, first_us: int, between_us: int) -> Iterator[str]:
    """The double's URL, on a core of its own."""
    command = [str(double), str(chunks), str(first_us), str(between_us), str(folder / "log"), str(SERVER_CPU)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
        assert process.stdin is not None
        process.stdin.close()
        process.wait(timeout=10)


def read_log(folder: Path) -> Log:
    rows = np.fromfile(folder / "log", dtype=np.int64).reshape(-1, 3)
    return Log(arrived=rows[:, 0], first=rows[:, 1], last=rows[:, 2])


def peak_bytes(pid: int) -> int:
    """The most memory a process had resident."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def peer_program(folder: Path) -> Path | None:
    """The peer in an environment of its own; None, and said so, when it cannot be installed."""
    program = folder / "bin" / "servebench"
    if program.exists():
        return program
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    done = subprocess.run([str(folder / "bin" / "pip"), "install", "-q", PEER], check=False, capture_output=True)
    if done.returncode != 0:
        print(f"measure.peer unknown: {PEER} cannot be installed")
        return None
    print(f"measure.peer.install {time.monotonic() - began:.0f} s")
    return program


def run_peer(program: Path, url: str, folder: Path) -> None:
    command = ["taskset", "-c", str(SENDER_CPU), str(program), "run", "--url", url, "--model", "double"]
    command += ["--num-requests", "4000", "--output-len", str(CHUNKS), "--input-len", "32", "--no-gpu"]
    command += ["--concurrency", str(AT_ONCE)]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=240)
    if done.returncode != 0:
        sys.exit(f"the peer failed: {done.stdout[-500:]}{done.stderr[-500:]}")


if __name__ == "__main__":
    main()
