from __future__ import annotations

from collections.abc import Callable

import pytest

from doubles.exposition_text import steady
from doubles.small_cluster import busy_cluster, card, node
from gpuyield.collect.look import OwnerSeen, ServingSeen, look
from gpuyield.collect.prometheus import Prometheus
from gpuyield.demo.api import serving
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, parse_instant

NOW_MS = parse_instant("2026-11-20T12:00:00Z")
RECENT = range(NOW_MS - HOUR_MS, NOW_MS, MINUTE_MS)
Connect = Callable[[str], Prometheus]


def test_what_is_there_now_is_seen(source_of: Connect) -> None:
    made = [
        *busy_cluster(RECENT),
        card(((at, 1) for at in RECENT), uuid="GPU-3", modelName="NVIDIA H100 80GB HBM3"),
        steady("vllm:num_requests_running", 1, RECENT, namespace="support", pod="chat-0", model_name="llama-70b"),
        steady("kueue_pending_workloads", 1, RECENT, cluster_queue="batch", status="active"),
        steady("node_gpu_hourly_cost", 2.5, RECENT, node="node-a"),
    ]
    with serving(made) as url:
        seen = look(source_of(url), now_ms=NOW_MS)

    assert seen.cards == 3
    assert seen.gpus_by_flavor == {"h100": 1}
    assert seen.has_pod_labels
    assert seen.owners == (OwnerSeen(namespace="team-a", kind="Job", name="train", devices=1),)
    assert seen.namespaces == ("team-a",)
    assert seen.serving == (ServingSeen(namespace="support", pod="chat-0", model="llama-70b", engine="vLLM"),)
    assert seen.queues == ("batch",)
    assert seen.has_prices
    assert seen.names["gpu_util"] == ("DCGM_FI_DEV_GPU_UTIL",)
    assert "sm_active" in seen.missing
    assert seen.pod_labels == ("gpuyield.dev/deadline", "team")


@pytest.mark.parametrize("age_ms", [2 * HOUR_MS, 3 * DAY_MS + 4 * HOUR_MS, 15 * DAY_MS])
def test_the_age_of_the_store_is_found_to_the_hour(age_ms: int, source_of: Connect) -> None:
    first_ms = NOW_MS - age_ms
    with serving(node(range(first_ms, NOW_MS, 10 * MINUTE_MS))) as url:
        seen = look(source_of(url), now_ms=NOW_MS)

    assert seen.first_ms is not None
    assert abs(seen.first_ms - first_ms) <= HOUR_MS


def test_flavors_come_from_nodes_where_no_card_is_measured(source_of: Connect) -> None:
    labels = steady("kube_node_labels", 1, RECENT, node="node-a", label_nvidia_com_gpu_product="NVIDIA-L4")
    with serving([*node(RECENT), labels]) as url:
        seen = look(source_of(url), now_ms=NOW_MS)

    assert (seen.cards, seen.gpus_by_flavor) == (0, {"l4": 2})


def test_a_store_without_gpus_says_so(source_of: Connect) -> None:
    with serving([steady("up", 1, RECENT)]) as url:
        seen = look(source_of(url), now_ms=NOW_MS)

    assert (seen.cards, seen.first_ms, seen.owners, seen.names) == (0, None, (), {})
