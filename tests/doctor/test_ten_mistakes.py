"""The mistakes that everybody makes first, and what is said of each, in words and in JSON, with the exit code."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from doubles.answers import answering
from doubles.api_server import api_server, kubeconfig
from doubles.command import Command, Ended
from doubles.seen_cluster import whole_cluster, without, without_labels
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS

NOW_MS = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
HEAD = "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: here}\n"


def cluster(hours: int = 5, step_ms: int = MINUTE_MS) -> list[Series]:
    times = range(NOW_MS - hours * HOUR_MS, NOW_MS, step_ms)
    return whole_cluster(times, range(NOW_MS - 4 * HOUR_MS, NOW_MS - 2 * HOUR_MS, step_ms))


def declare(folder: Path, url: str = "http://127.0.0.1:1", more: str = "") -> None:
    (folder / "gpuyield.yaml").write_text(f"{HEAD}sources: {{prometheus: {{url: '{url}'}}}}\n{more}")


def reasons(done: Ended) -> list[str]:
    return [str(one["reason"]) for one in done.document["gaps"]]


@pytest.mark.parametrize("verb", [("collect",), ("doctor",)])
def test_1_prometheus_out_of_reach(command: Command, verb: tuple[str, ...]) -> None:
    declare(command.folder)

    done, as_json = command(*verb), command(*verb, "-o", "json")

    said = "Cannot reach Prometheus at http://127.0.0.1:1 (connection refused)."
    fix = (
        "Is a port-forward running? To read it through the API server, write sources.prometheus:"
        " {service: monitoring/prometheus-operated:9090}."
    )
    assert (done.code, as_json.code) == (3, 3)
    assert done.err == f"sources.prometheus: {said} {fix}\n"
    assert as_json.document["schema"] == "gpuyield/error/v1alpha1"
    assert as_json.document["exit_code"] == 3
    assert as_json.document["errors"] == [{"what": said, "where": "sources.prometheus", "fix": fix}]


def test_2_no_activity_metric(command: Command) -> None:
    made = without(cluster(), "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    with serving(made) as url:
        declare(command.folder, url)
        done, as_json = command("collect", "--window", "3h"), command("collect", "--window", "3h", "-o", "json")

    said = (
        "(looked for DCGM_FI_PROF_SM_ACTIVE, DCGM_FI_PROF_GR_ENGINE_ACTIVE, DCGM_FI_DEV_GPU_UTIL and their newer"
        " names). Allocated GPU time is shown, all of it unobserved. Install dcgm-exporter; gpuyield doctor says what"
        " each missing metric costs."
    )
    assert (done.code, as_json.code) == (0, 0)
    assert "No activity metric in the last " in done.out
    assert said in done.out
    assert any(said in one for one in reasons(as_json))


def test_3_no_pod_labels(command: Command) -> None:
    with serving(without_labels(cluster(), "DCGM_", "pod", "namespace")) as url:
        declare(command.folder, url)
        done, as_json = command("collect", "--window", "3h"), command("collect", "--window", "3h", "-o", "json")

    said = (
        "DCGM samples carry no pod label, so busy time cannot be given to teams. Set DCGM_EXPORTER_KUBERNETES=true on"
        " dcgm-exporter. Cluster totals are still shown."
    )
    assert (done.code, as_json.code) == (0, 0)
    assert said in done.out
    assert said in reasons(as_json)


def test_4_too_little_history(command: Command) -> None:
    with serving(cluster(hours=76, step_ms=5 * MINUTE_MS)) as url:
        declare(command.folder, url)
        done, as_json = command("collect", "--window", "14d"), command("collect", "--window", "14d", "-o", "json")

    said = "Asked for 14 d, Prometheus has 3 d 4 h. Using those; a weekly rhythm cannot be seen. Collect daily:"
    assert (done.code, as_json.code) == (0, 0)
    assert said in done.out
    assert any(one.startswith(said) for one in reasons(as_json))


def test_5_mistakes_of_a_declaration_come_all_at_once(command: Command) -> None:
    (command.folder / "gpuyield.yaml").write_text(
        f"{HEAD}sources: {{prometheus: {{url: 'http://127.0.0.1:9090'}}}}\n"
        "services:\n"
        "  - name: chat\n"
        "    selector: {namespace: support}\n"
        "    objectives:\n"
        "      - {name: ttft, metric: ttft, at_most: 800 msec, share: 0.95}\n"
        "      - {name: answered, metric: error, share: 95}\n"
        "    objetives: []\n"
    )

    done, as_json = command("check"), command("check", "-o", "json")

    assert (done.code, as_json.code) == (2, 2)
    assert done.out.splitlines() == [
        "3 mistakes",
        'gpuyield.yaml:9:45: "800 msec" is not a duration. Write 800ms or 0.8s.',
        "gpuyield.yaml:10:48: share 95 is above 1. Write 0.95.",
        'gpuyield.yaml:11:5: unknown key "objetives". Did you mean "objectives"?',
    ]
    assert [one["where"] for one in as_json.document["errors"]] == [
        "gpuyield.yaml:9:45",
        "gpuyield.yaml:10:48",
        "gpuyield.yaml:11:5",
    ]


def test_6_a_time_without_a_zone(command: Command) -> None:
    (command.folder / "jobs.yaml").write_text("- id: a\n  gpus: 2\n  duration_s: 3600\n  deadline: 2026-12-01 06:00\n")
    asked = ("plan", "--jobs", "jobs.yaml", "--gpus", "4", "--origin", "2026-11-30T21:00:00Z")

    done, as_json = command(*asked), command(*asked, "-o", "json")

    assert (done.code, as_json.code) == (2, 2)
    assert done.err == (
        'jobs.yaml:4:13: deadline "2026-12-01 06:00" has no time zone.'
        " Write 2026-12-01T06:00:00Z, or 06:00 Europe/Berlin.\n"
    )
    assert as_json.document["errors"][0]["where"] == "jobs.yaml:4:13"


def test_7_a_deadline_that_cannot_hold(command: Command) -> None:
    (command.folder / "jobs.json").write_text(
        json.dumps([{"id": "distill-7b", "gpus": 8, "duration_s": 46_800, "deadline": "2026-12-01T08:00:00Z"}])
    )
    asked = ("plan", "--jobs", "jobs.json", "--gpus", "8", "--origin", "2026-11-30T21:00:00Z")

    done, gated, as_json = command(*asked), command(*asked, "--gate"), command(*asked, "-o", "json")

    assert (done.code, gated.code, as_json.code) == (0, 10, 0)
    assert "distill-7b is impossible: it takes 13h, and 11h are left until its deadline" in done.out
    assert "It fits with one deadline 2h later: distill-7b." in done.out
    assert [one["status"] for one in as_json.document["jobs"]] == ["impossible"]
    assert "distill-7b is impossible" in as_json.document["explanation"][0]


def test_8_not_allowed(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(api_server(forbidden=["services"])) as talk:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
        asked = ("init", "--context", "prod-gpu")
        done, as_json = command(*asked), command(*asked, "-o", "json")

    assert (done.code, as_json.code) == (3, 3)
    assert done.err == (
        "Context prod-gpu may not list services (403). Missing: get, list, watch. The read-only role is in deploy/.\n"
    )
    assert as_json.document["errors"] == [
        {
            "what": "Context prod-gpu may not list services (403).",
            "where": "",
            "fix": "Missing: get, list, watch. The read-only role is in deploy/.",
        }
    ]


def test_9_a_command_of_a_later_version_is_named_as_such(command: Command) -> None:
    done, as_json = command("receipt", "--window", "4h"), command("receipt", "-o", "json")

    assert (done.code, as_json.code) == (2, 2)
    assert done.err.startswith("gpuyield receipt (promises and what came true) is not in this version.")
    assert as_json.document["errors"][0]["fix"] == "gpuyield --help lists what is."


def test_10_two_currencies_without_a_rate(command: Command) -> None:
    prices = (
        "currency: EUR\nprices: [{flavor: h100, gpu_hour: 2.5, currency: USD, basis: contracted, from: 2026-01-01}]\n"
    )
    with serving(cluster()) as url:
        declare(command.folder, url, prices)
        command("collect", "--window", "4h")
    done, as_json = command("cost"), command("cost", "-o", "json")

    assert (done.code, as_json.code) == (2, 2)
    assert "is in USD, the ledger is in EUR, and rates has no USD/EUR for " in done.err
    assert as_json.document["errors"][0]["fix"].startswith("Add {pair: USD/EUR, rate: ..., at: ")


def test_10_no_price_is_not_known_and_not_0(command: Command) -> None:
    with serving(cluster()) as url:
        declare(command.folder, url, "currency: EUR\n")
        command("collect", "--window", "4h")
    done, as_json = command("cost"), command("cost", "-o", "json")

    said = "No price for flavor h100: its cost is shown as not known, not as 0. Add it under prices."
    assert (done.code, as_json.code) == (0, 0)
    assert said in done.out
    assert said in reasons(as_json)


def test_a_window_in_which_nothing_was_collected_is_no_crash(command: Command) -> None:
    with serving(cluster()) as url:
        declare(command.folder, url)
        command("collect", "--window", "4h")

    begin = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime((NOW_MS - 30 * DAY_MS) / 1000))
    end = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime((NOW_MS - 29 * DAY_MS) / 1000))
    done = command("account", "--from", begin, "--to", end)

    assert done.code in (0, 2, 4)
    assert "gpuyield-crash" not in done.err
