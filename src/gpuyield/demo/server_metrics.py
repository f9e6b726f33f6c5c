"""What the model-server double counts, as vLLM names it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpuyield.demo.engine import Engine, EngineSettings

_SECONDS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 30.0, 60.0)
_TOKENS = tuple(float(step * 10**power) for power in range(5) for step in (1, 2, 5))


@dataclass(slots=True)
class Histogram:
    """Counts by upper edge."""

    edges: Sequence[float] = _SECONDS
    counts: list[int] = field(default_factory=list)
    total: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.edges) + 1)

    def see(self, value: float) -> None:
        """Count one."""
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        """The exposition of it."""
        yield f"# TYPE {name} histogram"
        seen = 0
        for edge, count in zip((*map(str, self.edges), "+Inf"), self.counts, strict=True):
            seen += count
            yield f'{name}_bucket{{le="{edge}",{labels}}} {seen}'
        yield f"{name}_sum{{{labels}}} {self.total}"
        yield f"{name}_count{{{labels}}} {seen}"


@dataclass(slots=True)
class Counted:
    """Counters since the start."""

    prompt_tokens: int = 0
    generated_tokens: int = 0
    finished: int = 0
    first_s: Histogram = field(default_factory=Histogram)
    whole_s: Histogram = field(default_factory=Histogram)
    prompts: Histogram = field(default_factory=lambda: Histogram(_TOKENS))
    outputs: Histogram = field(default_factory=lambda: Histogram(_TOKENS))


def metrics_text(counted: Counted, engine: Engine, settings: EngineSettings, *, model: str, started_s: float) -> str:
    """The Prometheus exposition; `started_s` is when the server started, in epoch seconds."""
    labels = f'model_name="{model}"'
    used = engine.running / settings.slots
    lines = [
        "# TYPE vllm:num_requests_running gauge",
        f"vllm:num_requests_running{{{labels}}} {engine.running}",
        "# TYPE vllm:num_requests_waiting gauge",
        f"vllm:num_requests_waiting{{{labels}}} {engine.waiting}",
        "# TYPE vllm:kv_cache_usage_perc gauge",
        f"vllm:kv_cache_usage_perc{{{labels}}} {used}",
        "# TYPE vllm:prompt_tokens_total counter",
        f"vllm:prompt_tokens_total{{{labels}}} {counted.prompt_tokens}",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{{{labels}}} {counted.generated_tokens}",
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{{finished_reason="stop",{labels}}} {counted.finished}',
        "# TYPE vllm:cache_config_info gauge",
        f'vllm:cache_config_info{{slots="{settings.slots}",step_s="{settings.step_s}"}} 1.0',
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {started_s}",
        *counted.first_s.lines("vllm:time_to_first_token_seconds", labels),
        *counted.whole_s.lines("vllm:e2e_request_latency_seconds", labels),
        *counted.prompts.lines("vllm:request_prompt_tokens", labels),
        *counted.outputs.lines("vllm:request_generation_tokens", labels),
    ]
    return "\n".join(lines) + "\n"
