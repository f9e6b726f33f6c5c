"""gpuyield services: collected counters against a measurement, and what is not known with its reason."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from doubles.command import Command, isolate
from doubles.exposition_text import series, steady
from doubles.small_cluster import node
from gpuyield.declare.yaml_file import load_declaration
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.ledger import Ledger
from gpuyield.steps.capacity import capacity_of, read_capacity, record_capacity
from gpuyield.steps.services import objectives_text
from gpuyield.units import DAY_MS, MINUTE_MS, parse_instant
from report.measured_sample import measured as measured_document

_START_MS = parse_instant("2026-11-10T00:00:00Z")
_TIMES = range(_START_MS, _START_MS + DAY_MS, MINUTE_MS)
_POD = {"namespace": "support", "pod": "chat-0", "model_name": "m", "job": "vllm", "instance": "192.0.2.7:8000"}
_OFTEN_RPS, _PEAK_RPS = 2.0, 8.0


def served() -> list[Series]:
    """A pod that gets two requests a second, and eight a second from ten to eleven."""
    made = []
    counts, total = [], 0.0
    for at in _TIMES:
        counts.append((at, total))
        busy = 10 <= (at - _START_MS) // 3_600_000 < 11
        total += 60 * (_PEAK_RPS if busy else _OFTEN_RPS)
    made.append(series({"__name__": "vllm:request_success_total", "finished_reason": "stop", **_POD}, counts))
    for edge, share in (("0.5", 0.9), ("1.0", 0.98), ("+Inf", 1.0)):
        named = {"__name__": "vllm:time_to_first_token_seconds_bucket", "le": edge, **_POD}
        made.append(series(named, [(at, count * share) for at, count in counts]))
    return made


def cluster() -> list[Series]:
    """A node, a pod of the service that holds a card which is busy for 92 % of the time."""
    its = {"namespace": "support", "pod": "chat-0", "uid": "u-chat"}
    request = {"container": "main", "node": "node-a", "resource": "nvidia_com_gpu", "unit": "integer"}
    card = {"gpu": "0", "UUID": "GPU-1", "Hostname": "node-a", "namespace": "support", "pod": "chat-0"}
    return [
        *node(_TIMES),
        steady("kube_pod_container_resource_requests", 1, _TIMES, **its, **request),
        steady("kube_pod_status_phase", 1, _TIMES, **its, phase="Running"),
        steady("kube_pod_created", _START_MS / 1000 - 9_000, _TIMES, **its),
        steady("kube_pod_owner", 1, _TIMES, **its, owner_kind="StatefulSet", owner_name="chat"),
        steady("kube_pod_labels", 1, _TIMES, **its, label_app="chat"),
        steady("kube_pod_info", 1, _TIMES, **its, node="node-a"),
        steady("DCGM_FI_DEV_GPU_UTIL", 92, _TIMES, **card),
    ]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Commands where a day of the cluster was collected."""
    isolate(tmp_path, monkeypatch)
    run = Command(tmp_path, capsys)
    with serving([*cluster(), *served()]) as url:
        declare(tmp_path, url)
        assert run("collect", "--from", "2026-11-10", "--to", "2026-11-11", "--quiet").code == 0
    return run


def declare(folder: Path, url: str) -> None:
    """One service with one objective."""
    (folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\n"
        "kind: Cluster\n"
        "metadata: {name: c}\n"
        f"sources: {{prometheus: {{url: '{url}'}}}}\n"
        "services:\n"
        "  - name: chat\n"
        "    selector: {namespace: support, labels: {app: chat}}\n"
        "    endpoint: 'http://127.0.0.1:9/v1'\n"
        "    model: m\n"
        "    team: support\n"
        "    objectives: [{name: ttft, metric: ttft, at_most: 800ms, share: 0.95}]\n"
    )


def remember(
    folder: Path, *, replicas: int | None = 1, expires: str = "2999-01-01T00:00:00Z", digest: str = "sha256:ab"
) -> None:
    """A measurement of the service against its declared objectives: 12.4 a second are certified."""
    document = measured_document(service="chat")
    document["result"] |= {"replicas": replicas, "expires_at": expires}
    document["config"]["digest"] = digest
    (service,) = load_declaration(folder / "gpuyield.yaml").services
    evidence = capacity_of(document, {"objectives": []})
    record_capacity(Ledger.existing(folder / ".gpuyield"), replace(evidence, objectives=objectives_text(service)))


def test_headroom_is_certified_less_the_peak_of_the_collected_requests(command: Command, tmp_path: Path) -> None:
    remember(tmp_path)

    done = command("services", "-o", "json")

    assert done.code == 0
    assert done.document["schema"] == "gpuyield/services/v1alpha1"
    (service,) = done.document["services"]
    assert service["demand"]["peak_rps"] == pytest.approx(_PEAK_RPS)
    assert service["replicas"] == 1
    assert service["headroom_rps"] == pytest.approx(12.4 - _PEAK_RPS)
    assert service["more_requests"] == pytest.approx(12.4 / _PEAK_RPS - 1)
    assert service["gpu_busy"] == pytest.approx(0.92, abs=0.001)
    assert service["capacity"]["expired"] is False


def test_the_sentence_of_busy_gpus_and_more_requests_stands_first(command: Command, tmp_path: Path) -> None:
    remember(tmp_path)

    done = command("services")

    assert "Headroom is known for 1 of 1 service." in done.out
    assert "chat: GPUs 92 % busy, 55 % more requests possible." in done.out


def test_objectives_are_kept_between_the_edges_of_the_histogram(command: Command) -> None:
    done = command("services", "-o", "json")

    (objective,) = done.document["services"][0]["objectives"]
    assert objective["attainment"]["lo"] == pytest.approx(0.9, abs=0.001)
    assert objective["attainment"]["hi"] == pytest.approx(0.98, abs=0.001)
    assert objective["hours_missed"] == {"lo": 0, "hi": 24}
    assert len(objective["hours"]) == 24


def test_never_measured_is_null_with_the_reason_and_the_next_command(command: Command) -> None:
    document, table = command("services", "-o", "json"), command("services")

    (service,) = document.document["services"]
    assert service["headroom_rps"] is None
    assert service["reason"].startswith("never measured")
    assert "chat: its headroom is not known. Never measured: gpuyield measure --service chat --apply." in table.out


def test_an_expired_measurement_is_shown_as_such_and_counts_for_nothing(command: Command, tmp_path: Path) -> None:
    remember(tmp_path, expires="2026-11-21T00:00:00Z")

    document, table = command("services", "-o", "json"), command("services")

    (service,) = document.document["services"]
    assert (service["headroom_rps"], service["capacity"]["expired"]) == (None, True)
    assert "its measurement has expired" in service["reason"]
    assert "expired" in table.out


def test_without_services_it_says_so(command: Command, tmp_path: Path) -> None:
    text = (tmp_path / "gpuyield.yaml").read_text()
    (tmp_path / "gpuyield.yaml").write_text(text[: text.index("services:")])

    done = command("services")

    assert (done.code, done.out.splitlines()[0]) == (0, "No service is declared.")


def test_collecting_again_changes_nothing(command: Command, tmp_path: Path) -> None:
    ledger = Ledger.existing(tmp_path / ".gpuyield")
    digest = ledger.digest()
    with serving([*cluster(), *served()]) as url:
        declare(tmp_path, url)
        assert command("collect", "--from", "2026-11-10", "--to", "2026-11-11", "--quiet").code == 0

    assert ledger.digest() == digest


@pytest.mark.parametrize(
    ("replicas", "expires", "measured"),
    [(1, "2999-01-01T00:00:00Z", True), (None, "2999-01-01T00:00:00Z", False), (1, "2026-11-10T12:00:00Z", False)],
)
def test_decide_rests_on_a_measurement_that_still_counts_and_on_no_other(
    command: Command, tmp_path: Path, replicas: int | None, expires: str, measured: bool
) -> None:
    remember(tmp_path, replicas=replicas, expires=expires)

    done = command("decide", "-o", "json")

    assert done.document["scope"]["services"] == ("measured" if measured else "held_at_observed")
    said = " ".join(gap["reason"] for gap in done.document["gaps"])
    assert ("Not measured: chat" in said) is not measured


def test_the_report_shows_services_with_their_curve_and_their_age(command: Command, tmp_path: Path) -> None:
    remember(tmp_path)
    ledger = Ledger.existing(tmp_path / ".gpuyield")
    (kept,) = read_capacity(ledger)
    path = ledger.document_path("measure", kept.inputs_digest)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(measured_document(service="chat")))

    done = command("report", "--out", "page.json", "--quiet")

    assert done.code == 0, done.err
    page = json.loads((tmp_path / "page.json").read_text())
    (section,) = [one for one in page["sections"] if one["id"] == "services"]
    said = " ".join(section["lead"])
    assert "chat: GPUs 92 % busy, 55 % more requests possible." in said
    assert "12.4 requests a second are certified, 15.2 are refuted." in said
    assert [one["id"] for one in section["charts"]] == ["service-0-kept-0"]
