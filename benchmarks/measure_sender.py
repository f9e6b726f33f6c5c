"""The sender on one core against a compiled double on another, with live peers.

    python benchmarks/measure_sender.py [--sample N] [--peer FOLDER] [--no-peer] [--aiperf FOLDER] [--guidellm FOLDER]

Throughput comes from the double's own log, for us and for the peers alike. Needs gcc; servebench is installed into a
virtual environment of its own (kept in FOLDER when given). AIPerf and GuideLLM weigh gigabytes: they run where the
folder of an environment is named that holds them. `--sample` is the number of rounds that alternate with the peers.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
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
HEAVY = {
    "aiperf": [
        *("profile", "-m", "double", "--url", "URL", "--endpoint-type", "chat", "--streaming"),
        *("--tokenizer", "TOKENIZER", "--use-server-token-count", "--request-count", "1200", "--isl", "32"),
        *("--osl", f"{CHUNKS}", "--ui", "none", "--no-server-metrics", "--no-gpu-telemetry"),
        *("--concurrency", f"{AT_ONCE}"),
    ],
    "guidellm": [
        *("run", "--backend", "kind=openai_http,target=URL,model=double,request_format=/v1/chat/completions"),
        *("--tokenizer", "kind=hf_auto,model=TOKENIZER"),
        *("--data", f"kind=synthetic_text,prompt_tokens=32,output_tokens={CHUNKS}"),
        *("--profile", f"kind=concurrent,streams={AT_ONCE}", "--constraint", "kind=max_requests,count=1200"),
        *("--disable-console", "--output", "kind=json,path=guidellm.json"),
    ],
}
TOKENIZER = """
import json, pathlib, sys
from tokenizers import Tokenizer, models, pre_tokenizers
folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
words = ["[UNK]", "</s>", *(f"word{n}" for n in range(3200))]
made = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
made.pre_tokenizer = pre_tokenizers.Whitespace()
made.save(str(folder / "tokenizer.json"))
kind = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "</s>"}
(folder / "tokenizer_config.json").write_text(json.dumps(kind))
"""
PROMPT = "word " * 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another sender. In its arguments URL is the double's address; `wanted`: floor and stretch of the ratio."""

    name: str
    program: Path
    arguments: Sequence[str]
    wanted: str


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
    for heavy in HEAVY:
        options.add_argument(f"--{heavy}", type=Path, default=None)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        double = compiled(folder)
        peers = [heavy_peer(name, vars(chosen)[name], folder) for name in HEAVY if vars(chosen)[name] is not None]
        if not chosen.no_peer:
            peers[:0] = light_peer(chosen.peer or folder / "peer")
        throughput(double, folder, peers, rounds=chosen.sample)
        for rate in (200, 1_000):
            open_loop(double, folder, rate_rps=rate)


def throughput(double: Path, folder: Path, peers: Sequence[Peer], *, rounds: int) -> None:
    """Requests and chunks a second when always busy."""
    single, single_cpu, ours, cpu = [], [], [], []
    theirs: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for _ in range(rounds):
        with serving(double, folder, 0, 0, 0) as url:
            rows = busy(url, 40_000, streams=False)
        single_cpu.append(rows.cpu_s / 40_000 * 1e6)
        single.append(read_log(folder).rate)
        with serving(double, folder, CHUNKS, 0, 0) as url:
            rows = busy(url, 10_000, streams=True)
        ours.append(read_log(folder).rate * CHUNKS)
        cpu.append(rows.cpu_s / 10_000 / CHUNKS * 1e6)
        for peer in peers:
            with serving(double, folder, CHUNKS, 0, 0) as url:
                run_peer(peer, url, folder)
            theirs[peer.name].append(read_log(folder).rate * CHUNKS)
    print(f"measure.sender.single {median(single):,.0f} requests/s (20000)")
    print(f"measure.sender.single.cpu {median(single_cpu):.1f} us/request")
    print(f"measure.sender.stream {median(ours):,.0f} chunks/s (80000)")
    print(f"measure.sender.stream.cpu {median(cpu):.2f} us/chunk")
    for peer in peers:
        ratios = [our / their for our, their in zip(ours, theirs[peer.name], strict=True)]
        print(f"measure.{peer.name}.stream {median(theirs[peer.name]):,.0f} chunks/s")
        print(f"measure.sender.over_{peer.name} {median(ratios):.2f} ratio ({peer.wanted})")


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


def light_peer(folder: Path) -> list[Peer]:
    """Servebench in an environment of its own; none, and said so, when it cannot be installed."""
    program = folder / "bin" / "servebench"
    if not program.exists():
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        done = subprocess.run([str(folder / "bin" / "pip"), "install", "-q", PEER], check=False, capture_output=True)
        if done.returncode != 0:
            print(f"measure.peer unknown: {PEER} cannot be installed")
            return []
        print(f"measure.peer.install {time.monotonic() - began:.0f} s")
    arguments = ["run", "--url", "URL/v1", "--model", "double", "--num-requests", "4000", "--output-len", f"{CHUNKS}"]
    arguments += ["--input-len", "32", "--no-gpu", "--concurrency", f"{AT_ONCE}"]
    return [Peer(name="peer", program=program, arguments=arguments, wanted="1, 2")]


def heavy_peer(name: str, environment: Path, folder: Path) -> Peer:
    """AIPerf or GuideLLM from its environment, with a tokenizer of our own that costs it little."""
    tokenizer = folder / "tokenizer"
    subprocess.run([str(environment / "bin" / "python"), "-c", TOKENIZER, str(tokenizer)], check=True)
    return Peer(
        name=name,
        program=environment / "bin" / name,
        arguments=[one.replace("TOKENIZER", str(tokenizer)) for one in HEAVY[name]],
        wanted=", 40",
    )


def run_peer(peer: Peer, url: str, folder: Path) -> None:
    arguments = [one.replace("URL", url.removesuffix("/v1")) for one in peer.arguments]
    command = ["taskset", "-c", str(SENDER_CPU), str(peer.program), *arguments]
    environment = os.environ | {"GUIDELLM__MAX_WORKER_PROCESSES": "1"}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=False, capture_output=True, text=True, timeout=240
    )
    if done.returncode != 0:
        sys.exit(f"{peer.name} failed: {done.stdout[-500:]}{done.stderr[-500:]}")


if __name__ == "__main__":
    main()
