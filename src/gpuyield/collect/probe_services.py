"""Which services of a cluster are metrics stores, OpenCost, or servers of models: by name, labels and ports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyield.collect.probe import ServiceSeen

_APP_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/component", "app", "k8s-app")
_NO_STORES = re.compile(
    r"alertmanager|exporter|pushgateway|adapter|operator(?!ated)|kube-state|webhook|grafana|agent|discovery"
    r"|compact|storegateway|ruler|receive|vmalert|vminsert|vmstorage|reloader|sidecar"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """How a product's service looks: words in its name or labels, its ports in order, and the path of its API."""

    words: re.Pattern[str]
    ports: tuple[int, ...]
    path: str = ""


_STORES = (
    _Kind(words=re.compile(r"prometheus"), ports=(9090, 80)),
    _Kind(words=re.compile(r"vmsingle|victoria-?metrics-single|victoriametrics$"), ports=(8428, 8429)),
    _Kind(words=re.compile(r"vmselect"), ports=(8481,), path="/select/0/prometheus"),
    _Kind(words=re.compile(r"thanos-quer(y|ier)"), ports=(9090, 10902)),
    _Kind(words=re.compile(r"mimir-(nginx|gateway)"), ports=(80, 8080), path="/prometheus"),
)
_OPENCOST = (
    _Kind(words=re.compile(r"opencost"), ports=(9003,)),
    _Kind(words=re.compile(r"cost-?analyzer|kubecost"), ports=(9090,), path="/model"),
)
_USUAL_SPACES = ("monitoring", "prometheus", "observability")
_MODEL_PORTS = (8000, 8080, 80)


def metrics_stores(services: Iterable[ServiceSeen]) -> list[str]:
    """Services that look like a metrics store, as `namespace/name:port`, the likeliest first."""
    return _places(services, _STORES, _NO_STORES)


def opencosts(services: Iterable[ServiceSeen]) -> list[str]:
    """Services that look like OpenCost, as `namespace/name:port`, the likeliest first."""
    return _places(services, _OPENCOST, re.compile(r"prometheus|grafana|exporter|frontend"))


def model_endpoint(
    services: Sequence[ServiceSeen], *, namespace: str, workload: str, labels: Mapping[str, str]
) -> str | None:
    """The address inside the cluster of a workload's OpenAI-compatible server, where a service selects its pods.

    Labels are compared as exporters print them. Without labels a service of the workload's name is taken.
    """
    printed = {_printed(key): text for key, text in labels.items()}
    for one in services:
        port = next((number for number in _MODEL_PORTS if number in dict(_numbers(one))), None)
        selects = bool(one.selector) and all(printed.get(_printed(key)) == text for key, text in one.selector.items())
        if one.namespace == namespace and port is not None and (selects or one.name == workload):
            return f"http://{one.name}.{one.namespace}.svc:{port}/v1"
    return None


def _places(services: Iterable[ServiceSeen], kinds: Sequence[_Kind], excluded: re.Pattern[str]) -> list[str]:
    ranked: dict[str, tuple[int, bool, bool, str]] = {}
    for one in services:
        words = " ".join([one.name, *(one.labels.get(label, "") for label in _APP_LABELS)])
        if excluded.search(one.name):
            continue
        for at, kind in enumerate(kinds):
            port = next((number for number in kind.ports if number in dict(_numbers(one))), None)
            if kind.words.search(words) and port is not None:
                place = f"{one.namespace}/{one.name}:{port}{kind.path}"
                # The operator's own service is there whatever the release is called.
                ranked[place] = (at, one.name != "prometheus-operated", one.namespace not in _USUAL_SPACES, place)
                break
    return sorted(ranked, key=lambda place: ranked[place])


def _numbers(one: ServiceSeen) -> list[tuple[int, str]]:
    return [(number, name) for name, number in one.ports]


def _printed(key: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in key)
