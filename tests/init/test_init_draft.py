"""What init finds in a metrics store, and the draft that it writes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from doubles.command import Command
from doubles.exposition_text import steady
from doubles.seen_cluster import whole_cluster, without
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.steps.needs import NEEDS
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, parse_instant
from servers.session import Store

NOW_MS = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
TIMES = range(NOW_MS - 26 * HOUR_MS, NOW_MS, MINUTE_MS)
JOB_TIMES = range(NOW_MS - 6 * HOUR_MS, NOW_MS - 3 * HOUR_MS, MINUTE_MS)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(whole_cluster(TIMES, JOB_TIMES)) as found:
        yield found


def test_the_draft_says_what_was_seen_and_passes_check_as_it_is(command: Command, url: str) -> None:
    done = command("init", "--prometheus", url)
    checked = command("check")

    assert (done.code, checked.code) == (0, 0), (done.err, checked.out)
    written = yaml.safe_load(Path("gpuyield.yaml").read_text())
    assert written["sources"] == {"prometheus": {"url": url}}
    assert written["teams"] == {"label": "team"}
    assert [(one["name"], one["selector"], one["model"]) for one in written["services"]] == [
        ("chat", {"namespace": "support", "labels": {"app": "chat"}}, "llama-70b")
    ]
    assert [(one["name"], one["selector"], one["gpus"], one["flavors"]) for one in written["batch"]] == [
        ("nightly", {"namespace": "evals", "labels": {"job": "nightly"}}, 1, {"h100": {"duration": "3h"}})
    ]


def test_only_business_facts_are_asked_for(command: Command, url: str) -> None:
    command("init", "--prometheus", url)

    asked = [line for line in Path("gpuyield.yaml").read_text().splitlines() if line.lstrip().startswith("# >")]
    words = ("Currency", "outcomes", "GPU-hour costs", "bought", "Dates", "promises", "Until when")
    assert len(asked) == len(words)
    assert all(any(word in line for line in asked) for word in words)


def test_the_answer_names_open_work_with_its_share_of_gpu_hours(command: Command, url: str) -> None:
    done = command("init", "--prometheus", url, "-o", "json")

    document = done.document
    assert document["schema"] == "gpuyield/init/v1alpha1"
    assert document["gpus"] == {"h100": 3}
    assert document["cards_with_activity"] == 2
    assert document["pod_labels"] is True
    assert document["namespaces"] == ["evals", "support"]
    # Of one day the service held 24 GPU-hours, the job 3.
    assert [(one["name"], round(one["share"], 3)) for one in document["services"]] == [("chat", round(24 / 27, 3))]
    assert [(one["name"], round(one["share"], 3)) for one in document["batch"]] == [("nightly", round(3 / 27, 3))]
    assert document["services"][0]["engine"] == "vLLM"


def test_the_screen_ends_with_what_to_do_next(command: Command, url: str) -> None:
    done = command("init", "--prometheus", url)

    assert done.out.startswith("Wrote gpuyield.yaml: 1 service without objectives, 1 batch family without a deadline")
    assert "1 d 2 h of history" in done.out
    assert "pod labels present" in done.out
    assert "vLLM         1 service" in done.out
    assert "Next: gpuyield check" in done.out
    assert "gpuyield collect -f gpuyield.yaml --window 14d" in done.out


def test_a_file_that_is_there_is_never_overwritten(command: Command, url: str) -> None:
    Path("gpuyield.yaml").write_text("mine")

    done = command("init", "--prometheus", url)
    as_json = command("init", "--prometheus", url, "-o", "json")

    assert (done.code, Path("gpuyield.yaml").read_text()) == (2, "mine")
    assert done.err == "gpuyield.yaml: the file is there already. Name another with --out, or --force.\n"
    assert as_json.document["errors"][0]["fix"] == "Name another with --out, or --force."
    assert command("init", "--prometheus", url, "--out", "other.yaml").code == 0


def test_a_dash_prints_the_draft_and_writes_nothing(command: Command, url: str) -> None:
    done = command("init", "--prometheus", url, "--out", "-")

    assert yaml.safe_load(done.out)["kind"] == "Cluster"
    assert list(Path().glob("*.yaml")) == []


def test_the_environment_names_the_store_and_the_option_beats_it(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUYIELD_PROMETHEUS", url)

    named = command("init", "-o", "json")
    beaten = command("init", "--prometheus", "http://127.0.0.1:1", "--out", "other.yaml")

    assert named.document["prometheus"]["url"] == url
    assert beaten.code == 3
    assert beaten.err.startswith("--prometheus: Cannot reach Prometheus at http://127.0.0.1:1 (connection refused).")


def test_a_store_without_gpus_gives_a_draft_that_says_so(command: Command) -> None:
    with serving([steady("up", 1, TIMES)]) as empty:
        done = command("init", "--prometheus", empty)

    assert done.code == 0
    assert "nothing about GPUs in it" in done.out
    assert command("check").code == 0


def test_a_store_that_stopped_is_read_at_its_end_and_called_stale(command: Command) -> None:
    gone_ms = 40 * DAY_MS
    past = [range(one.start - gone_ms, one.stop - gone_ms, MINUTE_MS) for one in (TIMES, JOB_TIMES)]
    with serving(whole_cluster(*past)) as old:
        done = command("init", "--prometheus", old)

    assert "1 d 2 h of history, none of it from the last hour" in done.out
    assert "support/chat" in done.out


def test_real_servers_are_read_like_the_double(store: Store, command: Command) -> None:
    ended_ms = NOW_MS - 3 * DAY_MS
    past = [range(one.start - 3 * DAY_MS, one.stop - 3 * DAY_MS, MINUTE_MS) for one in (TIMES, JOB_TIMES)]
    real = store.holding(f"init-{ended_ms}", lambda: whole_cluster(*past))

    done = command("init", "--prometheus", real, "-o", "json")

    document = done.document
    assert document["gpus"] == {"h100": 3}
    assert [one["name"] for one in document["services"]] == ["chat"]
    assert [one["name"] for one in document["batch"]] == ["nightly"]
    assert parse_instant(document["history"]["from"]) == pytest.approx(past[0].start, abs=HOUR_MS)
    assert parse_instant(document["history"]["to"]) == pytest.approx(past[0].stop, abs=MINUTE_MS)
    assert command("check").code == 0
    seen = command("doctor", "-o", "json").document
    states = {one["what"]: one["state"] for one in seen["checks"]}
    assert {states[need.what] for need in NEEDS} == {"ok"}
    assert [one["interval_s"] for one in seen["prometheus"]["scrapes"]] == [60, 60]


def test_work_that_is_idle_is_no_service_and_is_named_with_its_share(command: Command) -> None:
    made = without(whole_cluster(TIMES, JOB_TIMES), "vllm:num_requests_running", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    idle = [
        Series(one.labels, one.times_ms, one.values * 0) if one.labels.get("pod", "").startswith("chat") else one
        for one in made
        if one.labels["__name__"] == "DCGM_FI_DEV_GPU_UTIL"
    ]
    with serving([*without(made, "DCGM_FI_DEV_GPU_UTIL"), *idle]) as quiet:
        done = command("init", "--prometheus", quiet)

    assert done.out.startswith("Wrote gpuyield.yaml: 0 services without objectives, 1 batch family")
    idle_row = next(line for line in done.out.splitlines() if "nothing: idle now" in line)
    assert "/chat" in idle_row
    # 24 of 27 GPU-hours.
    assert idle_row.endswith("88.9 %")
