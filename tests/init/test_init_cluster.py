"""Where init looks without being told: the cluster of the kubeconfig, then the usual local port."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from doubles.answers import Said, answering
from doubles.api_server import MadeService, api_server, kubeconfig
from doubles.command import Command
from doubles.exposition_text import steady
from doubles.seen_cluster import whole_cluster
from gpuyield.collect.probe import ServiceSeen
from gpuyield.collect.probe_services import metrics_stores, model_endpoint, opencosts
from gpuyield.demo.api import serving
from gpuyield.units import HOUR_MS, MINUTE_MS

NOW_MS = time.time_ns() // 1_000_000 // MINUTE_MS * MINUTE_MS
TIMES = range(NOW_MS - 3 * HOUR_MS, NOW_MS, MINUTE_MS)
JOB_TIMES = range(NOW_MS - 2 * HOUR_MS, NOW_MS - HOUR_MS, MINUTE_MS)
OPENCOST = (
    b'{"code":200,"data":{"x/node-a":{"type":"Node","properties":{"name":"node-a"},"GPUHours":72,"gpuCost":180}}}'
)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(whole_cluster(TIMES, JOB_TIMES)) as found:
        yield found


@pytest.fixture
def nothing_at_the_usual_place() -> None:
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 9090)) == 0:
            pytest.skip("something listens on 127.0.0.1:9090")


def test_stores_opencost_kueue_and_servers_are_found_through_the_api_server(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering([Said(body=OPENCOST)]) as opencost:
        cluster = api_server(
            [
                MadeService(place="kube-system/kube-dns:53"),
                MadeService(place="monitoring/prometheus-operated:9090", behind=url),
                MadeService(place="monitoring/prometheus-node-exporter:9100"),
                MadeService(place="opencost/opencost:9003", behind=opencost.url),
                MadeService(place="support/llm:8000", selector={"app": "chat"}),
            ],
            queues=["batch", "research", "default"],
            page=2,
        )
        with answering(cluster) as talk:
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
            done = command("init", "-o", "json")

    document = done.document
    assert done.code == 0, done.err
    assert document["context"] == "prod-gpu"
    assert document["prometheus"]["service"] == "monitoring/prometheus-operated:9090"
    assert document["opencost"]["service"] == "opencost/opencost:9003"
    assert document["kueue"] == {"version": "v1beta2", "cluster_queues": ["batch", "default", "research"]}
    written = yaml.safe_load(Path("gpuyield.yaml").read_text())
    assert written["sources"]["prometheus"] == {"service": "monitoring/prometheus-operated:9090"}
    assert written["sources"]["opencost"] == {"service": "opencost/opencost:9003"}
    assert written["sources"]["kubernetes"] == {"context": "prod-gpu"}
    assert written["services"][0]["endpoint"] == "http://llm.support.svc:8000/v1"
    assert {one.method for one in talk.asked} == {"GET"}


def test_a_store_with_gpus_is_preferred_to_one_that_answers_without(
    command: Command, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving([steady("up", 1, TIMES)]) as other:
        services = [
            MadeService(place="monitoring/prometheus-operated:9090", behind=other),
            MadeService(place="monitoring/vmsingle-main:8429", behind=url),
            MadeService(place="monitoring/thanos-query:9090"),
        ]
        with answering(api_server(services)) as talk:
            monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
            done = command("init", "-o", "json")

    assert done.document["prometheus"]["service"] == "monitoring/vmsingle-main:8429"
    assert done.document["kueue"] is None


def test_what_the_context_may_not_list_is_exit_3_when_it_was_named(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(api_server(forbidden=["services"])) as talk:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
        done = command("init", "--context", "prod-gpu")

    assert done.code == 3
    assert done.err == (
        "Context prod-gpu may not list services (403). Missing: get, list, watch. The read-only role is in deploy/.\n"
    )


def test_queues_that_may_not_be_listed_are_a_gap(command: Command, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    services = [MadeService(place="monitoring/prometheus-operated:9090", behind=url)]
    with answering(api_server(services, queues=["batch"], forbidden=["clusterqueues"])) as talk:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
        done = command("init", "-o", "json")

    assert done.code == 0
    reason = next(one["reason"] for one in done.document["gaps"] if one["where"] == "Kueue")
    assert reason == (
        "Context prod-gpu may not list clusterqueues.kueue.x-k8s.io (403). Missing: get, list, watch."
        " The read-only role is in deploy/."
    )


@pytest.mark.usefixtures("nothing_at_the_usual_place")
def test_when_nothing_answers_every_place_that_was_tried_is_named(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = [
        MadeService(place="monitoring/prometheus-operated:9090"),
        MadeService(place="obs/prometheus-server:80"),
    ]
    with answering(api_server(services)) as talk:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, talk.url)))
        done = command("init")
        as_json = command("init", "-o", "json")

    assert done.code == 3
    assert "monitoring/services/prometheus-operated:9090/proxy answered 503" in done.err
    assert "obs/services/prometheus-server:80/proxy answered 503" in done.err
    assert (
        "the usual place: Cannot reach Prometheus at http://127.0.0.1:9090 (connection refused). Is a port-forward"
        " running? To read it through the API server, write sources.prometheus:"
        " {service: monitoring/prometheus-operated:9090}.\n"
    ) in done.err
    assert as_json.document["schema"] == "gpuyield/error/v1alpha1"
    assert [one["where"] for one in as_json.document["errors"]] == [
        "context prod-gpu",
        "context prod-gpu",
        "the usual place",
    ]
    assert not Path("gpuyield.yaml").exists()


@pytest.mark.usefixtures("nothing_at_the_usual_place")
def test_a_cluster_that_is_out_of_reach_does_not_end_the_search(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(command.folder, "http://127.0.0.1:1")))

    done = command("init", "-o", "json")

    assert done.code == 3
    assert [one["where"] for one in done.document["errors"]] == ["context prod-gpu", "the usual place"]


def test_an_opencost_that_is_named_must_answer(command: Command, url: str) -> None:
    done = command("init", "--prometheus", url, "--opencost", "http://127.0.0.1:1")

    assert done.code == 3
    assert "Cannot reach OpenCost at http://127.0.0.1:1" in done.err
    assert not Path("gpuyield.yaml").exists()


def seen(place: str, **more: dict[str, str]) -> ServiceSeen:
    namespace, _, rest = place.partition("/")
    name, _, port = rest.partition(":")
    return ServiceSeen(namespace=namespace, name=name, ports=(("", int(port)),), **more)


def test_services_that_only_sound_like_a_store_are_left_out() -> None:
    others = [
        "monitoring/alertmanager-operated:9093",
        "monitoring/prometheus-operator:8080",
        "monitoring/prometheus-node-exporter:9100",
        "monitoring/prometheus-adapter:443",
        "monitoring/prometheus-pushgateway:9091",
        "monitoring/thanos-storegateway:9090",
        "monitoring/vmalert-main:8080",
        "monitoring/grafana:80",
    ]
    stores = [
        "zeta/my-prometheus:9090",
        "monitoring/prometheus-operated:9090",
        "vm/vmselect-main:8481",
        "monitoring/mimir-nginx:80",
        "thanos/thanos-query-frontend:9090",
    ]

    found = metrics_stores([seen(place) for place in [*others, *stores]])

    assert found == [
        "monitoring/prometheus-operated:9090",
        "zeta/my-prometheus:9090",
        "vm/vmselect-main:8481/select/0/prometheus",
        "thanos/thanos-query-frontend:9090",
        "monitoring/mimir-nginx:80/prometheus",
    ]


def test_a_store_is_known_by_its_label_too() -> None:
    named = seen("monitoring/metrics:9090", labels={"app.kubernetes.io/name": "prometheus"})

    assert metrics_stores([named]) == ["monitoring/metrics:9090"]


def test_opencost_and_its_relative_are_told_from_their_own_stores() -> None:
    places = [
        "kubecost/kubecost-prometheus-server:80",
        "kubecost/kubecost-cost-analyzer:9090",
        "opencost/opencost:9003",
    ]

    found = opencosts([seen(place) for place in places])

    assert found == ["opencost/opencost:9003", "kubecost/kubecost-cost-analyzer:9090/model"]


def test_a_model_server_is_reached_by_the_service_that_selects_it() -> None:
    services = [seen("support/llm:8000", selector={"app.kubernetes.io/name": "chat"}), seen("other/chat:8000")]

    by_label = model_endpoint(
        services, namespace="support", workload="chat-v2", labels={"app_kubernetes_io_name": "chat"}
    )
    by_nothing = model_endpoint(services, namespace="support", workload="chat", labels={})

    assert (by_label, by_nothing) == ("http://llm.support.svc:8000/v1", None)
