"""A load held against what the service really gets: near or far is said beside the rate, unknown is no number."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doubles.command import Command, isolate
from doubles.exposition_text import series
from doubles.model_server import running_double
from doubles.small_cluster import node
from gpuyield.declare.yaml_file import load_declaration
from gpuyield.demo.api import serving
from gpuyield.demo.engine import EngineSettings
from gpuyield.demo.exposition import Series
from gpuyield.errors import DeclarationError
from gpuyield.measure.recorded import Recorded, profile_of_page
from gpuyield.measure.representative import drawn_lengths, lengths_of
from gpuyield.steps.measure_asked import read_question
from gpuyield.steps.measure_load import recorded_from
from gpuyield.steps.measure_profile import recorded_of
from gpuyield.steps.measure_prompts import prompts_of_lengths
from gpuyield.steps.measure_question import Question
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, format_instant, parse_instant

_PAGE = """# TYPE vllm:request_prompt_tokens histogram
vllm:request_prompt_tokens_bucket{le="100.0"} 150.0
vllm:request_prompt_tokens_bucket{le="1000.0"} 190.0
vllm:request_prompt_tokens_bucket{le="+Inf"} 200.0
vllm:request_prompt_tokens_sum 40000.0
"""


@given(st.lists(st.integers(1, 5_000), min_size=1, max_size=200))
def test_lengths_drawn_from_an_exact_distribution_are_it_again(tokens: list[int]) -> None:
    known = np.array(tokens, np.int64)
    lengths = lengths_of(known)
    assert lengths is not None

    drawn = drawn_lengths(lengths, len(tokens))

    assert drawn.tolist() == sorted(tokens)


def test_a_metrics_page_tells_lengths_and_of_how_many_requests() -> None:
    found = profile_of_page(_PAGE)

    assert found is not None
    profile, requests = found
    assert requests == 200
    assert profile.output is None
    assert profile.prompt is not None
    drawn = drawn_lengths(profile.prompt, 200)
    assert (drawn <= 100).sum() == 150
    assert (drawn <= 1000).sum() == 200, "nothing tells how far beyond its last edge a histogram goes"


def test_too_few_requests_are_no_profile(tmp_path: Path) -> None:
    path = tmp_path / "page.txt"
    path.write_text("\n".join(line.replace("0.0", ".0") if line[0] != "#" else line for line in _PAGE.splitlines()))

    with pytest.raises(DeclarationError, match="fewer than 100"):
        recorded_from(path)


@given(st.lists(st.tuples(st.integers(1, 2_000), st.integers(1, 500)), min_size=1, max_size=30))
def test_made_up_prompts_have_the_recorded_lengths_and_begin_differently(pairs: list[tuple[int, int]]) -> None:
    prompt, output = np.array(pairs, np.int64).T

    lines = prompts_of_lengths("chat", prompt, output, seed=1, where="trace")

    assert [len(str(one.content).split()) for one in lines] == prompt.tolist()
    assert [one.max_tokens for one in lines] == output.tolist()
    assert len({str(one.content).split()[0] for one in lines}) == len(lines)


@pytest.mark.parametrize(("words", "far"), [(300, True), pytest.param(30, False, marks=pytest.mark.live_measuring)])
def test_a_load_far_from_the_recorded_one_says_so_beside_the_rate(
    command: Command, tmp_path: Path, words: int, far: bool
) -> None:
    log, requests = tmp_path / "log.jsonl", tmp_path / "requests.jsonl"
    rng = np.random.default_rng(1)
    at_s = np.cumsum(rng.exponential(0.5, 800)).tolist()
    log.write_text("".join(json.dumps({"at_s": one, "prompt_tokens": 30, "output_tokens": 4}) + "\n" for one in at_s))
    row = json.dumps({"prompt": " ".join(["word"] * words), "max_tokens": 4}) + "\n"
    requests.write_text(row)

    with running_double(engine=EngineSettings(slots=64, step_s=0.002)) as server:
        done = command(
            *("measure", "--url", server.url, "--model", "double", "--objective", "ttft p95 20s", "--max-rate", "400"),
            *("--level", "quick", "--requests", str(requests), "--profile", str(log), "--apply", "-o", "json"),
        )

    found = done.document["representative"]
    assert found["prompt_distance"] == (1.0 if far else 0.0)
    assert found["output_distance"] == 0.0
    assert [one for one in found["far"] if "prompt" in one] == (
        ["prompt lengths differ from the service's by 100%"] if far else []
    )
    assert not [one for one in done.document["gaps"] if "not compared" in one["reason"]]


_START_MS = parse_instant("2026-11-10T00:00:00Z")
_TIMES = range(_START_MS, _START_MS + 2 * HOUR_MS, MINUTE_MS)
_POD = {"namespace": "support", "pod": "chat-0", "model_name": "m", "job": "vllm", "instance": "192.0.2.7:8000"}
_RPS = 2.0


def counted(name: str, share: float = 1.0, **labels: str) -> Series:
    """A counter of two requests a second, or of a share of them."""
    counts = [(at_ms, _RPS * share * (at_ms - _START_MS) / 1000) for at_ms in _TIMES]
    return series({"__name__": f"vllm:{name}", **_POD, **labels}, counts)


@pytest.fixture
def collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands where two hours of a declared service were collected: nine prompts of ten have up to 100 tokens."""
    isolate(tmp_path, monkeypatch)
    run = Command(tmp_path, capsys)
    lengths = [counted("request_prompt_tokens_bucket", share, le=le) for le, share in (("100.0", 0.9), ("+Inf", 1.0))]
    with serving([*node(_TIMES), counted("request_success_total", finished_reason="stop"), *lengths]) as url:
        (tmp_path / "gpuyield.yaml").write_text(
            "apiVersion: gpuyield.dev/v1alpha1\n"
            "kind: Cluster\n"
            "metadata: {name: c}\n"
            f"sources: {{prometheus: {{url: '{url}'}}}}\n"
            "services: [{name: chat, selector: {namespace: support}, endpoint: 'http://127.0.0.1:9/v1', model: m}]\n"
        )
        done = run("collect", "--from", "2026-11-10T00:00:00Z", "--to", "2026-11-10T02:00:00Z", "--quiet")
    assert done.code == 0, done.err
    return run


def profile_in_ledger(folder: Path) -> Recorded:
    """What `--profile ledger` takes from it."""
    file, root = folder / "gpuyield.yaml", folder / ".gpuyield"
    question = Question(service="chat", objectives=("ttft p95 1s",), profile="ledger")
    found = recorded_of(question, read_question(question, load_declaration(file)), file=file, ledger_root=root)
    assert found is not None
    return found


def test_a_ledger_of_counters_tells_rate_and_lengths_and_no_bursts(collected: Command) -> None:
    found = profile_in_ledger(collected.folder)

    assert (found.source, found.requests) == ("the ledger", None)
    assert found.profile.peak_rps == pytest.approx(_RPS, rel=0.02)
    assert found.profile.prompt is not None
    assert found.profile.prompt.at_most[0] == 100.0
    assert found.profile.prompt.share[0] == pytest.approx(0.9)
    assert (found.profile.output, found.profile.dispersion) == (None, None)


def test_a_ledger_with_outcomes_of_the_service_tells_each_request(collected: Command) -> None:
    rows = [
        {
            "outcome_id": f"{service} {day} {number}",
            "kind": "request",
            "started_at": format_instant(_START_MS + day * DAY_MS + number * 10_000),
            "ended_at": format_instant(_START_MS + day * DAY_MS + number * 10_000 + 1_000),
            "exec_status": "succeeded",
            "service": service,
            "input_tokens": tokens,
            "output_tokens": 7,
        }
        for service, day, tokens in (("chat", 0, 30), ("search", 0, 900), ("chat", -1, 500))
        for number in range(400)
    ]
    path = collected.folder / "outcomes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert collected("outcomes", "import", str(path)).code == 0

    found = profile_in_ledger(collected.folder)

    assert found.requests == 400
    assert found.profile.peak_rps == pytest.approx(_RPS, rel=0.02)
    assert found.profile.prompt == lengths_of(np.full(400, 30))
    assert found.profile.output == lengths_of(np.full(400, 7))
    assert found.profile.dispersion == 0.0
