"""A look around a metrics store: what is there, since when, and what is missing. Nothing is kept.

It reads the last minutes, and for the age of the store an hour here and there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuyield.collect import names
from gpuyield.collect.activity import Found, Measured, hosts_that_are_no_nodes, map_cards, read_activity
from gpuyield.collect.collect import SETTLE_MS, SOURCE
from gpuyield.collect.prometheus import Build, Prometheus
from gpuyield.collect.state import Question, State, read_pod_nodes, read_state
from gpuyield.ledger.tables import Activity, RunKind
from gpuyield.model.gpu import flavor_of
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window

_LAST_MS = 10 * MINUTE_MS
_OLDEST_MS = 512 * DAY_MS

_SERVING = ("vllm:num_requests_running", "sglang:num_running_reqs", "nv_inference_request_success")
_QUEUES = ("kueue_pending_workloads",)
_PRICES = ("node_gpu_hourly_cost",)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServingSeen:
    """A server of a model with metrics: its pods' namespace, one of its pods, and the model's name."""

    namespace: str
    pod: str
    model: str


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OwnerSeen:
    """A workload whose pods ask for devices now, and how many they ask for together."""

    namespace: str
    kind: str
    name: str
    devices: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a metrics store has to say about GPUs."""

    build: Build
    window: Window
    """The minutes that were read."""
    first_ms: int | None
    """The oldest time with samples, to the hour; None where there are none."""
    names: Mapping[str, tuple[str, ...]]
    """Kind of fact -> metrics that tell it now."""
    missing: tuple[str, ...]
    """Kinds of facts that no metric tells."""
    cards: int
    gpus_by_flavor: Mapping[str, int]
    has_pod_labels: bool
    owners: tuple[OwnerSeen, ...]
    serving: tuple[ServingSeen, ...]
    queues: tuple[str, ...]
    """Kueue's cluster queues."""
    has_prices: bool
    """OpenCost's price metrics are there."""
    pod_labels: tuple[str, ...]
    """Keys of labels on pods with devices, the most frequent first."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Namespaces whose pods ask for devices now."""
        return tuple(sorted({one.namespace for one in self.owners}))


def look(source: Prometheus, *, now_ms: int) -> Look:
    """What is there now.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    build = source.build()
    window = Window(now_ms - SETTLE_MS - _LAST_MS, now_ms - SETTLE_MS)
    present = source.names((*names.ALL_NAMES, *_SERVING, *_QUEUES, *_PRICES), window)
    question = Question(source=source, present=frozenset(present), window=window)
    state, found = read_state(question), read_activity(question)
    measured = _cards(question, state, found)
    used = {kind: tuple(sorted(told)) for kind, told in state.used.items()}
    for activity in Activity:
        told = sorted({one.card.name for one in measured if one.card.metric == activity})
        if told:
            used[activity] = tuple(told)
    labels = Counter(one.key.detail for one in state.observed if one.key.kind == RunKind.POD_LABEL)
    return Look(
        build=build,
        window=window,
        first_ms=_first_ms(question, used),
        names=used,
        missing=tuple(kind for kind in (*Activity, *RunKind) if kind not in used),
        cards=len({one.card.card for one in measured}),
        gpus_by_flavor=_flavors(measured, state),
        has_pod_labels=any(one.card.pod for one in measured),
        owners=_owners(state),
        serving=_serving(question),
        queues=_queues(question),
        has_prices=any(_read(question, name) for name in _PRICES),
        pod_labels=tuple(key for key, _ in sorted(labels.items(), key=lambda one: (-one[1], one[0]))),
    )


def _cards(question: Question, state: State, found: list[Found]) -> list[Measured]:
    strangers = hosts_that_are_no_nodes(found, state.nodes)
    if strangers:
        read_pod_nodes(question, state, strangers)
    node_of_pod = {one.key.pod: one.key.node for one in state.observed if one.key.kind == RunKind.POD_NODE}
    return map_cards(found, nodes=state.nodes, node_of_pod=node_of_pod, source=SOURCE)


def _flavors(measured: Iterable[Measured], state: State) -> dict[str, int]:
    """GPUs by flavor: by the cards that were measured, else by what nodes offer under their product label."""
    models = {one.card.card: one.card.model for one in measured if one.card.model}
    counted = Counter(flavor_of(model) or model for model in models.values())
    if counted:
        return dict(sorted(counted.items()))
    products = {one.key.node: one.key.text for one in state.observed if one.key.detail == "gpu.product"}
    offered: Counter[str] = Counter()
    for one in state.observed:
        if one.key.kind == RunKind.NODE_CAPACITY and one.key.node in products:
            product = products[one.key.node]
            offered[flavor_of(product) or product] += int(one.values[-1])
    return dict(sorted(offered.items()))


def _owners(state: State) -> tuple[OwnerSeen, ...]:
    owner = {
        (one.key.namespace, one.key.pod): (one.key.detail, one.key.text)
        for one in state.observed
        if one.key.kind == RunKind.POD_OWNER
    }
    asked = {one.key: int(one.values[-1]) for one in state.observed if one.key.kind == RunKind.POD_REQUEST}
    devices: Counter[tuple[str, str, str]] = Counter()
    for key, count in asked.items():
        kind, name = owner.get((key.namespace, key.pod), ("Pod", key.pod))
        devices[key.namespace, kind, name] += count
    return tuple(
        OwnerSeen(namespace=space, kind=kind, name=name, devices=count)
        for (space, kind, name), count in sorted(devices.items())
    )


def _serving(question: Question) -> tuple[ServingSeen, ...]:
    seen: dict[tuple[str, str], ServingSeen] = {}
    for labels in (found for name in _SERVING for found in _read(question, name)):
        namespace = labels.get("exported_namespace") or labels.get("namespace", "")
        model = labels.get("model_name") or labels.get("model", "")
        pod = labels.get("exported_pod") or labels.get("pod", "")
        one = ServingSeen(namespace=namespace, pod=pod, model=model)
        seen[namespace, model] = min(seen.get((namespace, model), one), one)
    return tuple(sorted(seen.values()))


def _queues(question: Question) -> tuple[str, ...]:
    found = (labels.get("cluster_queue", "") for name in _QUEUES for labels in _read(question, name))
    return tuple(sorted({name for name in found if name}))


def _read(question: Question, name: str) -> list[dict[str, str]]:
    if name not in question.present:
        return []
    return [one.labels for one in question.source.raw(name, (), question.window)]


def _first_ms(question: Question, used: Mapping[str, tuple[str, ...]]) -> int | None:
    """The oldest hour with samples of a metric that is there now, found by halving."""
    kinds = [kind for kind in (RunKind.NODE_CAPACITY, *Activity, RunKind.POD_REQUEST) if kind in used]
    if not kinds:
        return None
    name = used[kinds[0]][0]
    matchers = (f'resource=~"{names.GPU_RESOURCES}"',) if kinds[0] == RunKind.NODE_CAPACITY else ()

    def has_samples(back_ms: int) -> bool:
        end_ms = question.window.to_ms - back_ms
        return end_ms > HOUR_MS and bool(question.source.raw(name, matchers, Window(end_ms - HOUR_MS, end_ms)))

    known_ms, reach_ms = 0, DAY_MS
    while reach_ms <= _OLDEST_MS and has_samples(reach_ms):
        known_ms, reach_ms = reach_ms, 2 * reach_ms
    while reach_ms - known_ms > HOUR_MS:
        middle_ms = (known_ms + reach_ms) // 2
        known_ms, reach_ms = (middle_ms, reach_ms) if has_samples(middle_ms) else (known_ms, middle_ms)
    return question.window.to_ms - known_ms - HOUR_MS
