"""One probe sent by several senders that nobody leads: whole and together, or not at all. Shards as processes."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from doubles.command import Command, Ended
from doubles.model_server import RunningDouble, running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.ledger.parquet import read_parquet
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import Phase, ProbePlan, ResponseStatus
from gpuyield.steps.measure_asked import Asked, read_question
from gpuyield.steps.measure_question import Question
from gpuyield.steps.measure_round import RoundFile, arrivals_of, new_round, read_round, round_bytes
from gpuyield.steps.setting import wall_clock_ms
from measure.sending import prompts, send
from measure.sharing import LEADS_S, POD, SHARD, ended, of_kind, options, process, question

_FAST = EngineSettings(slots=64, step_s=0.002, output_tokens=4)


@pytest.fixture
def server() -> Iterator[RunningDouble]:
    with running_double(engine=_FAST) as running:
        yield running


def read(asked: Question) -> Asked:
    """The question as values."""
    return read_question(asked, Declaration())


def long_plan(seconds: int) -> ProbePlan:
    """A probe of ten requests a second."""
    return ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=3,
        rate_rps=10.0,
        warmup_ns=0,
        batch_ns=10**9,
        batches=seconds,
        runout_ns=0,
        drain_ns=10**9,
    )


def round_file(folder: Path, asked: Question, *, shards: int, lead_s: float, seconds: int = 2) -> RoundFile:
    """A round that lies in a folder."""
    start_at_ms = wall_clock_ms() + round(lead_s * 1000)
    file = new_round(read(asked), asked, long_plan(seconds), shards=shards, start_at_ms=start_at_ms)
    (folder / "round.json").write_bytes(round_bytes(file))
    return file


def as_shard(command: Command, monkeypatch: pytest.MonkeyPatch, index: int, *more: str) -> Ended:
    """A shard in this process."""
    monkeypatch.setenv("JOB_COMPLETION_INDEX", str(index))
    return command(*SHARD, *more)


@pytest.mark.timeout(600)
@pytest.mark.live_measuring
def test_pods_of_a_job_send_the_schedule_of_one_sender_and_merge_to_one_probe(
    command: Command, server: RunningDouble
) -> None:
    asked = question(server, command.folder)
    given = ("--in-cluster", "--image", "registry.example/gpuyield:1", "--claim", "records", "--shards", "3")
    for lead_s in LEADS_S:
        server.double.log.clear()
        more = ("--requests-map", "requests", "--start-in", f"{lead_s}s", "--out", "job.yaml")
        made = command("measure", *options(asked), *given, *more)
        objects = list(yaml.safe_load_all((command.folder / "job.yaml").read_text()))
        (command.folder / "round.json").write_text(of_kind(objects, "ConfigMap")["data"]["round.json"])
        (container,) = of_kind(objects, "Job")["spec"]["template"]["spec"]["containers"]
        here = {"/etc/gpuyield/round.json": "round.json", "/records": "records"}
        here["/requests/requests.jsonl"] = "requests.jsonl"
        arguments = [here.get(one, one) for one in container["args"]]
        said = [ended(one) for one in [process(command.folder, index, arguments) for index in range(3)]]
        if not any("was not ready" in text for _, text in said):
            break
    name = of_kind(objects, "Job")["metadata"]["name"]
    merged = command("measure", *options(asked), "--merge", f"records/{name}", "-o", "json")
    again = command("measure", *options(asked), "--merge", f"records/{name}")

    assert made.code == 0
    assert "Nothing was sent, and the cluster was not touched." in made.out
    assert [code for code, _ in said] == [0, 0, 0], said
    told = read(asked)
    planned = arrivals_of(told, read_round(command.folder / "round.json").round.plan).request.tolist()
    first_answers = [told.lines[0].id] * 3
    assert sorted(row.tag for row in server.double.log) == sorted(
        [*first_answers, *(told.lines[at].id for at in planned)]
    )
    assert (merged.code, merged.document["round"]) == (0, name)
    assert again.code == 2
    assert "is probe 0, and the search is at probe 1" in again.err


@pytest.mark.timeout(600)
@pytest.mark.live_measuring
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_shard_that_is_ended_stops_at_once_and_so_do_the_others(
    how: signal.Signals, command: Command, server: RunningDouble
) -> None:
    asked = question(server, command.folder)
    for lead_s in LEADS_S:
        server.double.log.clear()
        file = round_file(command.folder, asked, shards=2, lead_s=lead_s, seconds=120)
        first, second = (process(command.folder, index) for index in range(2))
        give_up_s = time.monotonic() + lead_s + 60
        while len(server.double.log) < 12 and first.poll() is None and time.monotonic() < give_up_s:
            time.sleep(0.02)
        if first.poll() is None:
            break
        ended(first), ended(second)
    first.send_signal(how)
    began_s = time.monotonic()
    said = [ended(first), ended(second)]
    stopped_s = time.monotonic() - began_s
    merged = command("measure", *options(asked), "--merge", f"records/{file.round.name}")

    assert [code for code, _ in said] == [130, 3], said
    assert "Nothing is sent any more" in said[0][1]
    assert "another shard stopped" in said[1][1]
    assert stopped_s < 60, "a machine with much else to do is slow at ending, too"
    assert len(server.double.log) < 300, "of 1,200"
    assert merged.code == 2, "the search had not asked for this probe"
    assert list((command.folder / "records" / file.round.name).glob("*.parquet")) == []


def test_where_a_shard_is_missing_at_the_start_nobody_sends(
    command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_file(command.folder, question(server, command.folder), shards=2, lead_s=3)

    done = as_shard(command, monkeypatch, 1)

    assert done.code == 3
    assert "shard 0 was not ready at the start, so that this one sends nothing" in done.err
    assert len(server.double.log) == 1, "the first answer alone"


def test_a_shard_that_is_ready_too_late_sends_nothing(
    command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_file(command.folder, question(server, command.folder), shards=1, lead_s=0)

    done = as_shard(command, monkeypatch, 0)

    assert done.code == 3
    assert "too late to send" in done.err
    assert len(server.double.log) == 1


def test_a_shard_runs_once(command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    round_file(command.folder, question(server, command.folder), shards=1, lead_s=0)
    as_shard(command, monkeypatch, 0)

    done = as_shard(command, monkeypatch, 0)

    assert done.code == 3
    assert "shard 0 ran already: it sends nothing twice" in done.err


def test_a_shard_sends_only_what_was_asked_of_all(
    command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = question(server, command.folder)
    file = round_file(command.folder, asked, shards=2, lead_s=60)
    other = replace(file, round=replace(file.round, arrivals_sha256="0" * 64))
    changed = replace(file, question=replace(file.question, seed=4))

    fast = replace(long_plan(2), rate_rps=151.0)
    faster = new_round(read(asked), asked, fast, shards=2, start_at_ms=file.round.start_at_ms)

    for wrong, what in (
        (other, "draws another schedule"),
        (changed, "belongs to another question"),
        (faster, "above --max-rate"),
    ):
        (command.folder / "round.json").write_bytes(round_bytes(wrong))
        done = as_shard(command, monkeypatch, 0)
        assert done.code == 2
        assert what in done.err
    assert as_shard(command, monkeypatch, 2).code == 2
    assert server.double.log == []


def test_without_apply_a_shard_sends_nothing(
    command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_file(command.folder, question(server, command.folder), shards=2, lead_s=60)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")

    done = command(*SHARD[:-1], "-o", "json")

    assert (done.code, done.document["applied"], done.document["requests"]) == (0, False, 10)
    assert server.double.connections == 0


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (("--trace", "trace.jsonl"), "--trace: the pods do not have this file. kubectl create configmap NAME"),
        (
            ("--objective", "judge 0.7 for 90%", "--judge-url", "http://127.0.0.1:9/v1", "--judge-model", "m"),
            "--judge-url: a model judges on one machine only",
        ),
        (("--headers-file", "headers"), "--headers-file: the pods do not have this file. Name a Secret"),
        (
            ("--gpu-metrics", "http://127.0.0.1:9/metrics"),
            "--gpu-metrics: the exporter's page is read from one machine only. Declare the service",
        ),
        (("--token-file", "key"), "--token-secret: the pods do not have the key"),
        (("--requests", "requests.jsonl"), "--requests: the pods do not have this file"),
        (("--shards", "0"), "--shards: 0 shards"),
        (("--start-in", "1s"), '--start-in: "1s" is out of range'),
        (("--at-least", "3", "--gate"), "--gate: --in-cluster decides nothing"),
        (("--merge", "records"), "--in-cluster and --merge are there together"),
    ],
)
def test_what_pods_cannot_do_is_said_and_no_round_is_made(command: Command, given: tuple[str, ...], what: str) -> None:
    (command.folder / "headers").write_text("X-Team: a\n")
    (command.folder / "key").write_text("secret")
    (command.folder / "requests.jsonl").write_text('{"id": "a", "prompt": "hi"}\n')
    rows = [f'{{"at_s": {at}, "prompt_tokens": 3, "output_tokens": 2}}\n' for at in range(200)]
    (command.folder / "trace.jsonl").write_text("".join(rows))

    done = command(
        *("measure", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--objective", "ttft p95 1s", "--in-cluster"),
        *("--image", "i", "--claim", "c", "--out", "job.yaml", *given),
    )

    assert done.code == 2
    assert what in " ".join(done.err.split())
    assert not (command.folder / "job.yaml").exists()


def test_all_mistakes_of_a_round_come_at_once(command: Command) -> None:
    done = command("measure", "--url", "http://127.0.0.1:9/v1", "--in-cluster", "--start-in", "1s", "--shards", "0")

    said = " ".join(done.err.split())
    assert done.code == 2
    for what in ("no image is named", "no volume", "0 shards", "out of range", "no objective", "no model"):
        assert what in said


def test_a_gate_without_a_rate_is_said_before_records_are_merged(command: Command) -> None:
    done = command("measure", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--merge", "records", "--gate")

    assert done.code == 2
    assert "--gate has nothing to judge by" in done.err


@pytest.mark.live_measuring
@pytest.mark.timeout(600)
def test_a_search_in_rounds_replays_a_trace_held_against_what_the_server_had_counted_when_it_began(
    command: Command, server: RunningDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = command.folder / "trace.jsonl"
    rows = [{"at_s": at * 0.3 + at % 3 * 0.2, "prompt_tokens": 5, "output_tokens": 2} for at in range(400)]
    trace.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # What it counted before is a profile; what the rounds themselves add to its counters is none of it.
    before = prompts(*["a b c d e f g h"] * 200, max_tokens=2)
    assert set(send(server.url, before, spacing_s=0.002).statuses) == {ResponseStatus.OK}
    asked = replace(question(server, command.folder), requests=None, trace=trace, profile="server")
    words = [*options(asked), "--trace", str(trace), "--profile", "server"]
    server.double.log.clear()

    phases, merged = in_rounds(command, monkeypatch, words, "--trace-map", "m", own=("--trace", "trace.jsonl"))

    found = merged.document["representative"]
    assert merged.document["arrival"] == "trace:jsonl"
    assert found["requests"] == 200, "as it was when the first round was made"
    assert found["sent"]["prompt_tokens"] == {"p50": 5.0, "p95": 5.0}
    assert found["sent"]["output_tokens"] == {"p50": 2.0, "p95": 2.0}
    assert command("verify", "m.json").code == 0
    assert list((command.folder / ".gpuyield" / "measure").glob("profile-*")) == [], "the search has ended"
    assert phases[:2] == ["ceiling", "ceiling"]
    assert merged.code == 4, "quick certifies nothing"
    assert len(merged.document["probes"]) == len(phases)
    sent = read_parquet(command.folder / "m.records.parquet").rows
    assert len(sent) == len(server.double.log) - len(phases), "every request but the first of each shard"


def in_rounds(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], *given: str, own: tuple[str, ...]
) -> tuple[list[str], Ended]:
    """The phases of a search that a single shard sends round by round, and how its last merge ended.

    `own` are the files that the pod finds.
    """
    rounds = ("--in-cluster", "--image", "i", "--claim", "c", "--shards", "1", "--start-in", "10s", *given)
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "0")
    phases = []
    for _ in range(12):
        made = command("measure", *words, *rounds, "-o", "json")
        assert made.code == 0, made.err
        phases.append(made.document["phase"])
        (command.folder / "round.json").write_text(made.document["manifests"][1]["data"]["round.json"])
        sent = command(*POD, *own)
        assert sent.code == 0, sent.err
        folder = f"records/{made.document['round']}"
        merged = command("measure", *words, "--merge", folder, "--out", "m.json", "-o", "json")
        assert merged.document["schema"] != "gpuyield/error/v1alpha1", merged.err
        if merged.document["schema"] == "gpuyield/measure/v1alpha1":
            break
    return phases, merged
