"""Whether the sender could keep its schedule, from what it saw of itself: lateness, loop, processor, self-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gpuyield.model.measure import NANOS, SenderHealth

LARGEST_CEILING_SHARE = 0.5
LAG_SHARE = 0.05
"""Slip up to this share of the strictest latency limit leaves a probe valid."""

_LARGEST_THROTTLED_SHARE = 0.01
_WHAT_TO_DO = (
    "Give the sender more CPU (a whole core, no CPU limit), run it away from the server, or measure at a lower rate."
)
_SAME_CLOCK = "Keep the clocks of the nodes in step (chrony, NTP), or send from fewer nodes."


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What the workers saw during a run. `waited_s`: ready to run without a processor (None: the system won't say).

    `apart` says that senders that share a run may not have sent together; empty where they did.
    """

    lags_ns: NANOS
    loop_lags_ns: NANOS
    throttled_s: float
    waited_s: float | None
    duration_s: float
    shortage: str
    lost_worker: bool = False
    apart: str = ""


def judge(vitals: Vitals, *, ceiling_share: float | None, lag_limit_s: float) -> SenderHealth:
    """The verdict on the sender; `why` says what is wrong and what to do.

    Source: measuring.md 5, the validity gate: slip p99 over 5 % of the latency limit, or more than half of the
    ceiling, makes a probe invalid.
    """
    lag_s = percentile_s(vitals.lags_ns)
    loop_lag_s = percentile_s(vitals.loop_lags_ns)
    wrong = []
    if vitals.lost_worker:
        wrong.append("a sender process died")
    if vitals.shortage:
        wrong.append(f"the sender ran out of something of its own ({vitals.shortage})")
    if lag_s > lag_limit_s:
        wrong.append(f"1 % of the requests were sent more than {_ms(lag_s)} late (limit {_ms(lag_limit_s)})")
    if loop_lag_s > lag_limit_s:
        wrong.append(f"1 % of the time answers were read more than {_ms(loop_lag_s)} late (limit {_ms(lag_limit_s)})")
    if vitals.throttled_s > _LARGEST_THROTTLED_SHARE * vitals.duration_s:
        wrong.append(f"its CPU limit stopped it for {vitals.throttled_s:.1f} s")
    if ceiling_share is not None and ceiling_share > LARGEST_CEILING_SHARE:
        wrong.append(f"the rate is {ceiling_share:.0%} of what the sender can do at all")
    if wrong and vitals.waited_s is not None and vitals.waited_s > 0.1 * vitals.duration_s:
        wrong.append(f"it was ready but without a CPU for {vitals.waited_s:.1f} s of {vitals.duration_s:.1f} s")
    if vitals.apart:
        why = f"The senders did not send together: {'; '.join([vitals.apart, *wrong])}. {_SAME_CLOCK}"
    else:
        fix = "Raise the limit of open files (ulimit -n)." if vitals.shortage else _WHAT_TO_DO
        why = f"The sender was too slow: {'; '.join(wrong)}. {fix}" if wrong else ""
    return SenderHealth(
        lag_p99_s=lag_s,
        loop_lag_p99_s=loop_lag_s,
        throttled_s=vitals.throttled_s,
        ceiling_share=ceiling_share,
        valid=not why,
        why=why,
    )


def together(parts: Sequence[Vitals], *, lost_worker: bool = False, apart: str = "") -> Vitals:
    """The vitals of senders that shared a run: all their lags, and the worst of what else each saw."""
    nothing = np.zeros(0, dtype=np.int64)
    waits = [one.waited_s for one in parts if one.waited_s is not None]
    return Vitals(
        lags_ns=np.concatenate([nothing, *(one.lags_ns for one in parts)]),
        loop_lags_ns=np.concatenate([nothing, *(one.loop_lags_ns for one in parts)]),
        throttled_s=max((one.throttled_s for one in parts), default=0.0),
        waited_s=max(waits, default=None),
        duration_s=max((one.duration_s for one in parts), default=0.0),
        shortage=next((one.shortage for one in parts if one.shortage), ""),
        lost_worker=lost_worker or any(one.lost_worker for one in parts),
        apart=apart,
    )


def percentile_s(lags_ns: NANOS) -> float:
    """The 99th percentile of lags, in seconds; 0 without any."""
    return float(np.percentile(lags_ns, 99)) / 1e9 if len(lags_ns) else 0.0


def throttled_ns(root: Path = Path("/sys/fs/cgroup")) -> int:
    """How long the CPU limit of our control group has stopped us so far; 0 where nothing says so."""
    for place, key, factor in (("cpu.stat", "throttled_usec", 1_000), ("cpu/cpu.stat", "throttled_time", 1)):
        try:
            text = (root / place).read_text()
        except OSError:
            continue
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == key and value.strip().isdigit():
                return int(value) * factor
    return 0


def waited_ns() -> int | None:
    """How long this process was ready to run without a processor; None where the system does not count it."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
