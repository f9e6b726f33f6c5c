"""A measurement written by hand: certified, refuted, with witnesses, as `gpuyield measure` writes one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuyield.report.measure_page import measure_page
from gpuyield.report.page import Page
from gpuyield.units import DAY_MS, parse_instant
from report.samples import BERLIN

STARTED = "2026-11-20T10:00:00Z"
EXPIRES = "2027-02-18T10:00:00Z"
NOW_MS = parse_instant(STARTED) + 3 * DAY_MS


def measured(
    *,
    certified: float | None = 12.4,
    refuted: float | None = 15.2,
    gpus: bool = True,
    server: bool = True,
    service: str = "support-chat",
) -> dict[str, Any]:
    """The document; without a certified rate nothing is said of GPUs and more requests."""
    seen = gpus and certified is not None
    return {
        "schema": "gpuyield/measure/v1alpha1",
        "service": service,
        "started_at": STARTED,
        "config": {"engine": "vllm", "version": "0.11", "model": "llama-70b", "settings": {}, "digest": "sha256:ab"},
        "objectives": [objective("ttft", 0.8, 0.95), objective("answered", None, 0.999)],
        "arrival": "poisson",
        "representative": None,
        "level": "standard",
        "probes": [
            probe("ceiling", 100.0, "undecided", kept=None),
            probe("search", 9.0, "pass", kept=(0.999, 0.99, 1.0), gpu=0.92 if gpus else None, waits=server),
            probe("search", 13.1, "undecided", kept=(0.962, 0.93, 0.985), gpu=0.97 if gpus else None, waits=server),
            probe("confirm", 12.4, "pass", kept=(0.981, 0.965, 0.99), gpu=0.95 if gpus else None, waits=server),
            probe("refute", 15.2, "fail", kept=(0.71, 0.6, 0.8), gpu=0.99 if gpus else None, waits=server),
            probe("confirm", 12.4, "invalid", kept=(0.2, 0.1, 0.3)),
        ],
        "result": {
            "certified_rps": certified,
            "refuted_rps": refuted,
            "estimate_rps": 13.1,
            "confidence": 0.95,
            "limited_by": "ttft",
            "replicas": None,
            "gpus_per_replica": None,
            "certified_rps_per_gpu": None,
            "stopped_because": "decided" if certified is not None else "not_certified",
            "expires_at": EXPIRES,
        },
        "busy_and_more": {
            "rate_rps": 9.0,
            "gpu_busy": 0.92,
            "gpus": 4,
            "metric": "DCGM_FI_DEV_GPU_UTIL",
            "more_requests": 12.4 / 9 - 1,
        }
        if seen
        else None,
        "gaps": [{"reason": "the load was not compared", "where": "representative", "window": None, "gpu_ms": None}],
        "inputs_digest": "sha256:" + "cd" * 32,
    }


def measured_page(document: Mapping[str, Any] | None = None, *, now_ms: int = NOW_MS) -> Page:
    """The page of it."""
    return measure_page(document or measured(), now_ms=now_ms, zone=BERLIN, version="1.2.3", path="m.json")


def objective(name: str, limit_s: float | None, share: float) -> dict[str, Any]:
    """One of a document."""
    return {
        "name": name,
        "metric": name if limit_s else "error",
        "check": None,
        "at_most_s": limit_s,
        "at_least": None,
        "at_most": None,
        "share": share,
    }


def probe(
    phase: str,
    rate: float,
    status: str,
    *,
    kept: tuple[float, float, float] | None,
    gpu: float | None = None,
    waits: bool = False,
) -> dict[str, Any]:
    """A probe; `kept` is the share that kept ttft, with its bounds."""
    share, lo, hi = kept or (0.0, 0.0, 0.0)
    found = {"met": round(share * 1000), "n": 1000, "pending": 0, "n_eff": 81.0, "inflation": 12.0, "lo": lo, "hi": hi}
    steady = phase != "ceiling"
    return {
        "phase": phase,
        "rate_rps": rate,
        "requests": 1000,
        "failed": 0,
        "achieved_rps": rate,
        "goodput_rps": rate * share if steady else None,
        "attainment": {"ttft": found, "answered": {**found, "met": 1000, "hi": 1.0}} if steady else {},
        "status": status,
        "reason": "all objectives kept" if status == "pass" else "ttft not kept: too many missed",
        "witness": {
            "server": {
                "readings": 20,
                "running": {"mean": 12.0, "most": 16},
                "waiting": {"mean": rate - 8, "most": 3 * rate - 20},
                "kv_used": {"mean": min(1.0, rate / 15), "most": 1.0},
                "finished": 1000,
                "others": 0,
                "ttft_s": {"n": 1000, "mean": 0.2, "p50_over": 0.1, "p50_at_most": 0.25},
                "tpot_s": None,
            }
            if waits
            else None,
            "gpu": None
            if gpu is None
            else {"metric": "DCGM_FI_DEV_GPU_UTIL", "gpus": 4, "readings": 20, "busy": gpu, "least": gpu, "most": gpu},
            "remarks": [],
        },
    }
