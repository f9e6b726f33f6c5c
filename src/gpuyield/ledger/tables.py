"""The tables of the ledger: names, columns, types and the order of their rows.

Every table is partitioned by `date`, a UTC day. A day of a source is always written whole, so that reading it
again replaces it with the same rows.

`samples` and `series` hold what cards measured. A series is one label set of one metric that an exporter
printed; a card has several when its pod labels change. `runs` hold all that changes seldom (requests, phases,
node facts): a run is a series that showed one value from its first sample to its last, with no two samples
further apart than the gap limit. `scrapes` are the moments at which what became runs was sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

ColumnType = Literal["int", "float", "text", "bool"]


@dataclass(frozen=True, slots=True)
class Table:
    """A ledger table; rows are sorted by `order`, and `order` is unique within a day."""

    name: str
    columns: dict[str, ColumnType]
    order: tuple[str, ...]


class Activity(StrEnum):
    """What an activity series measures, best first; values are ratios 0..1 of the device (or MIG instance)."""

    SM_ACTIVE = "sm_active"
    GR_ENGINE_ACTIVE = "gr_engine_active"
    GPU_UTIL = "gpu_util"


class RunKind(StrEnum):
    """What a run says, under one name whatever the exporter calls it. `value` is a number, `text` a word."""

    NODE_CAPACITY = "node_capacity"
    """Devices of `resource` on `node`."""
    NODE_ALLOCATABLE = "node_allocatable"
    NODE_CORDONED = "node_cordoned"
    """1 or 0."""
    NODE_READY = "node_ready"
    """1 where the condition Ready is true, 0 where it is false or unknown."""
    NODE_LABEL = "node_label"
    """`detail` is one of: gpu.count, gpu.product, gpu.replicas, gpu.memory, mig.strategy, mig.capable, flavor,
    instance-type; `text` its value."""
    POD_REQUEST = "pod_request"
    """Devices of `resource` that a main container asks for (`container`, `node`; node is "" until placed)."""
    POD_INIT_REQUEST = "pod_init_request"
    """The same of an init container."""
    POD_SIDECAR = "pod_sidecar"
    """An init container (`container`) that restarts always (value 1) or not (0)."""
    POD_PHASE = "pod_phase"
    """`detail` is the phase (Pending, Running, Unknown, Succeeded, Failed); value 1 while it is so, else 0."""
    POD_CREATED = "pod_created"
    """Value: epoch ms; likewise the next six."""
    POD_SCHEDULED = "pod_scheduled"
    POD_STARTED = "pod_started"
    """When the kubelet took the pod (before images are pulled)."""
    POD_COMPLETED = "pod_completed"
    CONTAINER_STARTED = "container_started"
    CONTAINER_TERMINATED = "container_terminated"
    POD_OWNER = "pod_owner"
    """`detail` is the owner's kind, `text` its name; the top owner where it can be resolved."""
    POD_LABEL = "pod_label"
    """`detail` is the label as written in Kubernetes where known, else as the exporter prints it; `text` its value."""
    POD_NODE = "pod_node"
    """`node` a pod runs on (pod info), for pods that hold no GPU too: it names exporters' nodes."""
    JOB_CREATED = "job_created"
    """Value: epoch ms; `pod` holds the job's name; likewise the next two."""
    JOB_STARTED = "job_started"
    JOB_COMPLETED = "job_completed"
    JOB_FAILED = "job_failed"
    """Failed pods, or 1 where the job's condition Failed is true."""
    JOB_SUSPENDED = "job_suspended"
    """1 or 0."""
    JOB_OWNER = "job_owner"
    """`detail` is the owner's kind, `text` its name."""
    JOB_LABEL = "job_label"
    """Labels and annotations: `detail` is the key, `text` its value."""


SAMPLES = Table(
    "samples",
    {"series": "int", "ts_ms": "int", "value": "float"},
    ("series", "ts_ms"),
)
"""`value` is the ratio, NaN where the exporter printed what cannot be true (outside 0..1)."""

SERIES = Table(
    "series",
    {
        "series": "int",
        "metric": "text",
        "name": "text",
        "card": "text",
        "instance": "text",
        "profile": "text",
        "slot": "text",
        "node": "text",
        "namespace": "text",
        "pod": "text",
        "uid": "text",
        "container": "text",
        "vgpu": "text",
        "model": "text",
        "source": "text",
    },
    ("series",),
)
"""`series` is a stable 63-bit hash of all other columns. `metric` is an `Activity`; `name` what was read;
`card` the UUID; `instance` and `profile` the MIG instance ("" for a whole card); `node` "" where unknown;
`namespace`, `pod`, `uid` the workload's, never the exporter's ("" where none is named)."""

RUNS = Table(
    "runs",
    {
        "kind": "text",
        "node": "text",
        "namespace": "text",
        "pod": "text",
        "uid": "text",
        "container": "text",
        "resource": "text",
        "detail": "text",
        "text": "text",
        "value": "float",
        "from_ms": "int",
        "to_ms": "int",
        "interval_ms": "int",
        "name": "text",
    },
    ("kind", "namespace", "pod", "uid", "container", "node", "resource", "detail", "from_ms", "text"),
)
"""`from_ms` and `to_ms` are the first and last sample (both inclusive, same UTC day); `interval_ms` is the median
spacing of the series in that day (a lone sample: the metric's, else 60,000)."""

SCRAPES = Table("scrapes", {"target": "text", "ts_ms": "int"}, ("target", "ts_ms"))
"""Each moment at which a target that tells the cluster's state answered: between two of them lie the changes that
only samples show. As many rows as scrapes, however many GPUs there are."""

COVERAGE = Table(
    "coverage",
    {
        "source": "text",
        "from_ms": "int",
        "to_ms": "int",
        "complete": "bool",
        "gap_limit_ms": "int",
        "names": "text",
        "notes": "text",
        "version": "text",
    },
    ("source", "from_ms"),
)
"""What has been read of a day: `names` is a JSON object kind -> metric name used, `notes` a JSON list of gaps
`{reason, where}`."""

PRICES = Table(
    "prices",
    {
        "source": "text",
        "node": "text",
        "flavor": "text",
        "from_ms": "int",
        "to_ms": "int",
        "gpu_count": "float",
        "gpu_hours": "float",
        "gpu_cost": "text",
        "total_cost": "text",
        "adjustment": "text",
        "currency": "text",
        "basis": "text",
    },
    ("source", "node", "from_ms"),
)
"""Cost of a node over a span as a cost source states it; amounts are decimal strings."""

OUTCOMES = Table(
    "outcomes",
    {
        "source": "text",
        "outcome_id": "text",
        "attempt": "int",
        "kind": "text",
        "started_us": "int",
        "ended_us": "int",
        "cluster": "text",
        "namespace": "text",
        "workload_kind": "text",
        "workload": "text",
        "pod_uid": "text",
        "node": "text",
        "gpu_uuid": "text",
        "service": "text",
        "model": "text",
        "exec_status": "text",
        "error_type": "text",
        "input_tokens": "int",
        "cached_input_tokens": "int",
        "output_tokens": "int",
        "ttft_us": "int",
        "tpot_us": "int",
        "queue_us": "int",
        "units": "int",
        "stratum": "text",
        "sample_weight": "float",
        "ingested_us": "int",
        "source_file_sha256": "text",
    },
    ("source", "outcome_id", "attempt"),
)
"""One row per attempt at a unit of work, in the partition of its end; a missing number is -1, a missing word ""."""

VERDICTS = Table(
    "verdicts",
    {
        "verdict_id": "text",
        "source": "text",
        "outcome_id": "text",
        "attempt": "int",
        "check": "text",
        "evaluator_kind": "text",
        "evaluator": "text",
        "evaluator_version": "text",
        "score": "float",
        "label": "text",
        "result": "text",
        "decided_us": "int",
        "ingested_us": "int",
        "revision": "int",
        "supersedes": "text",
        "retracted": "bool",
        "source_file_sha256": "text",
    },
    ("verdict_id", "revision"),
)
"""Results of checks, in the partition of the outcome's end (an orphan: of `decided_us`)."""

SERVING = Table(
    "serving",
    {
        "kind": "text",
        "namespace": "text",
        "pod": "text",
        "model": "text",
        "edge_s": "float",
        "from_ms": "int",
        "span_ms": "int",
        "value": "float",
        "name": "text",
    },
    ("kind", "namespace", "pod", "model", "from_ms", "edge_s"),
)
"""What model servers counted in each five minutes from `from_ms` on: `value` requests in the `span_ms` of them that
samples cover. `kind` is `requests` (those that finished; `edge_s` is infinite), or the latency whose histogram it is:
`ttft`, `tpot` or `e2e`, then `value` counts those of at most `edge_s` seconds. `prompt_tokens` and `output_tokens` are
histograms too, whose edges are tokens."""

CAPACITY = Table(
    "capacity",
    {
        "service": "text",
        "started_ms": "int",
        "expires_ms": "int",
        "model": "text",
        "config_digest": "text",
        "provenance": "text",
        "level": "text",
        "confidence": "text",
        "certified_rps": "text",
        "refuted_rps": "text",
        "estimate_rps": "text",
        "limited_by": "text",
        "replicas": "int",
        "gpus_per_replica": "int",
        "objectives": "text",
        "curve": "text",
        "inputs_digest": "text",
    },
    ("service", "started_ms", "inputs_digest"),
)
"""What a service was measured to sustain, in the partition of the day it was measured. Rates are decimal strings (""
where none is certified or refuted), a number that is not known is -1. `curve` is a JSON list of the steady probes
`{rate_rps, status, kept: {NAME: [share, lo, hi]}}`; the document is in `documents/` under `inputs_digest`."""

CONFIGS = Table(
    "configs",
    {"service": "text", "digest": "text", "ts_ms": "int", "engine": "text"},
    ("service", "digest"),
)
"""What services told of their settings, and when last in a day: `digest` as in measurements. No part of the ledger's
digest, for it is of the moment of a collection and not of its window."""

WORKLOADS = Table(
    "workloads",
    {
        "uid": "text",
        "namespace": "text",
        "name": "text",
        "kind": "text",
        "owner": "text",
        "queue": "text",
        "cluster_queue": "text",
        "flavors": "text",
        "gpus": "int",
        "created_ms": "int",
        "reserved_ms": "int",
        "admitted_ms": "int",
        "finished_ms": "int",
        "run_ms": "int",
        "succeeded": "text",
        "evictions": "int",
    },
    ("finished_ms", "uid"),
)
"""Workloads of Kueue that have finished, in the partition of the day they did, kept because Kueue may delete them. A
number that is not known is -1; `flavors` are joined by commas, `owner` is what made the job ("" for nothing), `run_ms`
is all that it ran, `succeeded` is yes, no or "". No part of the ledger's digest: they are of the moment of a
collection and not of its window."""

STARTS = Table(
    "starts",
    {
        "uid": "text",
        "namespace": "text",
        "name": "text",
        "queue": "text",
        "gpus": "int",
        "planned_ms": "int",
        "first_ms": "int",
        "started_ms": "int",
        "because": "text",
    },
    ("started_ms", "uid"),
)
"""Jobs of planned queues that began, in the partition of the day they did: the start of the plan in force, the first
start that any plan gave, the real one, and why then. -1 is not known. No part of the ledger's digest either."""

OF_MOMENTS = (CONFIGS, WORKLOADS, STARTS)
"""What was seen at the moment of a collection: no part of the ledger's digest."""

ALL_TABLES = (SAMPLES, SERIES, RUNS, SCRAPES, COVERAGE, PRICES, OUTCOMES, VERDICTS, SERVING, CAPACITY)
