"""What a service really gets, from what was recorded of it: a log or trace, or the page that its server prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any  # a JSON document

import numpy as np

from gpuyield.measure.engines import length_histograms
from gpuyield.measure.representative import (
    Distance,
    Lengths,
    Profile,
    dispersion_of,
    drawn_lengths,
    lengths_of,
    lengths_of_buckets,
    peak_rps_of,
)
from gpuyield.measure.traces import Trace
from gpuyield.model.measure import NANOS, SECOND_NS

DRAWN = 256
"""Requests that are made up from a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A profile, where it is from in words, and of how many requests (None: not known)."""

    profile: Profile
    source: str
    requests: int | None = None


def profile_of_trace(trace: Trace) -> Profile:
    """Rates, bursts and lengths of recorded requests."""
    span_s = int(trace.offset_ns[-1]) / SECOND_NS
    return Profile(
        peak_rps=peak_rps_of(trace.offset_ns) or (len(trace) - 1) / span_s,
        prompt=lengths_of(trace.prompt_tokens),
        output=lengths_of(trace.output_tokens),
        dispersion=dispersion_of(trace.offset_ns),
    )


def profile_of_page(page: str) -> tuple[Profile, int] | None:
    """Lengths since the server started, and of how many requests; None where the page tells none, or of too few."""
    prompt, output = length_histograms(page)
    lengths = [None if one is None else lengths_of_buckets(one.edges_s, one.counts) for one in (prompt, output)]
    if lengths == [None, None]:
        return None
    counts = [one.counts[-1] for one in (prompt, output) if one is not None]
    return Profile(prompt=lengths[0], output=lengths[1]), round(max(counts))


def drawn_pairs(profile: Profile, *, seed: int) -> tuple[NANOS, NANOS]:
    """Prompt and output lengths of made-up requests, each spread over its distribution, -1 where it is not known.

    Which prompt goes with which answer is not recorded: they are paired at random.
    """
    rng = np.random.default_rng(seed)

    def drawn(lengths: Lengths | None) -> NANOS:
        return np.full(DRAWN, -1, np.int64) if lengths is None else rng.permutation(drawn_lengths(lengths, DRAWN))

    return drawn(profile.prompt), drawn(profile.output)


def representative_document(sent: Profile, recorded: Recorded, found: Distance) -> Mapping[str, Any]:
    """How far what was sent is from what was recorded, for a measurement."""
    return {
        "source": recorded.source,
        "requests": recorded.requests,
        "prompt_distance": found.prompt,
        "output_distance": found.output,
        "burst_ratio": found.burst_ratio,
        "rate_ratio": found.rate_ratio,
        "sent": _shown(sent),
        "recorded": _shown(recorded.profile),
        "far": list(found.far),
    }


def _shown(profile: Profile) -> Mapping[str, Any]:
    return {
        "peak_rps": profile.peak_rps,
        "dispersion": profile.dispersion,
        "prompt_tokens": _quantiles(profile.prompt),
        "output_tokens": _quantiles(profile.output),
    }


def _quantiles(lengths: Lengths | None) -> Mapping[str, float | None] | None:
    """The edge that so many percent do not exceed; None above the last one."""
    if lengths is None:
        return None
    found: dict[str, float | None] = {}
    for percent in (50, 95):
        at = int(np.searchsorted(np.asarray(lengths.share), percent / 100 - 1e-12))
        edge = lengths.at_most[min(at, len(lengths.at_most) - 1)]
        found[f"p{percent}"] = edge if np.isfinite(edge) else None
    return found
