"""The nouns of a made-up cluster: what truly happened, before anything was measured.

All times are epoch milliseconds. A scenario is pure data: whoever wants to know what was true (a test, say) can read
it from here without any of the code that measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from gpuyield.model.outcome import Outcome, Verdict
from gpuyield.units import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A GPU node that exists throughout; `cards` are the UUIDs of its whole GPUs, in order of their index."""

    name: str
    flavor: str
    product: str
    memory_mib: int
    cards: tuple[str, ...]
    cordoned: tuple[Window, ...] = ()
    not_ready: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod. It holds `cards` from `scheduled_ms` until `ended_ms`, and runs from `running_ms`.

    None means that it has not happened by the end of the scenario; `created_ms` may lie before its beginning.
    A pod that was deleted while alive has `ended_ms` equal to `deleted_ms` and no `end_phase`; one that finished by
    itself stays, Succeeded or Failed, until `deleted_ms`. `restarts_ms` are restarts of its container while running.
    """

    namespace: str
    name: str
    uid: str
    container: str = "main"
    labels: Mapping[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    owner: str = ""
    gpus: int = 0
    node: str | None = None
    cards: tuple[str, ...] = ()
    created_ms: int
    scheduled_ms: int | None = None
    running_ms: int | None = None
    restarts_ms: tuple[int, ...] = ()
    ended_ms: int | None = None
    end_phase: str = ""
    deleted_ms: int | None = None
    waiting_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJob:
    """A Kubernetes Job and what its team wants of it; `duration_ms` is its run time when nothing goes wrong.

    `failed_ms` is when it was given up; a failed pod that is replaced does not fail the job.
    """

    namespace: str
    name: str
    family: str
    team: str
    cron: str | None
    gpus: int
    flavor: str | None
    duration_ms: int
    created_ms: int
    started_ms: int | None
    completed_ms: int | None
    failed_ms: int | None
    failed_pods: int
    deadline_ms: int | None
    uids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A service that holds GPUs round the clock."""

    namespace: str
    name: str
    team: str
    app: str
    gpus_per_replica: int
    replicas: int
    flavor: str | None


class Exporter(StrEnum):
    """What is scraped: kube-state-metrics once, DCGM on each node."""

    KSM = "kube-state-metrics"
    DCGM = "dcgm-exporter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A span without samples of an exporter (None: all of them) on a node (None: all of them)."""

    exporter: Exporter | None
    node: str | None
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrapes:
    """When samples are taken: every `interval_ms`, from `later_from_ms` on every `later_interval_ms`.

    Each scrape is off its time by up to `jitter_ms` either way, and `lost_share` of them fail.
    """

    interval_ms: int = 60_000
    later_interval_ms: int | None = None
    later_from_ms: int | None = None
    jitter_ms: int = 0
    lost_share: float = 0.0


Steps = tuple[tuple[int, float], ...]
"""A step function: `(from_ms, value)`, each holding until the next; 0 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that truly happened in a cluster within `window`, and how it was scraped.

    `activity` maps a card's UUID to the busy share of its compute engine. On a grid scenario every change falls on a
    scrape instant and every activity is a multiple of 1/32, so that sums are exact.
    """

    seed: int
    window: Window
    grid: bool
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    jobs: tuple[BatchJob, ...]
    services: tuple[Service, ...]
    outcomes: tuple[Outcome, ...]
    verdicts: tuple[Verdict, ...]
    activity: Mapping[str, Steps]
    silences: tuple[Silence, ...]
    scrapes: Scrapes

    @property
    def gpus(self) -> int:
        """Cards that exist."""
        return sum(len(node.cards) for node in self.nodes)
