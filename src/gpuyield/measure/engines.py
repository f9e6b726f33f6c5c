"""The names under which model servers tell what they do: data, newest first, and one reading of their page.

Several processes of one engine may print the same gauge: the largest counts, once. Engines and data-parallel ranks have
requests of their own: they add up. Their caches do not: the fullest one limits.
Source: recorded pages of vLLM 0.6 to 2026, SGLang 0.3 to 0.5, TGI, Triton, TensorRT-LLM, llama.cpp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpuyield.model.exposition import Sample, samples_of
from gpuyield.model.witness import GpuReading, Histogram, ServerReading

_COPIES = ("pid", "tp_rank", "pp_rank", "moe_ep_rank", "engine_type")
"""Labels that tell processes of one engine apart."""

_MILLI = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    running: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    kv_used: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()
    ttft: tuple[tuple[str, float], ...] = ()
    """Name and unit in seconds; likewise `tpot`."""
    tpot: tuple[tuple[str, float], ...] = ()


_ENGINES = (
    _Names(
        running=("vllm:num_requests_running",),
        waiting=("vllm:num_requests_waiting",),
        kv_used=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        finished=("vllm:request_success_total",),
        ttft=(("vllm:time_to_first_token_seconds", 1.0),),
        tpot=(
            ("vllm:request_time_per_output_token_seconds", 1.0),
            ("vllm:inter_token_latency_seconds", 1.0),
            ("vllm:time_per_output_token_seconds", 1.0),
        ),
    ),
    _Names(
        running=("sglang:num_running_reqs",),
        waiting=("sglang:num_queue_reqs",),
        kv_used=("sglang:token_usage",),
        finished=("sglang:num_requests_total",),
        ttft=(("sglang:time_to_first_token_seconds", 1.0),),
        tpot=(("sglang:time_per_output_token_seconds", 1.0), ("sglang:inter_token_latency_seconds", 1.0)),
    ),
    _Names(
        running=("tgi_batch_current_size",),
        waiting=("tgi_queue_size",),
        finished=("tgi_request_success",),
        tpot=(("tgi_request_mean_time_per_token_duration", 1.0),),
    ),
    _Names(
        waiting=("nv_inference_pending_request_count",),
        ttft=(("nv_inference_first_response_histogram_ms", _MILLI),),
    ),
    _Names(
        finished=("trtllm:request_success_total",),
        ttft=(("trtllm:time_to_first_token_seconds", 1.0),),
        tpot=(("trtllm:time_per_output_token_seconds", 1.0),),
    ),
    _Names(
        running=("llamacpp:requests_processing",),
        waiting=("llamacpp:requests_deferred",),
        kv_used=("llamacpp:kv_cache_usage_ratio",),
    ),
)
_PROMPT_LENGTHS = (
    ("vllm:request_prompt_tokens", 1.0),
    ("sglang:prompt_tokens_histogram", 1.0),
    ("tgi_request_input_length", 1.0),
)
_OUTPUT_LENGTHS = (
    ("vllm:request_generation_tokens", 1.0),
    ("sglang:generation_tokens_histogram", 1.0),
    ("tgi_request_generated_tokens", 1.0),
)
ENGINES = {
    "vllm:": "vllm",
    "sglang:": "sglang",
    "tgi_": "tgi",
    "nv_inference_": "triton",
    "trtllm:": "trtllm",
    "llamacpp:": "llamacpp",
}
"""Names of engines, by what only their metrics begin with."""
_PREFIXES = (*ENGINES, "nv_")
_STARTED = "process_start_time_seconds"
_TRITON_GPU = "nv_gpu_utilization"


def server_reading(page: str, at_ns: int) -> ServerReading | None:
    """What a server's page says; None where no known engine speaks."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples_of(page, prefixes=(*_PREFIXES, _STARTED)):
        by_name.setdefault(sample.name, []).append(sample)
    started = next((one.text for one in by_name.get(_STARTED, ())), None)
    for names in _ENGINES:
        found = _read(names, by_name, at_ns, started)
        if found is not None:
            return found
    return None


def length_histograms(page: str) -> tuple[Histogram | None, Histogram | None]:
    """Prompt and output lengths in tokens since the server started; edges and sum are tokens here, not seconds."""
    by_name: dict[str, list[Sample]] = {}
    for sample in samples_of(page, prefixes=_PREFIXES):
        by_name.setdefault(sample.name, []).append(sample)
    return _histogram(_PROMPT_LENGTHS, by_name), _histogram(_OUTPUT_LENGTHS, by_name)


def gpu_reading_of_server(page: str, at_ns: int) -> GpuReading | None:
    """How busy the GPUs are by the server's own page: Triton tells it; None elsewhere."""
    samples = samples_of(page, prefixes=("nv_gpu_", "nv_energy_"))
    busy = {
        one.labels.get("gpu_uuid", ""): one.value
        for one in samples
        if one.name == _TRITON_GPU and 0 <= one.value <= 1 and one.labels.get("gpu_uuid")
    }
    mark = " ".join(one.text for one in samples)
    return GpuReading(at_ns=at_ns, metric=_TRITON_GPU, busy=busy, mark=mark) if busy else None


def _read(
    names: _Names, by_name: Mapping[str, Sequence[Sample]], at_ns: int, started: str | None
) -> ServerReading | None:
    kv = [one for one in _per_engine(names.kv_used, by_name) if 0 <= one <= 1]
    found = ServerReading(
        at_ns=at_ns,
        started=started,
        running=_sum(_per_engine(names.running, by_name)),
        waiting=_sum(_per_engine(names.waiting, by_name)),
        kv_used=max(kv, default=None),
        finished=_sum(one.value for one in _first(names.finished, by_name)),
        ttft=_histogram(names.ttft, by_name),
        tpot=_histogram(names.tpot, by_name),
    )
    told = (found.running, found.waiting, found.kv_used, found.finished, found.ttft, found.tpot)
    return None if all(one is None for one in told) else found


def _first(names: Iterable[str], by_name: Mapping[str, Sequence[Sample]]) -> Sequence[Sample]:
    return next((by_name[name] for name in names if name in by_name), ())


def _per_engine(names: Iterable[str], by_name: Mapping[str, Sequence[Sample]]) -> list[float]:
    """The gauge of each engine: the largest of its processes."""
    largest: dict[tuple[tuple[str, str], ...], float] = {}
    for one in _first(names, by_name):
        if math.isfinite(one.value):
            key = tuple(sorted((name, value) for name, value in one.labels.items() if name not in _COPIES))
            largest[key] = max(largest.get(key, -math.inf), one.value)
    return list(largest.values())


def _sum(values: Iterable[float]) -> float | None:
    """The sum; None of nothing, and where one of them cannot be a number of requests."""
    listed = list(values)
    return sum(listed) if listed and all(math.isfinite(one) and one >= 0 for one in listed) else None


def _histogram(names: Iterable[tuple[str, float]], by_name: Mapping[str, Sequence[Sample]]) -> Histogram | None:
    for name, unit_s in names:
        # Triton prints the buckets under the plain name.
        buckets = by_name.get(f"{name}_bucket") or by_name.get(name)
        totals = by_name.get(f"{name}_sum")
        if not buckets or not totals:
            continue
        counts: dict[float, float] = {}
        for one in buckets:
            edge = _edge(one.labels.get("le", ""))
            if edge is not None and math.isfinite(one.value):
                counts[edge * unit_s] = counts.get(edge * unit_s, 0.0) + one.value
        edges = sorted(counts)
        rising = [counts[edge] for edge in edges]
        if edges and edges[-1] == math.inf and rising == sorted(rising):
            total = sum(one.value for one in totals) * unit_s
            return Histogram(edges_s=tuple(edges), counts=tuple(rising), sum_s=total)
    return None


def _edge(text: str) -> float | None:
    try:
        edge = float(text)
    except ValueError:
        return None
    return None if math.isnan(edge) else edge
