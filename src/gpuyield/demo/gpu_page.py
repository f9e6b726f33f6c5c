"""What dcgm-exporter would print of the GPU that the model-server double pretends to have.

It is busy whenever a request is in a slot: that is what DCGM_FI_DEV_GPU_UTIL says of a real one, however many more
requests would fit into the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuyield.demo.language_model import LogRow

SPAN_NS = 1_000_000_000
_MOST_ROWS = 4_000
_LONGEST_NS = 30 * SPAN_NS
_IDLE_W, _BUSY_W = 60.0, 600.0


def gpu_text(log: Sequence[LogRow], now_ns: int, *, pod: str = "", name: str = "GPU-double") -> str:
    """The page: busy is the share of the last second in which a request was in a slot, in percent.

    `pod` is `NAMESPACE/NAME` of the pod that holds the GPU, if any.
    """
    share = busy_ns(log[-_MOST_ROWS:], now_ns - SPAN_NS, now_ns) / SPAN_NS
    labels = f'gpu="0",UUID="{name}",device="nvidia0",modelName="pretended"'
    if pod:
        namespace, _, pod_name = pod.partition("/")
        labels += f',namespace="{namespace}",pod="{pod_name}",container="main"'
    lines = []
    for metric, kind, value in (
        ("DCGM_FI_DEV_GPU_UTIL", "gauge", f"{share * 100:.0f}"),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge", f"{_IDLE_W + share * (_BUSY_W - _IDLE_W):.3f}"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", f"{now_ns // 1_000_000}"),
    ):
        lines += [f"# TYPE {metric} {kind}", f"{metric}{{{labels}}} {value}"]
    return "\n".join(lines) + "\n"


def busy_ns(log: Sequence[LogRow], from_ns: int, to_ns: int) -> int:
    """How long of `[from, to)` at least one request was in a slot.

    One without a token yet still is, unless it began so long ago that its client must have gone.
    """
    spans = sorted(
        (max(row.begun_ns, from_ns), min(row.last_ns if row.last_ns >= 0 else to_ns, to_ns))
        for row in log
        if row.begun_ns >= 0 and (row.last_ns >= 0 or row.begun_ns >= from_ns - _LONGEST_NS)
    )
    total, reached = 0, from_ns
    for begin, end in spans:
        if end > reached:
            total += end - max(begin, reached)
            reached = end
    return total
