"""What model servers counted: requests and latency histograms, as growth in each five minutes.

A counter grows between two samples of its series; where it fell, the server began anew, and what it shows has come
since. Growth is spread evenly over the time between its two samples; between samples further apart than the gap limit
nothing is known.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuyield.collect.prometheus import Prometheus, RawSeries
from gpuyield.ledger import Columns
from gpuyield.ledger.tables import SERVING
from gpuyield.units import MINUTE_MS, Window

BIN_MS = 5 * MINUTE_MS

REQUESTS, TTFT, TPOT, E2E = "requests", "ttft", "tpot", "e2e"
PROMPT, OUTPUT = "prompt_tokens", "output_tokens"

_SERVED = (
    (REQUESTS, ("vllm:request_success_total", "sglang:num_requests_total", "trtllm:request_success_total")),
    (REQUESTS, ("tgi_request_success", "tgi_request_success_total")),
    (TTFT, tuple(f"{engine}:time_to_first_token_seconds_bucket" for engine in ("vllm", "sglang", "trtllm"))),
    (TPOT, ("vllm:request_time_per_output_token_seconds_bucket", "tgi_request_mean_time_per_token_duration_bucket")),
    (E2E, tuple(f"{engine}:e2e_request_latency_seconds_bucket" for engine in ("vllm", "sglang", "trtllm"))),
    (
        PROMPT,
        (
            "vllm:request_prompt_tokens_bucket",
            "sglang:prompt_tokens_histogram_bucket",
            "tgi_request_input_length_bucket",
        ),
    ),
    (
        OUTPUT,
        (
            "vllm:request_generation_tokens_bucket",
            "sglang:generation_tokens_histogram_bucket",
            "tgi_request_generated_tokens_bucket",
        ),
    ),
)
"""Kind and the metrics that tell it; time per token only where a histogram counts requests and not tokens."""

NAMES: tuple[str, ...] = tuple(name for _, names in _SERVED for name in names)


class Counted(NamedTuple):
    """What identifies a row of the ledger's table, in the order of its columns."""

    kind: str
    namespace: str
    pod: str
    model: str
    edge_s: float
    from_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Growth within `span_ms` of the five minutes."""

    span_ms: int
    value: float
    name: str


def read_serving(
    source: Prometheus, present: Iterable[str], window: Window, *, gap_limit_ms: int, chunk_ms: int | None = None
) -> dict[Counted, Served]:
    """Everything that model servers counted in the window.

    Raises:
        SourceError: Out of reach, refusing, or answering nonsense.
    """
    there = set(present)
    before = Window(window.from_ms - gap_limit_ms, window.to_ms)
    found: dict[Counted, Served] = {}
    for kind, names in _SERVED:
        for name in names:
            if name in there:
                series = source.raw(name, (), before, chunk_ms=chunk_ms)
                for key, served in counted(kind, name, series, window, gap_limit_ms=gap_limit_ms).items():
                    found.setdefault(key, served)
    return found


def counted(
    kind: str, name: str, series: Sequence[RawSeries], window: Window, *, gap_limit_ms: int
) -> dict[Counted, Served]:
    """The growth of one metric's series by pod, edge and five minutes; those of one pod and edge add up."""
    values: dict[Counted, float] = defaultdict(float)
    spans: dict[Counted, dict[str, int]] = defaultdict(dict)
    for one in series:
        edge_s = _edge(kind, one.labels)
        if edge_s is None:
            continue
        place = (kind, one.labels.get("namespace", ""), one.labels.get("pod") or one.labels.get("instance", ""))
        mark = "/".join(f"{label}={text}" for label, text in sorted(one.labels.items()))
        for from_ms, span_ms, value in growth(one.ts_ms, one.values, window, gap_limit_ms=gap_limit_ms):
            key = Counted(*place, one.labels.get("model_name", ""), edge_s, from_ms)
            values[key] += value
            spans[key][mark] = span_ms
    return {
        key: Served(span_ms=max(spans[key].values()), value=value, name=name) for key, value in sorted(values.items())
    }


def growth(
    ts_ms: npt.NDArray[np.int64], values: npt.NDArray[np.float64], window: Window, *, gap_limit_ms: int
) -> list[tuple[int, int, float]]:
    """Of each five minutes with any: its start, how much of it samples cover, and how much the counter grew."""
    kept = np.isfinite(values) & (values >= 0)
    times, counts = ts_ms[kept], values[kept]
    spans: dict[int, int] = defaultdict(int)
    grown: dict[int, float] = defaultdict(float)
    for begin, end, before, after in zip(
        times[:-1].tolist(), times[1:].tolist(), counts[:-1].tolist(), counts[1:].tolist(), strict=True
    ):
        if end - begin > gap_limit_ms:
            continue
        more = after - before if after >= before else after
        at = max(begin, window.from_ms)
        while at < min(end, window.to_ms):
            start = at // BIN_MS * BIN_MS
            stop = min(start + BIN_MS, end, window.to_ms)
            spans[start] += stop - at
            grown[start] += more * (stop - at) / (end - begin)
            at = stop
    return [(start, spans[start], grown[start]) for start in sorted(spans)]


def united(old: Mapping[str, npt.NDArray[Any]], fresh: Mapping[Counted, Served]) -> Columns:
    """The rows of a day with what was read anew; of the same five minutes those count that cover more of them."""
    rows = dict(fresh)
    columns = [old[name].tolist() for name in SERVING.columns]
    for kind, namespace, pod, model, edge_s, from_ms, span_ms, value, name in zip(*columns, strict=True):
        key = Counted(kind, namespace, pod, model, edge_s, from_ms)
        if key not in rows or rows[key].span_ms < span_ms:
            rows[key] = Served(span_ms=span_ms, value=value, name=name)
    listed = sorted(rows.items())
    return {
        **{field: [getattr(key, field) for key, _ in listed] for field in Counted._fields},
        "span_ms": [one.span_ms for _, one in listed],
        "value": [one.value for _, one in listed],
        "name": [one.name for _, one in listed],
    }


def _edge(kind: str, labels: Mapping[str, str]) -> float | None:
    """The upper edge of a bucket; infinite for a plain counter, None for what is no edge."""
    if kind == REQUESTS:
        return math.inf
    try:
        edge = float(labels.get("le", ""))
    except ValueError:
        return None
    return None if math.isnan(edge) else edge
