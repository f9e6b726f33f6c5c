"""The sender against real sockets: on time, without a queue of its own, honest about itself, and stopped at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from doubles.certificates import trusted
from doubles.model_server import running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.sender.abort import parse_condition
from gpuyield.measure.sender.bench import Flight, LiveBench, Orders
from gpuyield.measure.sender.limits import Limits
from gpuyield.measure.sender.target import parse_target
from gpuyield.model.measure import ResponseStatus
from measure.sending import PATIENT, every, plan_for, prompts, send

_QUICK = EngineSettings(slots=20_000, step_s=0.001, output_tokens=2)


def orders(url: str) -> Orders:
    """A sender of one short prompt."""
    lines = prompts("hello", max_tokens=None)
    return Orders(target=parse_target(url), spoken=Chat(), lines=lines, model="double", limits=PATIENT)


def test_every_request_is_sent_at_or_after_its_time_and_in_order() -> None:
    with running_double(engine=_QUICK) as server:
        took = send(server.url, prompts(*["a"] * 200), spacing_s=0.003)

    records = took.run.records
    assert took.statuses == [ResponseStatus.OK] * 200
    assert (records.sent_ns >= records.scheduled_ns).all()
    assert (np.diff(records.sent_ns) >= 0).all()


def test_the_server_saw_each_request_after_it_was_sent_and_before_its_first_token_was_read() -> None:
    with running_double(engine=_QUICK) as server:
        took = send(server.url, prompts(*[f"[[tag:r{number}]]" for number in range(50)]))
        rows = [server.row(f"r{number}") for number in range(50)]

    records = took.run.records
    for row, truth in enumerate(rows):
        assert records.sent_ns[row] + took.started_ns <= truth.arrived_ns
        assert truth.first_ns <= records.first_ns[row] + took.started_ns


def test_several_processes_send_disjoint_parts_of_one_schedule() -> None:
    with running_double(engine=_QUICK) as server:
        took = send(server.url, prompts(*[f"[[tag:r{number}]]" for number in range(61)]), workers=3)
        tags = sorted(row.tag for row in server.double.log)

    assert took.statuses == [ResponseStatus.OK] * 61
    assert tags == sorted(f"r{number}" for number in range(61))
    assert (took.run.records.sent_ns >= took.run.records.scheduled_ns).all()


def test_connections_are_kept_and_opened_before_they_are_needed() -> None:
    with running_double(engine=_QUICK) as server, LiveBench(orders(server.url)) as bench:
        arrivals = every(0.02, 50, kinds=1)

        bench.run(plan_for(arrivals), arrivals)

        assert server.double.connections <= 50 / 2, "a streamed request does not cost a connection"


def test_without_the_fast_loop_the_standard_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "uvloop.py").write_text("raise ImportError")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with running_double(engine=_QUICK) as server:
        took = send(server.url, prompts(*["a"] * 50))

    assert took.statuses == [ResponseStatus.OK] * 50
    assert (took.run.records.sent_ns >= took.run.records.scheduled_ns).all()


def test_requests_never_queue_for_a_connection() -> None:
    slow = EngineSettings(slots=400, step_s=0.5, output_tokens=2)
    with running_double(engine=slow) as server:
        took = send(server.url, prompts(*["a"] * 300, max_tokens=None), spacing_s=0.0005)

        assert server.double.connections >= 300
    assert took.statuses == [ResponseStatus.OK] * 300


def test_what_one_run_left_behind_does_not_reach_the_next() -> None:
    slow = EngineSettings(slots=100, step_s=0.1, output_tokens=5)
    with running_double(engine=slow) as server, LiveBench(orders(server.url)) as bench:
        cut, whole = every(0.002, 20, kinds=1), every(0.002, 5, kinds=1)

        first = bench.run(plan_for(cut, drain_s=0.05), cut)
        second = bench.run(plan_for(whole), whole)

    assert (first.records.status == ResponseStatus.IN_FLIGHT).all()
    assert (second.records.status == ResponseStatus.OK).all()
    assert len(second.records) == 5


def test_prompts_of_a_megabyte_are_sent_whole() -> None:
    with running_double(engine=_QUICK) as server:
        text = "word " * 200_000
        took = send(server.url, prompts(*[f"{text}[[tag:r{number}]]" for number in range(8)]))
        tokens = server.double.counted.prompt_tokens

    assert took.statuses == [ResponseStatus.OK] * 8
    assert tokens == 8 * 200_001


def test_an_answer_of_64_thousand_tokens_is_read_whole() -> None:
    fast = EngineSettings(slots=4, step_s=0.000_001)
    with running_double(engine=fast) as server:
        took = send(server.url, prompts("[[tag:long]]", max_tokens=64_000))
        truth = server.row("long")

    records = took.run.records
    assert took.statuses == [ResponseStatus.OK]
    assert list(records.output_tokens) == [64_000]
    assert truth.first_ns <= records.first_ns[0] + took.started_ns
    assert truth.last_ns <= records.last_ns[0] + took.started_ns
    assert records.first_ns[0] < records.last_ns[0], "the first token is not the end of the answer"
    assert records.reads[0] > 10


def test_less_than_a_request_a_second_is_sent_on_time() -> None:
    with running_double(engine=_QUICK) as server:
        took = send(server.url, prompts("a", "b"), spacing_s=1.3)

    assert list(took.run.records.scheduled_ns) == [0, 1_300_000_000]
    assert int(took.run.records.sent_ns[1]) >= 1_300_000_000


@pytest.mark.slow_laws
@pytest.mark.timeout(600)
def test_more_than_ten_thousand_requests_run_at_once() -> None:
    count = 10_500
    with _many_files(), running_double(engine=EngineSettings(slots=count, step_s=12.0, output_tokens=2)) as server:
        took = send(server.url, prompts(*["a"] * count, max_tokens=None), spacing_s=0.0008, drain_s=120)

        assert server.double.connections >= count
    assert took.statuses == [ResponseStatus.OK] * count


def test_tls_is_spoken_and_a_strange_certificate_is_a_miss_with_its_reason(tmp_path: Path) -> None:
    context, authority = trusted(tmp_path)
    with running_double(engine=_QUICK, tls=context) as server:
        fine = send(server.url, prompts(*["a"] * 5), ca_pem=authority)
        strange = send(server.url, prompts("a"))

    assert fine.statuses == [ResponseStatus.OK] * 5
    assert strange.statuses == [ResponseStatus.CONNECT_FAILED]
    assert list(strange.problems) == ["no connection: its certificate is not trusted"]


def test_nobody_at_the_address_is_a_miss_of_every_request() -> None:
    with running_double() as server:
        port = server.port
    took = send(f"http://127.0.0.1:{port}/v1", prompts("a", "b"))

    assert took.statuses == [ResponseStatus.CONNECT_FAILED] * 2
    assert list(took.problems) == ["no connection: Connection refused"]


def test_a_name_that_nobody_knows_is_an_error_before_anything_is_sent() -> None:
    with pytest.raises(SourceError, match="address cannot be used"):
        send("http://no-such-host.invalid:8000/v1", prompts("a"))


def test_a_server_that_restarts_in_the_middle_costs_what_it_missed_and_no_more() -> None:
    with running_double(engine=_QUICK) as first:
        restarted = contextlib.ExitStack()

        def restart(flight: Flight) -> None:
            if flight.done >= 40 and first.double.is_up:
                first.do(first.double.stop())
                restarted.enter_context(running_double(engine=_QUICK, port=first.port))

        with restarted, LiveBench(replace(orders(first.url), limits=Limits(connect_s=20), tell=restart)) as bench:
            arrivals = every(0.01, 200, kinds=1)
            run = bench.run(plan_for(arrivals), arrivals)
        served = len(first.double.log)

    status = run.records.status
    lost = {ResponseStatus.CONNECT_FAILED, ResponseStatus.CUT_OFF}
    assert 40 <= served < 200
    assert (status[:20] == ResponseStatus.OK).all()
    assert (status[-20:] == ResponseStatus.OK).all()
    assert {ResponseStatus(int(one)) for one in status} <= {ResponseStatus.OK, *lost}


def test_a_sender_starved_to_a_third_of_a_core_makes_the_probe_invalid_and_says_what_to_do() -> None:
    with running_double(engine=_QUICK) as server, LiveBench(replace(orders(server.url), lag_limit_s=0.025)) as bench:
        arrivals = every(0.005, 300, kinds=1)
        with _a_third(bench.pids[0]):
            run = bench.run(plan_for(arrivals), arrivals)

    assert not run.health.valid
    assert run.health.lag_p99_s > 0.025
    assert "Give the sender more CPU" in run.health.why
    assert (run.records.status == ResponseStatus.OK).all(), "what it measured is recorded, and not believed"


def test_a_sender_process_that_dies_makes_the_probe_invalid() -> None:
    with running_double(engine=_QUICK) as server:

        def kill(flight: Flight) -> None:
            if flight.sent > 20:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(bench.pids[0], signal.SIGKILL)

        with LiveBench(replace(orders(server.url), workers=2, tell=kill)) as bench:
            arrivals = every(0.01, 100, kinds=1)
            run = bench.run(plan_for(arrivals), arrivals)

    assert not run.health.valid
    assert "a sender process died" in run.health.why
    assert (run.records.status[1::2] == ResponseStatus.OK).all()


_STEPPING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
static long step(void) {
    static struct timespec first;
    struct timespec now;
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_MONOTONIC, &now);
    if (!first.tv_sec) first = now;
    return now.tv_sec - first.tv_sec >= 1 ? -3600 : 0;
}
int clock_gettime(clockid_t clock, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int done = real(clock, at);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) at->tv_sec += step();
    return done;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec, at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def test_a_wall_clock_that_jumps_back_an_hour_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to build a clock that jumps")
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(_STEPPING)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    with running_double(engine=_QUICK) as server:
        monkeypatch.setenv("LD_PRELOAD", str(library))
        took = send(server.url, prompts(*["a"] * 60), spacing_s=0.03)

    records = took.run.records
    assert took.statuses == [ResponseStatus.OK] * 60
    assert (records.sent_ns >= records.scheduled_ns).all()
    assert (records.end_ns - records.sent_ns < 60e9).all()


_ENDLESS = """
import sys
from measure.sending import every, plan_for, prompts
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.sender.target import parse_target

def main():
    said = []
    def tell(flight):
        if flight.done > 10 and not said:
            said.append(1)
            print("running", flush=True)
    with LiveBench(Orders(target=parse_target(sys.argv[1]), spoken=Chat(), lines=prompts("a"), model="double",
                          tell=tell)) as bench:
        print(*bench.pids, flush=True)
        arrivals = every(0.005, 100_000, kinds=1)
        bench.run(plan_for(arrivals), arrivals)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_end_from_outside_stops_the_load_at_once(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "endless.py"
    script.write_text(_ENDLESS)
    tests = str(Path(__file__).resolve().parents[1])
    with running_double(engine=_QUICK) as server:
        command = [sys.executable, str(script), server.url]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"PYTHONPATH": tests},
        ) as process:
            assert process.stdout is not None
            workers = [int(pid) for pid in process.stdout.readline().split()]
            assert process.stdout.readline() == "running\n"
            process.send_signal(how)
            ended = process.wait(timeout=20)
        _wait_until_gone(workers)
        _wait_until(lambda: server.double.visitors == 0)

        assert ended != 0
        assert len(server.double.log) < 20_000, "of the hundred thousand that were scheduled"


def test_errors_that_only_go_on_stop_the_run() -> None:
    with (
        running_double(engine=_QUICK) as server,
        LiveBench(replace(orders(server.url), lines=prompts("[[fault:fails]]"))) as bench,
    ):
        arrivals = every(0.005, 4_000, kinds=1)

        with pytest.raises(SourceError, match="the run was stopped"):
            bench.run(plan_for(arrivals), arrivals)

        assert len(server.double.log) < 3_000


def test_a_condition_of_the_users_stops_the_run() -> None:
    slow = EngineSettings(slots=1, step_s=0.05, output_tokens=4)
    with running_double(engine=slow) as server:
        wanted = [parse_condition("in_flight over 30")]
        with LiveBench(replace(orders(server.url), abort_if=wanted)) as bench:
            arrivals = every(0.01, 2_000, kinds=1)

            with pytest.raises(SourceError, match="'in_flight over 30' holds"):
                bench.run(plan_for(arrivals), arrivals)


@pytest.mark.parametrize(
    ("text", "what", "limit", "percentile"),
    [
        ("error over 20%", "error", 0.2, 0.0),
        ("ttft p99 over 5s", "ttft", 5.0, 0.99),
        ("e2e  p50 over 300ms", "e2e", 0.3, 0.5),
        ("in_flight over 5000", "in_flight", 5000.0, 0.0),
    ],
)
def test_conditions_are_read_with_their_unit(text: str, what: str, limit: float, percentile: float) -> None:
    condition = parse_condition(text)

    assert (condition.what, condition.percentile) == (what, percentile)
    assert condition.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    "text",
    ["", "error > 20%", "error over 20", "ttft over 5s", "ttft p99 over 5", "e2e p0 over 1s", "error p5 over 1%"],
)
def test_a_condition_that_cannot_be_read_is_an_error_with_the_right_spelling(text: str) -> None:
    with pytest.raises(DeclarationError, match="Write 'error over 20%'"):
        parse_condition(text)


def test_keys_are_sent_and_never_shown() -> None:
    target = parse_target("http://127.0.0.1:8000/v1", headers=(("Authorization", "Bearer s3cret"),))

    assert b"Authorization: Bearer s3cret\r\n" in target.request("/chat/completions", b"{}")
    assert "s3cret" not in f"{target!r} {target} {target.url}"
    assert "hello" not in repr(prompts("hello"))


@pytest.mark.parametrize("url", ["", "ftp://a/b", "http://", "http://a:0/v1", "http://a:99999/", "http://u:p@a/v1"])
def test_an_address_that_cannot_be_used_is_an_error(url: str) -> None:
    with pytest.raises(DeclarationError):
        parse_target(url)


def test_a_header_cannot_smuggle_another() -> None:
    with pytest.raises(DeclarationError):
        parse_target("http://a/v1", headers=(("X-A", "b\r\nX-C: d"),))


@contextmanager
def _a_third(pid: int) -> Iterator[None]:
    """Let a process run 30 ms of every 90 ms, as a CPU limit of a third of a core does."""
    over = threading.Event()

    def starve() -> None:
        while not over.is_set():
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.06)
            os.kill(pid, signal.SIGCONT)
            over.wait(0.03)

    thread = threading.Thread(target=starve)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _many_files() -> Iterator[None]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 12_000:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def _wait_until_gone(pids: list[int]) -> None:
    def gone(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except FileNotFoundError:
            return True

    _wait_until(lambda: all(gone(pid) for pid in pids))
