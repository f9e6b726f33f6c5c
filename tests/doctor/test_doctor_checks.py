"""What doctor finds, what each missing metric costs, and when it ends with 3."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from doubles.answers import answering
from doubles.api_server import MadeService, api_server, kubeconfig
from doubles.command import Command, Ended
from doubles.exposition_text import steady
from doubles.late_clock import late_clock
from doubles.seen_cluster import twice, whole_cluster, without, without_labels
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.steps.needs import NEEDS, Need
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS

NOW_MS = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS


def cluster(hours: int = 5, step_ms: int = MINUTE_MS, ended_ms: int = NOW_MS) -> list[Series]:
    times = range(ended_ms - hours * HOUR_MS, ended_ms, step_ms)
    return whole_cluster(times, range(ended_ms - 4 * HOUR_MS, ended_ms - 2 * HOUR_MS, step_ms))


def declare(folder: Path, url: str, more: str = "") -> None:
    (folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: here}\n"
        f"sources:\n  prometheus: {{url: '{url}'}}\n{more}"
    )


def asked(command: Command, made: Sequence[Series], more: str = "", *, collect: str | None = None) -> Ended:
    """What doctor says in JSON about a store with these series."""
    with serving(made) as url:
        declare(command.folder, url, more)
        if collect:
            assert command("collect", "--window", collect).code == 0
        return command("doctor", "-o", "json")


def check(done: Ended, what: str) -> dict[str, Any]:
    found = [one for one in done.document["checks"] if one["what"] == what]
    assert len(found) == 1, [one["what"] for one in done.document["checks"]]
    assert isinstance(found[0], dict)
    return found[0]


def test_every_kind_of_fact_is_listed_with_the_metrics_that_tell_it(command: Command) -> None:
    done = asked(command, cluster())

    assert done.code == 0
    assert done.document["schema"] == "gpuyield/doctor/v1alpha1"
    states = {one.what: check(done, one.what)["state"] for one in NEEDS}
    assert set(states.values()) == {"ok"}
    assert check(done, "activity")["names"] == ["DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"]
    names = done.document["prometheus"]["names"]
    assert names["gpu_util"] == ["DCGM_FI_DEV_GPU_UTIL"]
    assert names["pod_request"] == ["kube_pod_container_resource_requests"]
    assert names["node_capacity"] == ["kube_node_status_capacity"]


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.what)
def test_each_missing_metric_says_what_becomes_unknown_and_how_to_mend_it(command: Command, need: Need) -> None:
    done = asked(command, without(cluster(), *need.metrics))

    found = check(done, need.what)
    assert done.code == 0
    assert found["state"] == "missing"
    assert any(
        word in found["cost"] for word in ("unknown", "bounded", "unobserved", "count as", "alone", "taken from")
    )
    assert found["fix"].endswith(".")
    assert found["found"].startswith("none of ")


def test_labels_that_kube_state_metrics_may_not_print_are_missing_although_their_metric_is_there(
    command: Command,
) -> None:
    made = without_labels(cluster(), "kube_pod_labels", "label_team", "label_app", "label_job")

    done = asked(command, made)

    assert "--metric-labels-allowlist=pods=" in check(done, "labels of pods")["fix"]


def test_utilisation_alone_is_the_last_resort(command: Command) -> None:
    done = asked(command, without(cluster(), "DCGM_FI_PROF_GR_ENGINE_ACTIVE"))

    found = check(done, "activity, best kind")
    assert found["state"] == "missing"
    assert "busy is an upper bound" in found["cost"]


def test_activity_without_pod_labels_is_named(command: Command) -> None:
    done = asked(command, without_labels(cluster(), "DCGM_", "pod", "namespace"))

    assert check(done, "pod labels on activity")["cost"] == (
        "DCGM samples carry no pod label, so busy time cannot be given to teams. Cluster totals are still shown."
    )
    assert check(done, "pod labels on activity")["fix"] == "Set DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter."


@pytest.mark.parametrize(
    ("metric", "what"),
    [
        ("kube_node_status_capacity", "copies of kube-state-metrics"),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "copies of GPU exporter"),
    ],
)
def test_exporters_that_are_scraped_twice_are_named(command: Command, metric: str, what: str) -> None:
    done = asked(command, twice(cluster(), metric))

    found = check(done, what)
    assert (found["state"], found["found"]) == ("doubtful", "each fact is told 2 times")


def test_the_distance_of_samples_is_told(command: Command) -> None:
    done = asked(command, cluster())

    assert [(one["exporter"], one["interval_s"]) for one in done.document["prometheus"]["scrapes"]] == [
        ("kube-state-metrics", 60),
        ("GPU exporter", 60),
    ]


def test_samples_further_apart_than_the_gap_limit_are_doubtful(command: Command) -> None:
    done = asked(command, cluster(), "rules: {gap_limit: 30s}\n")

    found = check(done, "samples of kube-state-metrics")
    assert found["state"] == "doubtful"
    assert "further apart than gap_limit (30s)" in found["cost"]


def test_a_store_that_stopped_is_doubtful_with_its_age(command: Command) -> None:
    done = asked(command, cluster(ended_ms=NOW_MS - 2 * DAY_MS))

    found = check(done, "Prometheus")
    assert found["state"] == "doubtful"
    assert "newest sample 2 d old" in found["found"]


def test_a_short_history_says_from_when_a_full_one_is_possible(command: Command) -> None:
    done = asked(command, cluster())

    assert check(done, "history")["state"] == "doubtful"
    assert check(done, "history")["fix"].startswith("Collect daily: 14 d are possible from ")


def test_a_clock_that_is_off_is_named(command: Command) -> None:
    with serving(cluster()) as url, answering(late_clock(url, behind_ms=90_000)) as talk:
        declare(command.folder, talk.url)
        done = command("doctor", "-o", "json")

    found = check(done, "clock")
    assert found["state"] == "doubtful"
    assert "behind this machine" in found["found"]
    assert -93 <= done.document["prometheus"]["clock_ahead_s"] <= -87


def test_an_empty_store_is_an_answer_and_not_a_failure(command: Command) -> None:
    done = asked(command, [steady("up", 1, range(NOW_MS - HOUR_MS, NOW_MS, MINUTE_MS))])

    assert done.code == 0
    assert "nothing about GPUs in it" in check(done, "Prometheus")["found"]


def test_without_a_declaration_doctor_says_where_to_begin(command: Command) -> None:
    done = command("doctor")

    assert done.code == 0
    assert "Prometheus: Nothing can be collected. Run gpuyield init." in done.out


def test_out_of_reach_is_exit_3_and_the_rest_is_still_told(command: Command) -> None:
    declare(command.folder, "http://127.0.0.1:1")

    done, as_json = command("doctor"), command("doctor", "-o", "json")

    assert done.code == as_json.code == 3
    assert done.err == (
        "sources.prometheus: Cannot reach Prometheus at http://127.0.0.1:1 (connection refused). Is a port-forward"
        " running? To read it through the API server, write sources.prometheus:"
        " {service: monitoring/prometheus-operated:9090}.\n"
    )
    assert "1 source out of reach: Prometheus." in done.out
    assert "ledger" in done.out
    assert as_json.document["schema"] == "gpuyield/error/v1alpha1"
    assert [one["where"] for one in as_json.document["errors"]] == ["sources.prometheus"]


def test_services_and_jobs_without_a_promise_are_named_with_their_share(command: Command) -> None:
    done = asked(command, cluster(), collect="1d")

    # The service held 5 hours (less what was not yet collected), the job 2.
    work = {one["name"]: one for one in done.document["undeclared"]}
    assert set(work) == {"support/chat", "evals/nightly"}
    assert work["support/chat"]["lacks"] == "an objective"
    assert (work["evals/nightly"]["lacks"], work["evals/nightly"]["jobs"]) == ("a deadline", 1)
    assert work["evals/nightly"]["gpu_h"] == pytest.approx(2)
    assert work["support/chat"]["gpu_h"] == pytest.approx(5, abs=0.1)
    assert sum(one["share"] for one in work.values()) == pytest.approx(1)
    assert done.document["declared_share"] == 0
    assert "1 service without" in check(done, "objectives")["found"]
    assert "1 job without" in check(done, "deadlines")["found"]


def test_what_is_declared_counts_and_is_no_longer_listed(command: Command) -> None:
    declared = """
services:
  - name: chat
    selector: {namespace: support, labels: {app: chat}}
    objectives: [{name: ttft, metric: ttft, at_most: 800ms, share: 0.95}]
"""
    done = asked(command, cluster(), declared, collect="1d")

    assert [one["name"] for one in done.document["undeclared"]] == ["evals/nightly"]
    assert check(done, "objectives")["state"] == "ok"
    share = done.document["declared_share"] + done.document["undeclared"][0]["share"]
    assert share == pytest.approx(1)


def test_the_ledger_is_told_with_its_span_and_age(command: Command) -> None:
    done = asked(command, cluster(ended_ms=NOW_MS - 3 * DAY_MS), collect="5d")

    found = check(done, "ledger")
    assert found["state"] == "doubtful"
    assert found["found"] == "5 h, up to 3 d ago"


def test_the_cluster_that_is_declared_is_asked_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    services = [MadeService(place="kube-system/kube-dns:53")]
    with answering(api_server(services, queues=["batch"], forbidden=["clusterqueues"])) as talk:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
        done = asked(command, cluster(), "  kubernetes: {context: prod-gpu}\n")

    found = check(done, "Kubernetes")
    assert done.code == 0
    assert (found["state"], found["found"]) == ("missing", "context prod-gpu, Kueue v1beta2")
    assert found["cost"].startswith("Context prod-gpu may not list clusterqueues.kueue.x-k8s.io (403).")


def test_the_screen_says_what_each_gap_costs(command: Command) -> None:
    made = without(cluster(), "kube_pod_status_scheduled_time")
    with serving(made) as url:
        declare(command.folder, url)
        done = command("doctor")

    assert done.out.startswith("3 things missing: times of scheduling, ledger, prices")
    assert "times of scheduling: When a hold began is bounded to one scrape, not measured." in done.out
    assert "Next: gpuyield collect" in done.out
