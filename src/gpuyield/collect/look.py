"""A look around a metrics store: what is there, since when, and what is missing. Nothing is kept.

It reads the last minutes before the newest sample, and for the age of the store an hour here and there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuyield.collect import names
from gpuyield.collect.activity import Found, Measured, hosts_that_are_no_nodes, map_cards, read_activity
from gpuyield.collect.collect import SETTLE_MS, SOURCE
from gpuyield.collect.look_scrapes import Scrapes, scrapes_of_cards, scrapes_of_nodes
from gpuyield.collect.prometheus import Build, Prometheus, RawSeries
from gpuyield.collect.state import Question, State, read_pod_nodes, read_state
from gpuyield.ledger.tables import Activity, RunKind
from gpuyield.model.gpu import flavor_of
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window

_LAST_MS = 10 * MINUTE_MS
_OLDEST_MS = 512 * DAY_MS

_ENGINES: Mapping[str, tuple[str, ...]] = {
    "vLLM": ("vllm:num_requests_running", "kserve_vllm:num_requests_running"),
    "SGLang": ("sglang:num_running_reqs",),
    "TGI": ("tgi_queue_size", "tgi_request_count"),
    "Triton": ("nv_inference_request_success", "nv_inference_count"),
}
_SERVING = tuple(name for told in _ENGINES.values() for name in told)
_QUEUES = ("kueue_pending_workloads", "kueue_admitted_active_workloads")
_PRICES = ("node_gpu_hourly_cost",)
_HOLDERS = (RunKind.POD_REQUEST, RunKind.POD_INIT_REQUEST)

_TELLING: tuple[str, ...] = (
    *(one.name for one in (*names.NODE_DEVICE_NAMES, *names.REQUEST_NAMES)),
    *(one.name for one in names.ACTIVITY_NAMES if not one.preview),
)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ServingSeen:
    """A server of a model with metrics: its pods' namespace, one of its pods, the model's name, and the engine."""

    namespace: str
    pod: str
    model: str
    engine: str = ""


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
    """The minutes that were read: before now, or before the newest sample where it is older."""
    first_ms: int | None
    """The oldest time with samples, to the hour; None where there are none."""
    newest_ms: int | None
    """The newest sample of what tells of GPUs."""
    clock_ahead_ms: int | None
    """How far the store's clock is ahead of ours, to the second; None where it does not tell."""
    scrapes: tuple[Scrapes, ...]
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
    """What is there now; where the store ends earlier, what was there at its end.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    build = source.build()
    server_ms = source.server_ms()
    newest_ms = newest(source, now_ms=now_ms)
    end_ms = now_ms - SETTLE_MS if newest_ms is None else min(now_ms - SETTLE_MS, newest_ms + 1)
    window = Window(end_ms - _LAST_MS, end_ms)
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
        newest_ms=newest_ms,
        clock_ahead_ms=None if server_ms is None else _whole_seconds(server_ms - now_ms),
        scrapes=_scrapes(question, used, found),
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


def newest(source: Prometheus, *, now_ms: int) -> int | None:
    """The newest sample of what tells of GPUs; None where there is none.

    The last minutes are asked first, then the hour; then days, in which the store's index knows the names at all.
    """
    for back_ms in (_LAST_MS, HOUR_MS):
        last = _newest_in(source, Window(now_ms - back_ms, now_ms + MINUTE_MS))
        if last is not None:
            return last
    near_ms = now_ms - HOUR_MS
    for days in (1, 8, 64, _OLDEST_MS // DAY_MS):
        far_ms = now_ms - days * DAY_MS
        if source.names(_TELLING, Window(far_ms, near_ms)):
            for at_ms in range(near_ms, far_ms, -DAY_MS):
                last = _newest_in(source, Window(max(far_ms, at_ms - DAY_MS), at_ms))
                if last is not None:
                    return last
        near_ms = far_ms
    return None


def _newest_in(source: Prometheus, window: Window) -> int | None:
    there = source.names(_TELLING, window)
    ends = [
        int(one.ts_ms[-1]) for name in _TELLING if name in there for one in source.raw(name, _only_gpus(name), window)
    ]
    return max(ends, default=None)


def _whole_seconds(length_ms: int) -> int:
    """The clock of an HTTP answer has no more than seconds: less than two of them are none."""
    return 0 if abs(length_ms) < 2000 else length_ms // 1000 * 1000


def _scrapes(question: Question, used: Mapping[str, tuple[str, ...]], found: Iterable[Found]) -> tuple[Scrapes, ...]:
    told = []
    for kind in (RunKind.NODE_CAPACITY, RunKind.NODE_ALLOCATABLE):
        if kind in used:
            name = used[kind][0]
            told.append(scrapes_of_nodes(name, question.source.raw(name, _only_gpus(name), question.window)))
            break
    by_name: dict[str, list[RawSeries]] = {}
    for one in found:
        by_name.setdefault(one.name.name, []).append(one.raw)
    told += [scrapes_of_cards(name, series) for name, series in list(by_name.items())[:1]]
    return tuple(told)


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
    for engine, told in _ENGINES.items():
        for labels in (found for name in told for found in _read(question, name)):
            namespace = labels.get("exported_namespace") or labels.get("namespace", "")
            model = labels.get("model_name") or labels.get("model", "")
            pod = labels.get("exported_pod") or labels.get("pod", "")
            one = ServingSeen(namespace=namespace, pod=pod, model=model, engine=engine)
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
    """The oldest hour with samples of a metric that is there now: the farthest of doubled distances, then halved."""
    kinds = [kind for kind in (RunKind.NODE_CAPACITY, *Activity, *_HOLDERS) if kind in used]
    if not kinds:
        return None
    name = used[kinds[0]][0]

    def has_samples(back_ms: int) -> bool:
        end_ms = question.window.to_ms - back_ms
        hour = Window(end_ms - HOUR_MS, end_ms)
        return end_ms > HOUR_MS and bool(question.source.raw(name, _only_gpus(name), hour))

    reaches = [HOUR_MS << doubled for doubled in range(32) if HOUR_MS << doubled <= _OLDEST_MS]
    # All of them are asked: a hole in the past is not its beginning.
    known_ms = max((reach for reach in reaches if has_samples(reach)), default=0)
    beyond_ms = max(HOUR_MS, 2 * known_ms)
    while beyond_ms - known_ms > HOUR_MS:
        middle_ms = (known_ms + beyond_ms) // 2
        known_ms, beyond_ms = (middle_ms, beyond_ms) if has_samples(middle_ms) else (known_ms, middle_ms)
    return question.window.to_ms - known_ms - HOUR_MS


def _only_gpus(name: str) -> tuple[str, ...]:
    return next((one.matchers for one in names.STATE_NAMES if one.name == name), ())
