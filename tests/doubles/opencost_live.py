"""The recorded answers of a real OpenCost, replayed, and the cluster they speak of as its exporters would tell it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from doubles.answers import Asked, Said
from gpuyield.demo.exposition import Series
from gpuyield.units import MINUTE_MS, Window, parse_instant

_WITHOUT_MEANING = {("accumulate", "true"), ("includeIdle", "false")}
_EMPTY = Said(body=b'{"code":200,"data":{}}')


def replayed(live: Path) -> Callable[[Asked], Said]:
    """Answers each recorded question; other windows of `/assets` are empty, all else is not found.

    A window is one set, so asking to accumulate changes nothing, and idle is left out where it is not asked for.
    """
    known: dict[tuple[str, frozenset[tuple[str, str]]], Said] = {}
    for line in (live / "requests.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one["server"] == "2026" and one.get("file"):
            split = urlsplit(one["path"])
            fields = frozenset((name, values[-1]) for name, values in parse_qs(split.query).items())
            body = (live / one["file"]).read_bytes()
            said = Said(status=one["status"], body=body, content_type=one["content_type"] or "")
            known.setdefault((split.path, fields), said)

    def answer(asked: Asked) -> Said:
        fields = frozenset(item for item in asked.fields.items() if item not in _WITHOUT_MEANING)
        idle = known.get((asked.path, fields | {("includeIdle", "true")}))
        said = known.get((asked.path, fields)) or idle
        if said is None and asked.path == "/assets":
            return _EMPTY
        return said or Said(status=404, body=b"404 page not found\n", content_type="text/plain")

    return answer


def pods(live: Path) -> list[dict[str, Any]]:
    """The pods of the scenario as they are defined."""
    found = json.loads((live / "scenario.json").read_text())["pods"]
    assert isinstance(found, list)
    return found


def runs_of(pod: Mapping[str, Any]) -> list[Window]:
    """When its containers ran."""
    return [Window(_ms(begin), _ms(end)) for begin, end in pod["run"]]


def live_series(live: Path, window: Window) -> list[Series]:
    """What kube-state-metrics tells of this cluster within the window, a sample each minute."""
    scenario = json.loads((live / "scenario.json").read_text())
    made: list[Series] = []
    for node in scenario["nodes"]:
        made.extend(_node(node, window))
    for pod in scenario["pods"]:
        made.extend(_pod(pod, window))
    return [one for one in made if len(one.times_ms)]


def _node(node: Mapping[str, Any], window: Window) -> Iterator[Series]:
    begin_ms = _ms(node["from"]) if "from" in node else window.from_ms
    span = Window(begin_ms, window.to_ms).cut(window) if begin_ms < window.to_ms else None
    if span is None:
        return
    named = {"node": node["name"]}
    for resource, amount in node["alloc"].items():
        if resource.startswith("nvidia"):
            offered = {**named, "resource": resource, "unit": "integer"}
            yield _steady("kube_node_status_capacity", amount, span, offered)
            yield _steady("kube_node_status_allocatable", amount, span, offered)
    labels = {f"label_{key}": text for key, text in node["labels"].items()}
    yield _steady("kube_node_labels", 1, span, {**named, **labels})
    yield _steady("kube_node_status_condition", 1, span, {**named, "condition": "Ready", "status": "true"})
    yield _steady("kube_node_spec_unschedulable", 0, span, named)


def _pod(pod: Mapping[str, Any], window: Window) -> Iterator[Series]:
    runs = runs_of(pod)
    placed_ms = _ms(pod["sched"]) if "sched" in pod else runs[0].from_ms
    ended_ms = runs[-1].to_ms if runs else _ms(pod["gone"])
    gone_ms = ended_ms + 1000 * int(pod.get("keep", 600)) if runs else ended_ms
    its = {"namespace": pod["ns"], "pod": pod["name"], "uid": f"{pod['ns']}/{pod['name']}{pod.get('uidx', '')}"}
    seen = Window(placed_ms, gone_ms)
    for container in pod["containers"]:
        for key, resource in (
            ("gpu", "nvidia_com_gpu"),
            ("mig_1g_10gb", "nvidia_com_mig_1g_10gb"),
            ("gpu_shared", "nvidia_com_gpu_shared"),
        ):
            if container.get(key):
                asked = {**its, "container": container["name"], "node": pod["node"], "resource": resource}
                yield _within("kube_pod_container_resource_requests", container[key], seen, window, asked)
    started = runs[0].from_ms if runs else ended_ms
    yield _within("kube_pod_status_phase", 1, Window(placed_ms, started), window, {**its, "phase": "Pending"})
    yield _within("kube_pod_status_phase", 1, Window(started, ended_ms), window, {**its, "phase": "Running"})
    yield _within("kube_pod_status_phase", 1, Window(ended_ms, gone_ms), window, {**its, "phase": "Succeeded"})
    yield _within("kube_pod_created", placed_ms / 1000, seen, window, its)
    yield _within("kube_pod_status_scheduled_time", placed_ms / 1000, seen, window, its)
    for run in runs:
        named = {**its, "container": pod["containers"][0]["name"]}
        yield _within("kube_pod_container_state_started", run.from_ms / 1000, run, window, named)
    if runs:
        yield _within("kube_pod_completion_time", ended_ms / 1000, Window(ended_ms, gone_ms), window, its)
    if "owner" in pod:
        owner = {"owner_kind": pod["owner"][0], "owner_name": pod["owner"][1]}
        yield _within("kube_pod_owner", 1, seen, window, {**its, **owner})


def _within(name: str, value: float, span: Window, window: Window, labels: Mapping[str, str]) -> Series:
    cut = span.cut(window) if span.from_ms < span.to_ms else None
    return _steady(name, value, cut or Window(window.from_ms, window.from_ms), labels)


def _steady(name: str, value: float, span: Window, labels: Mapping[str, str]) -> Series:
    first_ms = -(-span.from_ms // MINUTE_MS) * MINUTE_MS
    times = np.arange(first_ms, span.to_ms, MINUTE_MS, dtype=np.int64)
    return Series({"__name__": name, **labels}, times, np.full(len(times), float(value)))


def _ms(text: str) -> int:
    return parse_instant(f"{text}:00Z")
