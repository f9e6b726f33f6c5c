"""What exporters really print, collected through the whole path."""

from __future__ import annotations

from pathlib import Path

import pytest

from collect.conftest import Collector
from doubles.exposition_text import read_rows, scraped, series, steady
from doubles.small_cluster import node
from gpuyield.collect import names
from gpuyield.demo.api import serving
from gpuyield.demo.exposition import Series
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SERIES
from gpuyield.units import MINUTE_MS, Window, parse_instant

START_MS = parse_instant("2026-11-10T12:00:00Z")
TIMES = range(START_MS, START_MS + 10 * MINUTE_MS, MINUTE_MS)
WINDOW = Window(START_MS, START_MS + 10 * MINUTE_MS)
ACTIVITIES = {one.name: one for one in names.ACTIVITY_NAMES}
PAGES = (
    "dcgm-2.1.8-mig-a100-parent-and-instance",
    "dcgm-2.4-mig-old-namespace-labels",
    "dcgm-2.x-lowercase-names-empty-pod-labels",
    "dcgm-2.x-one-gpu-busy-empty-pod-labels",
    "dcgm-3.1-fraction-reservation-pod",
    "dcgm-3.1-mig-1-active",
    "dcgm-3.1-mig-3-active",
    "dcgm-3.1-mig-4-active",
    "dcgm-3.1-mig-disabled",
    "dcgm-3.1-mig-enabled-no-instance",
    "dcgm-3.1-mig-idle-allocated",
    "dcgm-3.2-v100-four-gpus-partial",
    "dcgm-3.3-a30-mig-standalone",
    "dcgm-3.4-hpc-job-on-mig",
    "dcgm-4.1-h100-four-gpus-mixed-pods",
    "dcgm-4.2-h100-mig-some-instances-with-pods",
    "dcgm-4.x-l4-driver-580",
    "dcgm-4.x-l40s-driver-595",
    "dcgm-4.x-opencost-golden-pci-bus-id",
    "dcgm-4.x-rtx4000-pod-uid",
    "dcgm-4.x-t4-driver-580",
    "dcgm-4.x-t4-driver-590-busy",
    "dcgm-4.x-two-l40s-driver-580",
    "dcgm-4.x-vgpu-a100-10c",
    "dcgm-4.x-vgpu-a100-40c",
    "dcgm-openshift-l40s-two-gpus-one-pod",
    "preview-amd-device-metrics-exporter-mini",
)


def rows_of(ledger: Ledger, *columns: str) -> list[tuple[object, ...]]:
    found = ledger.read(SERIES, columns=list(columns))
    return sorted(zip(*(found[name].tolist() for name in columns), strict=True))


def means(ledger: Ledger) -> dict[tuple[str, str, str], float]:
    """(activity, card, instance) -> mean of its samples."""
    from gpuyield.ledger.tables import SAMPLES

    place = {
        number: (str(metric), str(card), str(instance))
        for number, metric, card, instance in rows_of(ledger, "series", "metric", "card", "instance")
    }
    samples = ledger.read(SAMPLES)
    gathered: dict[tuple[str, str, str], list[float]] = {}
    for number, value in zip(samples["series"].tolist(), samples["value"].tolist(), strict=True):
        gathered.setdefault(place[number], []).append(value)
    return {key: sum(values) / len(values) for key, values in gathered.items()}


@pytest.mark.parametrize("page", PAGES)
def test_each_recorded_page_gives_its_cards_and_its_ratios(
    page: str, shared_data: Path, ledger: Ledger, collected: Collector
) -> None:
    file = shared_data / "telemetry" / f"{page}.prom"
    with serving(scraped(file, TIMES)) as url:
        collected(url, ledger, WINDOW)

    expected: dict[tuple[str, str, str], float] = {}
    for labels, value in read_rows(file.read_text()):
        named = ACTIVITIES.get(labels["__name__"])
        if named is not None:
            card = labels.get("UUID") or labels.get("uuid") or labels["GPU_UUID"]
            expected[named.activity, card, labels.get("GPU_I_ID", "")] = value / named.full
    assert expected
    assert means(ledger) == pytest.approx(expected)


@pytest.mark.parametrize("page", PAGES)
def test_no_recorded_page_makes_the_exporter_a_node_or_a_workload(
    page: str, shared_data: Path, ledger: Ledger, collected: Collector
) -> None:
    with serving(scraped(shared_data / "telemetry" / f"{page}.prom", TIMES)) as url:
        collected(url, ledger, WINDOW)

    for where, pod in rows_of(ledger, "node", "pod"):
        assert "exporter" not in f"{where} {pod}"


@pytest.mark.parametrize(
    ("page", "node_name", "pod", "namespace"),
    [
        ("dcgm-2.x-prometheus-target-labels-shadow-pod.labels.txt", "", "", ""),
        ("dcgm-3.1-scraped-with-node-label.labels.txt", "node-a", "", ""),
        ("dcgm-3.3-exported-dialect.labels.txt", "worker1", "pod1", "default"),
        ("dcgm-3.3-exported-dialect.labels.txt", "worker1", "pod2", "default"),
        ("dcgm-3.3-mig-relabelled-lowercase.labels.txt", "", "test-aaaaaaaaaa-bbbbb", "default"),
    ],
)
def test_label_sets_seen_in_query_pages_are_understood(
    page: str, node_name: str, pod: str, namespace: str, shared_data: Path, ledger: Ledger, collected: Collector
) -> None:
    text = (shared_data / "telemetry" / page).read_text()
    rows = [labels for labels, _ in read_rows("\n".join(f"{line} 1" for line in text.splitlines() if line.strip()))]
    made = [
        steady("DCGM_FI_DEV_GPU_UTIL", 50, TIMES, **{key: one for key, one in labels.items() if key != "__name__"})
        for labels in rows
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)

    assert (node_name, pod, namespace) in rows_of(ledger, "node", "pod", "namespace")


def test_lower_case_mig_labels_are_the_instance(shared_data: Path, ledger: Ledger, collected: Collector) -> None:
    labels = {"gpu": "0", "uuid": "gpu-1", "gpu_i_id": "12", "gpu_i_profile": "1g.10gb", "modelname": "a100"}
    with serving([steady("dcgm_fi_prof_gr_engine_active", 0.5, TIMES, **labels)]) as url:
        collected(url, ledger, WINDOW)

    assert rows_of(ledger, "card", "instance", "profile", "slot", "model") == [("gpu-1", "12", "1g.10gb", "0", "a100")]


@pytest.mark.parametrize("page", ["ksm-main-2026-golden-gpu-pod", "ksm-main-2026-golden-init-containers"])
def test_requests_of_kube_state_metrics_become_runs(
    page: str, shared_data: Path, ledger: Ledger, collected: Collector
) -> None:
    with serving(scraped(shared_data / "telemetry" / f"{page}.prom", TIMES)) as url:
        collected(url, ledger, WINDOW)
    runs = ledger.read(RUNS)

    requests = [
        (kind, pod, container, resource, value, low, high)
        for kind, pod, container, resource, value, low, high in zip(
            *(runs[name] for name in ("kind", "pod", "container", "resource", "value", "from_ms", "to_ms")), strict=True
        )
        if kind in ("pod_request", "pod_init_request")
    ]
    prefix = ("pod_request", "pod0", "pod1_con1") if "gpu-pod" in page else ("pod_request", "pod1", "pod1_con1")
    assert (*prefix, "nvidia_com_gpu", 1.0, TIMES[0], TIMES[-1]) in requests
    if "init" in page:
        assert ("pod_init_request", "pod1", "pod1_initcon1", "nvidia_com_gpu", 1.0, TIMES[0], TIMES[-1]) in requests
    assert len(requests) == (1 if "gpu-pod" in page else 2)


def test_nodes_of_kube_state_metrics_become_runs(shared_data: Path, ledger: Ledger, collected: Collector) -> None:
    with serving(scraped(shared_data / "telemetry" / "ksm-main-2026-golden-gpu-node.prom", TIMES)) as url:
        collected(url, ledger, WINDOW)
    runs = ledger.read(RUNS)

    assert sorted(zip(runs["kind"], runs["node"], runs["resource"], runs["value"], strict=True)) == [
        ("node_allocatable", "127.0.0.1", "nvidia_com_gpu", 1.0),
        ("node_capacity", "127.0.0.1", "nvidia_com_gpu", 4.0),
        ("node_cordoned", "127.0.0.1", "", 1.0),
    ]


@pytest.mark.parametrize("page", ["ksm-1.0.1-k8s-1.8", "ksm-2.13.0-k8s-1.31", "ksm-2.19.0-k8s-1.35"])
def test_pods_without_devices_are_not_collected(
    page: str, shared_data: Path, ledger: Ledger, collected: Collector
) -> None:
    with serving(scraped(shared_data / "telemetry" / f"{page}.prom", TIMES)) as url:
        collected(url, ledger, WINDOW)

    assert len(ledger.read(RUNS)["kind"]) == 0


def test_an_old_exporter_without_uids_is_read_by_pod_names(ledger: Ledger, collected: Collector) -> None:
    pod = {"namespace": "team-a", "pod": "train-0"}
    made = [
        *node(TIMES),
        steady("kube_pod_container_resource_requests_nvidia_gpu_devices", 2, TIMES, **pod, container="c", node="n"),
        steady("kube_pod_status_phase", 1, TIMES, **pod, phase="Running"),
        steady("kube_pod_status_phase", 1, TIMES, namespace="team-b", pod="train-0", phase="Running"),
    ]
    with serving(made) as url:
        collected(url, ledger, WINDOW)
    runs = ledger.read(RUNS)

    told = set(zip(runs["kind"], runs["namespace"], runs["resource"], runs["value"], strict=True))
    assert {one for one in told if str(one[0]).startswith("pod")} == {
        ("pod_request", "team-a", "nvidia_com_gpu", 2.0),
        ("pod_phase", "team-a", "", 1.0),
    }


def _at_every_minute(name: str, value: float, **labels: str) -> Series:
    return series({"__name__": name, **labels}, [(at, value) for at in TIMES])


def test_two_names_of_one_activity_are_one_series_of_the_better_name(ledger: Ledger, collected: Collector) -> None:
    card = {"UUID": "GPU-1", "gpu": "0", "Hostname": "node-a"}
    made = [
        _at_every_minute("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.25, **card),
        _at_every_minute("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.75, **card),
    ]
    with serving(made) as url:
        report = collected(url, ledger, WINDOW)

    assert means(ledger) == {("gr_engine_active", "GPU-1", ""): 0.25}
    assert report.names["gr_engine_active"] == "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
