"""What is missing in a collected window, in words a person can act on."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from gpuyield.collect.days import Covered
from gpuyield.model.evidence import Gap
from gpuyield.units import DAY_MS, HOUR_MS, Window, format_duration, merge_windows

NO_ACTIVITY = "no activity metric"
NO_POD_LABELS = "no pod labels"
NO_REQUESTS = "no requests"

_SENTENCES = (
    (
        NO_ACTIVITY,
        "dcgm-exporter",
        (
            "No activity metric in {span} (looked for DCGM_FI_PROF_SM_ACTIVE, DCGM_FI_PROF_GR_ENGINE_ACTIVE,"
            " DCGM_FI_DEV_GPU_UTIL and their newer names). Allocated GPU time is shown, all of it unobserved."
            " Install dcgm-exporter; gpuyield doctor says what each missing metric costs."
        ),
    ),
    (
        NO_POD_LABELS,
        "dcgm-exporter",
        (
            "DCGM samples carry no pod label, so busy time cannot be given to teams. Set"
            " DCGM_EXPORTER_KUBERNETES=true on dcgm-exporter. Cluster totals are still shown."
        ),
    ),
    (
        NO_REQUESTS,
        "kube-state-metrics",
        (
            "No GPU requests in {span} (looked for kube_pod_container_resource_requests). Who holds GPUs is not"
            " known. Install kube-state-metrics, or let Prometheus scrape it."
        ),
    ),
)


def gaps_of(window: Window, covered: Iterable[Covered], *, end_ms: int) -> list[Gap]:
    """What is missing in a window, in words for a person.

    `end_ms` is the time up to which samples could be there.
    """
    listed = sorted(covered)
    gaps: list[Gap] = []
    asked = window.cut(Window(min(window.from_ms, end_ms), end_ms))
    seen = [piece for one in listed if (piece := one.window.cut(window)) is not None]
    if asked is None:
        return gaps
    if not any(json.loads(one.names) for one in listed):
        return [
            Gap(
                reason=f"Nothing of this cluster in the last {_in_words(asked.length_ms)}: neither kube-state-metrics"
                " nor a GPU exporter has samples there. Is it the right Prometheus?",
                where="sources.prometheus",
                window=asked,
            )
        ]
    first_ms = min(piece.from_ms for piece in seen)
    if first_ms - asked.from_ms > HOUR_MS:
        gaps.append(_too_little(asked, first_ms))
    gaps.extend(_missing_metrics(asked, listed))
    gaps.extend(
        Gap(reason=reason, where=where, window=one.window.cut(window) or one.window)
        for one in listed
        for reason, where in one.listed_notes()
        if reason not in (NO_ACTIVITY, NO_POD_LABELS, NO_REQUESTS)
    )
    return gaps


def _missing_metrics(asked: Window, listed: list[Covered]) -> list[Gap]:
    last = _in_words(asked.length_ms)
    by_reason: dict[str, list[Window]] = {}
    for one in listed:
        piece = one.window.cut(asked)
        for reason, _ in one.listed_notes():
            if piece is not None:
                by_reason.setdefault(reason, []).append(piece)
    gaps: list[Gap] = []
    for reason, where, text in _SENTENCES:
        for piece in merge_windows(by_reason.get(reason, ())):
            span = f"the last {last}" if piece == asked else str(piece)
            gaps.append(Gap(reason=text.format(span=span), where=where, window=piece))
    return gaps


def _too_little(asked: Window, first_ms: int) -> Gap:
    full = datetime.fromtimestamp((first_ms + asked.length_ms) // 1000, UTC)
    has_ms = asked.to_ms - first_ms
    weekly = "" if has_ms >= 7 * DAY_MS else " a weekly rhythm cannot be seen."
    return Gap(
        reason=f"Asked for {_in_words(asked.length_ms)}, Prometheus has {_in_words(has_ms)}. Using those"
        f"{';' + weekly if weekly else '.'} Collect daily: a full answer is possible from {full.day} {full:%b}.",
        where="sources.prometheus",
        window=Window(asked.from_ms, first_ms),
    )


def _in_words(length_ms: int) -> str:
    """`3 d 4 h`, to the hour; below one hour exactly."""
    if length_ms < HOUR_MS:
        return format_duration(length_ms)
    days, hours = divmod(round(length_ms / HOUR_MS), 24)
    return " ".join(f"{count} {unit}" for count, unit in ((days, "d"), (hours, "h")) if count)
