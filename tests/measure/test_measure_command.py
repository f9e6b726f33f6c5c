"""gpuyield measure: shows its load first, sends it only when told, never shows a key, goes on where it stopped."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from doubles.command import Command, Ended
from doubles.model_server import RunningDouble, running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.demo.language_model import FIELDS
from gpuyield.ledger.parquet import read_parquet
from gpuyield.measure.sender.bench import Flight, LiveBench, Orders
from gpuyield.measure.sender.target import parse_target
from gpuyield.measure.served import difference, read_served
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import ResponseStatus
from gpuyield.steps.measure import find
from gpuyield.steps.measure_asked import read_question
from gpuyield.steps.measure_question import Question
from gpuyield.steps.measure_service import looker
from measure.busy import measured_when_quiet, why_invalid
from measure.sending import PATIENT, every, plan_for, prompts

_FAST = EngineSettings(slots=64, step_s=0.001, output_tokens=4)
_EASY = ("--objective", "ttft p95 20s", "--max-rate", "400")


@pytest.fixture
def server() -> Iterator[RunningDouble]:
    with running_double(engine=_FAST) as running:
        yield running


def measured(command: Command, server: RunningDouble, *more: str) -> Ended:
    """The command against a server, with a limit that is easily kept."""
    return command("measure", "--url", server.url, "--model", "double", *_EASY, *more)


def requests_file(folder: Path, *rows: dict[str, Any]) -> str:
    """A file of requests with few tokens."""
    path = folder / "requests.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def short(folder: Path) -> str:
    """Requests that are answered at once."""
    return requests_file(folder, *({"id": f"r{number}", "prompt": "hi", "max_tokens": 2} for number in range(20)))


def test_without_apply_it_shows_target_rates_and_length_and_sends_nothing(
    command: Command, server: RunningDouble
) -> None:
    done = measured(command, server, "--at-least", "30", "--gate", "--out", "my m.json")

    assert done.code == 0
    assert "Nothing was sent." in done.out
    assert f"Load for {server.url}, model double: poisson arrivals, never more than 400 requests a second." in done.out
    assert "when a response takes 1 s" in done.out
    assert (
        f"gpuyield measure --url {server.url} --model double --objective 'ttft p95 20s' --max-rate 400 --at-least 30"
        " --gate --out 'my m.json' --apply"
    ) in " ".join(done.out.split())
    assert server.double.connections == 0


def test_all_mistakes_come_at_once(command: Command, tmp_path: Path) -> None:
    path = requests_file(tmp_path, {"prompt": "a", "expected": "("}, {"prompts": "b"})

    done = command(
        *("measure", "--url", "ftp://host", "--objective", "ttft p95 800", "--objective", "tpot p95 40ms"),
        *("--max-rate", "fast", "--requests", path, "--abort-if", "error > 5%", "--no-stream"),
        *("--arrivals", "often", "-o", "json"),
    )

    said = " ".join(one["where"] + one["what"] for one in done.document["errors"])
    assert done.code == 2
    for part in ("ftp://host", "limit", ":2", "no model", "--max-rate", "--abort-if", "--arrivals"):
        assert part in said


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--objective", "queue p95 1s"), "queue is nothing that a client sees"),
        (("--objective", "tpot p95 40ms", "--no-stream"), "needs answers that are streamed"),
        (("--objective", "exact for 95%"), "compares with what is expected"),
        (("--objective", "vibes for 95%"), "nothing grades"),
        (("--objective", "judge 0.7 for 95%"), "judge needs somebody to ask"),
        (("--objective", "ttft p95 1s", "--at-least", "50", "--max-rate", "40"), "above --max-rate"),
        (("--objective", "mine for 95%", "--check", "mine=no_such:thing"), "cannot be imported"),
        (("--objective", "error for 99%", "--check", "mine"), "names no check"),
        (("--service", "chat", "--objective", "ttft p95 1s"), "gpuyield.yaml"),
        (("--objective", "ttft p95 1s", "--gate"), "--at-least"),
        ((), "no objective is named"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_sent(
    command: Command, options: tuple[str, ...], what: str
) -> None:
    done = command("measure", "--url", "http://127.0.0.1:9/v1", "--model", "m", *options)

    assert done.code == 2
    assert what in done.err


def test_a_function_beside_the_requests_may_grade(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", sys.path[:])
    (command.folder / "my_checks.py").write_text(
        "def polite(answer, expected, request):\n    return 'please' in answer\n"
    )

    done = command(
        *("measure", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--objective", "polite for 95%"),
        *("--check", "polite=my_checks:polite"),
    )

    assert done.code == 0
    assert "--check polite=my_checks:polite" in done.out


def test_a_rate_that_is_kept_is_certified_and_verify_agrees(command: Command, server: RunningDouble) -> None:
    gpus = ("--gpu-metrics", server.url.replace("/v1", "/gpu-metrics"))
    options = ("--requests", short(command.folder), *gpus, "--apply", "--out", "m.json", "-o", "json")

    def measure(attempt: int) -> Ended:
        server.double.log.clear()
        return measured(command, server, *options)

    done = measured_when_quiet(measure, why_invalid=why_invalid)

    result = done.document["result"]
    assert (done.code, result["certified_rps"], result["stopped_because"]) == (0, 400.0, "max_rate")
    assert done.document["config"]["engine"] == "vllm"
    assert done.document["config"]["version"] is not None
    assert done.document["config"]["hardware"] == {"pretended": 1}
    rows = read_parquet(command.folder / "m.records.parquet")
    assert len(rows.rows) == len(server.double.log) - 1, "every request but the first is in the raw records"
    assert command("verify", "m.json").code == 0


def test_a_model_that_is_not_served_is_an_error_that_names_those_that_are(
    command: Command, server: RunningDouble
) -> None:
    done = command("measure", "--url", server.url, "--model", "other", *_EASY, "--apply")

    assert done.code == 3
    assert "--model double" in done.err
    assert server.double.log == []


@pytest.mark.parametrize("protocol", ["chat", pytest.param("completions", marks=pytest.mark.live_measuring)])
def test_a_server_that_refuses_stream_options_is_asked_without_and_nobody_counts_its_tokens(
    command: Command, protocol: str
) -> None:
    options = ("--protocol", protocol, "--level", "quick", "--apply", "--out", "m.json")
    with running_double(engine=_FAST, fields=FIELDS - {"stream_options"}) as server:
        done = measured(command, server, "--requests", short(command.folder), *options)

    table = read_parquet(command.folder / "m.records.parquet")
    found = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert "The server refuses stream_options, so nobody counts tokens" in done.out
    assert {one["output_tokens"] for one in found} == {-1}
    assert {one["status"] for one in found} == {ResponseStatus.OK}
    assert len(found) == len(server.double.log) - 1


def test_a_time_per_token_of_answers_that_come_in_one_piece_is_refused_before_any_load(
    command: Command, server: RunningDouble
) -> None:
    path = requests_file(command.folder, {"prompt": "[[fault:chunks_per_read:99]]", "max_tokens": 10})

    done = command(
        *("measure", "--url", server.url, "--model", "double", "--objective", "tpot p95 40ms"),
        *("--objective", "ttft p95 5s", "--requests", path, "--apply"),
    )

    assert done.code == 3
    assert "came in one piece, so that its tpot cannot be known" in done.err
    assert len(server.double.log) == 1


def test_a_server_that_is_not_there_is_an_error(command: Command) -> None:
    with running_double() as gone:
        pass

    done = command("measure", "--url", gone.url, "--model", "double", *_EASY, "--apply")

    assert done.code == 3
    assert "the first request failed: no connection: Connection refused" in done.err


def test_quick_certifies_nothing_for_the_gate_and_a_key_is_sent_and_is_nowhere_else(
    command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUYIELD_API_KEY", "s3cret-key")
    options = ("--level", "quick", "--at-least", "30", "--gate", "--apply", "--out", "m.json")

    done = measured(command, server, "--requests", short(command.folder), *options)

    assert done.code == 4
    assert "No rate is certified" in done.out
    assert server.double.authorizations == {"Bearer s3cret-key"}
    assert "s3cret" not in done.out + done.err
    for path in command.folder.rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_a_search_that_was_interrupted_goes_on_after_its_last_probe(tmp_path: Path, server: RunningDouble) -> None:
    question = Question(
        url=server.url,
        model="double",
        objectives=("ttft p95 20s",),
        requests=Path(short(tmp_path)),
        max_rate="400",
        level="quick",
    )
    asked = read_question(question, Declaration())
    said: list[str] = []

    def interrupt(line: str) -> None:
        said.append(line)
        if line.startswith("search"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="goes on after the last probe"):
        find(asked, folder=tmp_path / "kept", say=interrupt, tell=lambda line: None)
    stopped = [line for line in said if line.startswith(("ceiling", "search"))]
    found = find(asked, folder=tmp_path / "kept", say=said.append, tell=lambda line: None)

    assert f"Going on after {len(stopped)} probes of a run that was stopped." in said
    assert [one.plan.number for one in found.measurement.probes] == list(range(len(found.measurement.probes)))
    assert len([line for line in said if line.startswith(("ceiling", "search"))]) == len(found.measurement.probes)


def test_a_search_that_ended_with_invalid_probes_says_why_and_begins_again(
    command: Command, server: RunningDouble
) -> None:
    # No sender keeps its schedule to half a microsecond.
    limit = ("--objective", "ttft p95 0.01ms", "--max-rate", "400", "--requests", short(command.folder))
    asked = ("measure", "--url", server.url, "--model", "double", *limit, "--apply")

    first = command(*asked)
    sent = len(server.double.log)
    again = command(*asked)

    for done in (first, again):
        assert done.code == 4
        assert "No rate is certified" in done.out
        assert "The sender was too slow: 1 % of the requests were sent more than" in " ".join(done.out.split())
    assert "Going on after" not in again.err
    assert len(server.double.log) == 2 * sent


def test_a_server_that_restarts_during_a_probe_makes_it_invalid(server: RunningDouble) -> None:
    question = Question(url=server.url, model="double", objectives=("ttft p95 20s",))
    look = looker(read_question(question, Declaration()))
    with ExitStack() as restarted:

        def restart(flight: Flight) -> None:
            if flight.done >= 20 and server.double.is_up:
                server.do(server.double.stop())
                restarted.enter_context(running_double(engine=_FAST, port=server.port))

        asked = read_question(question, Declaration())
        orders = Orders(
            target=parse_target(server.url),
            spoken=asked.spoken,
            lines=prompts("a"),
            model="double",
            limits=PATIENT,
            look=look,
            tell=restart,
        )
        with LiveBench(orders) as bench:
            arrivals = every(0.01, 100, kinds=1)
            run = bench.run(plan_for(arrivals), arrivals)

    assert run.changed == "The server was restarted during the probe."


def test_a_page_that_does_not_answer_once_is_no_change_of_the_service() -> None:
    statuses = [200, 503, 503, 200]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = statuses.pop(0) if self.path == "/v1/models" else 404
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "m"}]}' if status == 200 else b"")

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said of it."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        look = looker(read_question(Question(url=url, model="m", objectives=("ttft p95 1s",)), Declaration()))
        before, after = look(), look()
        server.shutdown()

    assert before.models == ("m",)
    assert difference(before, after) == ""
    assert statuses == []


@pytest.mark.parametrize(
    ("metrics", "engine"),
    [
        ('vllm:num_requests_running{model_name="m"} 1\nvllm:cache_config_info{block_size="16"} 1.0', "vllm"),
        ("sglang:num_queue_reqs 3", "sglang"),
        ("# HELP x\ntgi_queue_size 2", "tgi"),
        ('nv_inference_count{model="m"} 4', "triton"),
        ("trtllm:request_success_total 3", "trtllm"),
        ("llamacpp:requests_processing 1", "llamacpp"),
        ("up 1", None),
    ],
)
def test_an_engine_is_known_by_its_metrics(metrics: str, engine: str | None) -> None:
    assert read_served(models=None, version=None, metrics=metrics).engine == engine


def test_what_changed_of_a_service_is_said() -> None:
    models = b'{"data": [{"id": "m"}]}'
    before = read_served(models=models, version=b'{"version": "1"}', metrics='vllm:cache_config_info{gpus="1"} 1.0')
    after = read_served(models=models, version=b'{"version": "2"}', metrics='vllm:cache_config_info{gpus="2"} 1.0')

    assert difference(before, before) == ""
    assert "its version was 1 and is 2" in difference(before, after)
    assert "vllm:cache_config_info.gpus was 1 and is 2" in difference(before, after)
    assert before.digest != after.digest


def test_recorded_metrics_of_real_engines_are_read(shared_data: Path) -> None:
    found = {
        read_served(models=None, version=None, metrics=path.read_text(errors="replace")).engine
        for path in sorted((shared_data / "telemetry").glob("*.prom"))
    }

    assert found == {"vllm", "sglang", "tgi", "triton", "trtllm", None}
