"""The cases of CASES.md, as far as reading decides them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest

from collect.conftest import Collector
from doubles.exposition_text import series, steady
from doubles.small_cluster import card, node, pod
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SERIES
from gpuyield.units import HOUR_MS, MINUTE_MS, Window, parse_instant

START_MS = parse_instant("2026-11-10T08:00:00Z")
TIMES = range(START_MS, START_MS + HOUR_MS, MINUTE_MS)
WINDOW = Window(START_MS, START_MS + HOUR_MS)


def table(ledger: Ledger, name: str, *columns: str) -> list[tuple[object, ...]]:
    found = ledger.read(SERIES if name == "series" else RUNS, columns=list(columns))
    return sorted(zip(*(found[column].tolist() for column in columns), strict=True))


def runs_of(ledger: Ledger, kind: str, *columns: str) -> list[tuple[object, ...]]:
    return [row[1:] for row in table(ledger, "runs", "kind", *columns) if row[0] == kind]


def values(ledger: Ledger) -> list[float]:
    samples = ledger.read(SAMPLES)
    return [float(one) for one in samples["value"]]


def steadily(value: float, times: Sequence[int] = TIMES) -> list[tuple[int, float]]:
    return [(at, value) for at in times]


def test_case_2_copies_for_each_pod_stay_apart_with_their_slot(ledger: Ledger, collected: Collector) -> None:
    made = [card(steadily(80), vgpu=str(at), pod=f"p{at + 1}", namespace="team-a") for at in range(4)]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert table(ledger, "series", "card", "vgpu", "pod") == [("GPU-1", str(at), f"p{at + 1}") for at in range(4)]


def test_case_4_instances_are_told_from_their_card(ledger: Ledger, collected: Collector) -> None:
    name = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
    made = [
        card(steadily(0)),
        steady(name, 0.9, TIMES, UUID="GPU-1", gpu="0", GPU_I_PROFILE="3g.40gb", GPU_I_ID="1", pod="a", namespace="x"),
        steady(name, 0.5, TIMES, UUID="GPU-1", gpu="0", GPU_I_PROFILE="1g.10gb", GPU_I_ID="7", pod="b", namespace="x"),
        steady(name, 0.0, TIMES, UUID="GPU-1", gpu="0", GPU_I_PROFILE="1g.10gb", GPU_I_ID="8"),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert table(ledger, "series", "metric", "instance", "profile", "pod") == [
        ("gpu_util", "", "", ""),
        ("gr_engine_active", "1", "3g.40gb", "a"),
        ("gr_engine_active", "7", "1g.10gb", "b"),
        ("gr_engine_active", "8", "1g.10gb", ""),
    ]


def test_case_5_mig_resources_and_the_count_of_cards_are_read(ledger: Ledger, collected: Collector) -> None:
    def capacity(resource: str, count: int) -> Series:
        return steady("kube_node_status_capacity", count, TIMES, node="node-a", resource=resource, unit="integer")

    made = [
        capacity("nvidia_com_gpu", 0),
        capacity("nvidia_com_mig_1g_10gb", 7),
        capacity("nvidia_com_mig_3g_40gb", 2),
        capacity("nvidia_com_gpumem", 80),
        capacity("cpu", 64),
        steady(
            "kube_node_labels",
            1,
            TIMES,
            node="node-a",
            label_nvidia_com_gpu_count="2",
            label_nvidia_com_gpu_product="NVIDIA-A100-SXM4-80GB",
        ),
        *pod(TIMES, uid="u-9"),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "node_capacity", "resource", "value") == [
        ("nvidia_com_gpu", 0.0),
        ("nvidia_com_mig_1g_10gb", 7.0),
        ("nvidia_com_mig_3g_40gb", 2.0),
    ]
    assert runs_of(ledger, "node_label", "detail", "text") == [
        ("gpu.count", "2"),
        ("gpu.product", "NVIDIA-A100-SXM4-80GB"),
    ]


def exporter_pods(middle: int) -> list[Series]:
    before, after = TIMES[:middle], TIMES[middle:]
    return [
        card(steadily(95, before), uuid="GPU-1", gpu="0", Hostname="dcgm-exporter-aaaaa"),
        card(steadily(5, before), uuid="GPU-2", gpu="1", Hostname="dcgm-exporter-aaaaa"),
        series(
            {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "1", "UUID": "GPU-1", "hostname": "dcgm-exporter-bbbbb"},
            steadily(95, after),
        ),
        series(
            {"__name__": "DCGM_FI_DEV_GPU_UTIL", "gpu": "0", "UUID": "GPU-2", "hostname": "dcgm-exporter-bbbbb"},
            steadily(5, after),
        ),
    ]


def test_case_6_the_exporters_pod_is_resolved_to_its_node(ledger: Ledger, collected: Collector) -> None:
    where = {"namespace": "gpu-operator", "node": "node-a"}
    made = [
        *node(TIMES),
        *exporter_pods(30),
        steady("kube_pod_info", 1, TIMES[:30], pod="dcgm-exporter-aaaaa", uid="e1", **where),
        steady("kube_pod_info", 1, TIMES[30:], pod="dcgm-exporter-bbbbb", uid="e2", **where),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert set(table(ledger, "series", "card", "node")) == {("GPU-1", "node-a"), ("GPU-2", "node-a")}
    assert sorted(values(ledger)) == [0.05] * 60 + [0.95] * 60


@pytest.mark.parametrize("with_nodes", [True, False])
def test_case_6_without_pod_info_the_node_is_unknown(with_nodes: bool, ledger: Ledger, collected: Collector) -> None:
    with serving([*(node(TIMES) if with_nodes else []), *exporter_pods(30)]) as url:
        report = collected(url, ledger, WINDOW)

    assert set(table(ledger, "series", "node")) == {("",)}
    assert any("the node of cards is not known" in gap.reason for gap in report.gaps)


def test_case_7_the_exporters_own_pod_is_never_a_workload(ledger: Ledger, collected: Collector) -> None:
    target = {"namespace": "monitoring", "pod": "dcgm-exporter-aaaaa", "job": "dcgm", "instance": "192.0.2.1:9400"}
    made = [
        card(steadily(90), **target, exported_namespace="team-a", exported_pod="train-0"),
        card(steadily(0), **target, uuid="GPU-2"),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert table(ledger, "series", "card", "namespace", "pod") == [("GPU-1", "team-a", "train-0"), ("GPU-2", "", "")]


def test_case_7_a_target_that_renames_one_series_renames_all(ledger: Ledger, collected: Collector) -> None:
    """An exporter whose pod has a name that gives nothing away."""
    target = {"namespace": "monitoring", "pod": "metrics-aaaaa", "job": "gpu", "instance": "192.0.2.1:9400"}
    made = [
        card(steadily(90), **target, exported_namespace="team-a", exported_pod="train-0"),
        card(steadily(0), **target, uuid="GPU-2"),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert table(ledger, "series", "card", "pod") == [("GPU-1", "train-0"), ("GPU-2", "")]


def test_case_7_with_honoured_labels_the_answer_is_the_same(ledger: Ledger, collected: Collector) -> None:
    with serving([card(steadily(90), namespace="team-a", pod="train-0", container="main")]) as url:
        collected(url, ledger, WINDOW)

    assert table(ledger, "series", "namespace", "pod", "container") == [("team-a", "train-0", "main")]


@pytest.mark.parametrize(
    ("name", "printed", "kept"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", (40, 42, 4294967295, 38), (0.4, 0.42, math.nan, 0.38)),
        ("DCGM_FI_DEV_GPU_UTIL", (100, -1, 0, 9223372036854775794), (1.0, math.nan, 0.0, math.nan)),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", (0.9, 1.9, 0.9, 140737488355328), (0.9, math.nan, 0.9, math.nan)),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", (math.nan, math.inf, 0.5, -math.inf), (math.nan, math.nan, 0.5, math.nan)),
    ],
)
def test_case_9_what_cannot_be_true_is_kept_as_not_a_number(
    name: str, printed: tuple[float, ...], kept: tuple[float, ...], ledger: Ledger, collected: Collector
) -> None:
    samples = list(zip(TIMES, printed, strict=False))
    with serving([series({"__name__": name, "UUID": "GPU-1", "gpu": "0", "Hostname": "node-a"}, samples)]) as url:
        report = collected(url, ledger, WINDOW)

    assert values(ledger) == pytest.approx(list(kept), nan_ok=True)
    assert any(gap.where == "GPU-1" and "cannot be true" in gap.reason for gap in report.gaps)


def test_case_11_phases_of_finished_pods_are_read_with_their_requests(ledger: Ledger, collected: Collector) -> None:
    its = {"namespace": "n", "pod": "c", "uid": "u-c"}
    made = [
        *pod(TIMES),
        steady("kube_pod_container_resource_requests", 2, TIMES, **its, resource="nvidia_com_gpu", node="node-a"),
        series(
            {"__name__": "kube_pod_status_phase", "phase": "Running", **its}, [(at, at < TIMES[20]) for at in TIMES]
        ),
        series(
            {"__name__": "kube_pod_status_phase", "phase": "Succeeded", **its}, [(at, at >= TIMES[20]) for at in TIMES]
        ),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    phases = [
        row for row in runs_of(ledger, "pod_phase", "uid", "detail", "value", "from_ms", "to_ms") if row[0] == "u-c"
    ]
    assert phases == [
        ("u-c", "Running", 0.0, TIMES[20], TIMES[-1]),
        ("u-c", "Running", 1.0, TIMES[0], TIMES[19]),
        ("u-c", "Succeeded", 0.0, TIMES[0], TIMES[19]),
        ("u-c", "Succeeded", 1.0, TIMES[20], TIMES[-1]),
    ]


def test_case_12_a_pod_that_was_never_placed_has_no_node(ledger: Ledger, collected: Collector) -> None:
    made = [
        steady(
            "kube_pod_container_resource_requests",
            64,
            TIMES,
            namespace="n",
            pod="big",
            uid="u",
            resource="nvidia_com_gpu",
        ),
        *node(TIMES),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_request", "pod", "node", "value") == [("big", "", 64.0)]


@pytest.mark.parametrize(("policy", "told"), [("Always", [("init", 1.0)]), ("", [])])
def test_case_13_a_sidecar_is_told_only_where_a_series_names_its_policy(
    policy: str, told: list[tuple[str, float]], ledger: Ledger, collected: Collector
) -> None:
    its = {"namespace": "team-a", "pod": "train-0", "uid": "u-1", "container": "init"}
    extra = {"restart_policy": policy} if policy else {}
    made = [
        *pod(TIMES),
        steady("kube_pod_init_container_resource_requests", 1, TIMES, **its, resource="nvidia_com_gpu", node="node-a"),
        steady("kube_pod_init_container_info", 1, TIMES, **its, **extra),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_init_request", "container", "value") == [("init", 1.0)]
    assert runs_of(ledger, "pod_sidecar", "container", "value") == told


@pytest.mark.parametrize("offset_ms", [0, 20_000])
def test_case_14_two_exporters_of_one_pod_are_one_run(offset_ms: int, ledger: Ledger, collected: Collector) -> None:
    later = range(START_MS + offset_ms, START_MS + HOUR_MS, MINUTE_MS)
    made = [
        *(one for one in pod(TIMES, job="ksm", instance="192.0.2.1:8080")),
        *(one for one in pod(later, job="service-endpoints", instance="192.0.2.2:8080")),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_request", "uid", "value", "from_ms", "to_ms") == [("u-1", 1.0, START_MS, later[-1])]
    assert runs_of(ledger, "pod_owner", "detail", "text") == [("Job", "train")]


def test_case_14_one_card_scraped_by_two_jobs_is_one_series(ledger: Ledger, collected: Collector) -> None:
    made = [card(steadily(50), job=job, instance=job) for job in ("dcgm", "kubernetes-pods")]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert values(ledger) == [0.5] * 60


def test_case_14_two_pods_of_one_name_are_two(ledger: Ledger, collected: Collector) -> None:
    with serving([*pod(TIMES[:20], uid="u-1"), *pod(TIMES[30:], uid="u-2")]) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_request", "uid", "from_ms", "to_ms") == [
        ("u-1", TIMES[0], TIMES[19]),
        ("u-2", TIMES[30], TIMES[-1]),
    ]


def test_labels_of_pods_have_their_names_in_kubernetes_where_they_are_known(
    ledger: Ledger, collected: Collector
) -> None:
    with serving(pod(TIMES)) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_label", "detail", "text") == [
        ("gpuyield.dev/deadline", "within 8h"),
        ("team", "red"),
    ]


def test_the_deployment_above_a_replica_set_is_the_owner(ledger: Ledger, collected: Collector) -> None:
    its = {"namespace": "team-a", "pod": "chat-1", "uid": "u-7"}
    made = [
        steady("kube_pod_container_resource_requests", 1, TIMES, **its, resource="nvidia_com_gpu", node="node-a"),
        steady("kube_pod_owner", 1, TIMES, **its, owner_kind="ReplicaSet", owner_name="chat-5d5f"),
        steady(
            "kube_replicaset_owner",
            1,
            TIMES,
            namespace="team-a",
            replicaset="chat-5d5f",
            owner_kind="Deployment",
            owner_name="chat",
        ),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_owner", "detail", "text") == [("Deployment", "chat")]


def test_jobs_that_own_pods_with_devices_are_read_and_no_others(ledger: Ledger, collected: Collector) -> None:
    def job(name: str, namespace: str = "team-a") -> list[Series]:
        its = {"namespace": namespace, "job_name": name}
        return [
            steady("kube_job_created", 1_794_000_000, TIMES, **its),
            steady("kube_job_status_start_time", 1_794_000_060, TIMES, **its),
            steady("kube_job_owner", 1, TIMES, **its, owner_kind="CronJob", owner_name="nightly"),
            steady("kube_job_annotations", 1, TIMES, **its, annotation_gpuyield_dev_deadline="06:00 Europe/Berlin"),
            steady("kube_job_status_suspended", 0, TIMES, **its),
        ]

    with serving([*pod(TIMES), *job("train"), *job("other"), *job("train", "team-b")]) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "job_created", "namespace", "pod", "value") == [("team-a", "train", 1_794_000_000_000.0)]
    assert runs_of(ledger, "job_started", "pod", "value") == [("train", 1_794_000_060_000.0)]
    assert runs_of(ledger, "job_owner", "detail", "text") == [("CronJob", "nightly")]
    assert runs_of(ledger, "job_suspended", "pod", "value") == [("train", 0.0)]
    assert runs_of(ledger, "job_label", "detail", "text") == [("gpuyield.dev/deadline", "06:00 Europe/Berlin")]


def test_labels_that_the_scrape_renamed_are_understood(ledger: Ledger, collected: Collector) -> None:
    """kube-state-metrics scraped without honoured labels: its own pod shadows the one it speaks of."""
    target = {"namespace": "monitoring", "pod": "kube-state-metrics-0", "container": "ksm", "uid": "u-1"}
    its = {"exported_namespace": "team-a", "exported_pod": "train-0", "exported_container": "main"}
    made = [
        steady("kube_pod_container_resource_requests", 1, TIMES, **target, **its, resource="nvidia_com_gpu", node="n"),
        steady("kube_pod_status_phase", 1, TIMES, **target, **its, phase="Running"),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "pod_request", "namespace", "pod", "container") == [("team-a", "train-0", "main")]
    assert runs_of(ledger, "pod_phase", "namespace", "pod", "detail") == [("team-a", "train-0", "Running")]


def test_a_change_and_a_gap_break_a_run(ledger: Ledger, collected: Collector) -> None:
    times = [*TIMES[:10], *TIMES[20:]]
    cordoned = [(at, float(at >= TIMES[30])) for at in times]
    made = [
        *(one for one in node(times) if one.labels["__name__"] != "kube_node_spec_unschedulable"),
        series({"__name__": "kube_node_spec_unschedulable", "node": "node-a"}, cordoned),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert runs_of(ledger, "node_cordoned", "value", "from_ms", "to_ms", "interval_ms") == [
        (0.0, TIMES[0], TIMES[9], 60_000),
        (0.0, TIMES[20], TIMES[29], 60_000),
        (1.0, TIMES[30], TIMES[-1], 60_000),
    ]


def test_nodes_that_the_scrape_renamed_are_understood(ledger: Ledger, collected: Collector) -> None:
    made = [steady(one.labels["__name__"], float(one.values[0]), TIMES, **_renamed(one.labels)) for one in node(TIMES)]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert set(table(ledger, "runs", "kind", "node")) == {
        (kind, "node-a") for kind in ("node_capacity", "node_allocatable", "node_ready", "node_cordoned")
    }


def _renamed(labels: Mapping[str, str]) -> dict[str, str]:
    own = {name: text for name, text in labels.items() if name not in ("__name__", "node")}
    return {**own, "node": "where-the-exporter-runs", "exported_node": labels["node"]}
