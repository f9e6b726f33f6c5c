"""Outcomes, verdicts, and what they say about the GPU time of an attempt.

An outcome is one attempt at a unit of work and never changes. A verdict is the result of one check on it. The
status is derived from both by a declared policy and is never stored.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

from gpuyield.model.declaration import Metric, OutcomePolicy
from gpuyield.model.waterfall import GpuClass
from gpuyield.units import Window


class OutcomeKind(StrEnum):
    """What the unit of work is."""

    REQUEST = "request"
    JOB = "job"
    JOB_INDEX = "job_index"
    EVAL_ITEM = "eval_item"
    TRAINING_RUN = "training_run"


class ExecStatus(StrEnum):
    """How the execution ended; it says nothing about quality."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class CheckResult(StrEnum):
    """What a check said. `error` means that the check broke: it never counts as a fail."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"
    SKIPPED = "skipped"


class EvaluatorKind(StrEnum):
    """Who or what decided."""

    CODE = "code"
    LLM_JUDGE = "llm_judge"
    HUMAN = "human"
    SYSTEM = "system"


class OutcomeStatus(StrEnum):
    """What became of an attempt; of a logical outcome it is the status of its last attempt."""

    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    REJECTED = "rejected"
    LATE = "late"
    FAILED = "failed"
    SUPERSEDED = "superseded"

    @property
    def gpu_class(self) -> GpuClass:
        """The leaf of the waterfall that busy time of such an attempt belongs to."""
        return _CLASS_BY_STATUS[self]


_CLASS_BY_STATUS = {
    OutcomeStatus.VERIFIED: GpuClass.PRODUCTIVE,
    OutcomeStatus.UNVERIFIED: GpuClass.UNVERIFIED,
    OutcomeStatus.REJECTED: GpuClass.REJECTED,
    OutcomeStatus.LATE: GpuClass.LATE,
    OutcomeStatus.FAILED: GpuClass.FAILED,
    OutcomeStatus.SUPERSEDED: GpuClass.SUPERSEDED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One attempt at a unit of work. Key: cluster, source, outcome_id, attempt. Missing is None or ""."""

    source: str
    outcome_id: str
    attempt: int = 1
    kind: OutcomeKind
    started_us: int
    ended_us: int
    exec_status: ExecStatus
    cluster: str = ""
    namespace: str = ""
    workload_kind: str = ""
    workload: str = ""
    pod_uid: str = ""
    node: str = ""
    gpu_uuid: str = ""
    service: str = ""
    model: str = ""
    error_type: str = ""
    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    output_tokens: int | None = None
    ttft_us: int | None = None
    tpot_us: int | None = None
    queue_us: int | None = None
    units: int = 1
    stratum: str = ""
    sample_weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one check on an outcome; `attempt` None means its final attempt."""

    verdict_id: str
    source: str
    outcome_id: str
    attempt: int | None = None
    check: str
    evaluator_kind: EvaluatorKind
    evaluator: str = ""
    evaluator_version: str = ""
    score: float | None = None
    label: str = ""
    result: CheckResult
    decided_us: int
    revision: int = 0
    supersedes: str = ""
    retracted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSpan:
    """When an attempt ran and what became of it. `pod_uid` None: any pod of the workload.

    Where several spans cover a pod at once, its busy time splits by `weight` (see `shares_over_time`).
    """

    namespace: str
    workload: str
    pod_uid: str | None
    from_ms: int
    to_ms: int
    status: OutcomeStatus
    units: int = 1
    weight: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedSegment:
    """A stretch of time in which the same spans cover a pod; `shares` of its busy time by status sum to 1."""

    window: Window
    shares: Mapping[OutcomeStatus, Fraction]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeResult:
    """A logical outcome: what the customer wanted once, judged by its last attempt."""

    source: str
    outcome_id: str
    status: OutcomeStatus
    service: str
    namespace: str
    workload: str
    ended_ms: int
    units: int
    attempts: int
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What an outcome is measured by: the declared policy, latency limits, and the instant after which it is late.

    Without a policy every check that has a verdict is required. `limits_us` are limits of a single request.
    """

    policy: OutcomePolicy | None = None
    limits_us: Mapping[Metric, int] = field(default_factory=dict)
    deadline_ms: int | None = None


def shares_over_time(spans: Iterable[JudgedSpan]) -> list[JudgedSegment]:
    """Disjoint segments in order, for spans that cover the same pod: how its busy time splits by status.

    Every span gets a part in proportion to its `weight` in each millisecond that it covers; time that none covers
    has no segment. The cost is that of a sweep: n log n steps for n spans.
    """
    ordered = sorted((one for one in spans if one.from_ms < one.to_ms), key=lambda one: one.from_ms)
    ending: list[tuple[int, int, OutcomeStatus, int]] = []
    weight: dict[OutcomeStatus, int] = {}
    count: dict[OutcomeStatus, int] = {}
    edges = sorted({edge for one in ordered for edge in (one.from_ms, one.to_ms)})
    segments: list[JudgedSegment] = []
    taken = 0
    for low, high in itertools.pairwise(edges):
        while ending and ending[0][0] <= low:
            _, _, status, part = heapq.heappop(ending)
            weight[status] -= part
            count[status] -= 1
        while taken < len(ordered) and ordered[taken].from_ms <= low:
            one = ordered[taken]
            heapq.heappush(ending, (one.to_ms, taken, one.status, one.weight))
            weight[one.status] = weight.get(one.status, 0) + one.weight
            count[one.status] = count.get(one.status, 0) + 1
            taken += 1
        present = {status: number for status, number in count.items() if number}
        if present:
            _append(segments, Window(low, high), _shares(present, weight))
    return segments


def _shares(count: Mapping[OutcomeStatus, int], weight: Mapping[OutcomeStatus, int]) -> dict[OutcomeStatus, Fraction]:
    # Weights of 0 (all of it cached, say) still leave the time to somebody: then every span gets the same.
    by_weight = {status: weight[status] for status in count}
    parts = by_weight if any(by_weight.values()) else dict(count)
    total = sum(parts.values())
    return {status: Fraction(parts[status], total) for status in sorted(parts) if parts[status]}


def _append(segments: list[JudgedSegment], window: Window, shares: dict[OutcomeStatus, Fraction]) -> None:
    last = segments[-1] if segments else None
    if last and last.window.to_ms == window.from_ms and last.shares == shares:
        segments[-1] = JudgedSegment(window=Window(last.window.from_ms, window.to_ms), shares=shares)
    else:
        segments.append(JudgedSegment(window=window, shares=shares))
