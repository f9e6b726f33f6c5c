"""What a service really gets, from what was recorded of it: a log or trace, or the page that its server prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any  # a JSON document

import numpy as np

from gpuyield.measure.engines import length_histograms
from gpuyield.measure.representative import (
    Distance,
    Lengths,
    Profile,
    Sent,
    dispersion_of,
    distance,
    drawn_lengths,
    lengths_of,
    lengths_of_buckets,
    peak_rps_of,
    profile_of_sent,
)
from gpuyield.measure.traces import Trace
from gpuyield.model.document import decimal_text
from gpuyield.model.evidence import Gap
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """The load that was sent, the one that was recorded, and how far they are apart; None where one is not known."""

    sent: Profile | None = None
    recorded: Recorded | None = None
    apart: Distance | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def document(self) -> Mapping[str, Any] | None:
        """How far they are apart."""
        found = self.apart
        if self.sent is None or self.recorded is None or found is None:
            return None
        return {
            "source": self.recorded.source,
            "requests": self.recorded.requests,
            "prompt_distance": found.prompt,
            "output_distance": found.output,
            "burst_ratio": found.burst_ratio,
            "rate_ratio": found.rate_ratio,
            "sent": _shown(self.sent),
            "recorded": _shown(self.recorded.profile),
            "far": list(found.far),
        }

    @property
    def inputs(self) -> Mapping[str, Any] | None:
        """The two loads as canonical inputs: integers and decimal strings, null for an edge without an end."""
        if self.sent is None or self.recorded is None:
            return None
        return {"sent": _profile_inputs(self.sent), "recorded": _profile_inputs(self.recorded.profile)}


def likeness_of(recorded: Recorded | None, sent: Sequence[Sent], *, rate_rps: float | None) -> Likeness:
    """What was sent, held against what was recorded."""
    if recorded is None:
        reason = "the load was not compared with what the service really gets: name that with --profile"
        return Likeness(gaps=(Gap(reason=reason, where="representative"),))
    if not sent:
        gap = Gap(reason="no steady probe tells what was sent", where="representative")
        return Likeness(recorded=recorded, gaps=(gap,))
    ours = profile_of_sent(sent, rate_rps=rate_rps)
    found = distance(ours, recorded.profile)
    told = {"prompt lengths": found.prompt, "output lengths": found.output, "bursts": found.burst_ratio}
    unknown = [name for name, value in told.items() if value is None]
    gaps = (
        (Gap(reason=f"{', '.join(unknown)} of the service or of the load are not known", where="representative"),)
        if unknown
        else ()
    )
    return Likeness(sent=ours, recorded=recorded, apart=found, gaps=gaps)


def recorded_document(recorded: Recorded) -> Mapping[str, Any]:
    """All that is recorded, for `recorded_of_document`: the same numbers on another machine and another day."""
    return {
        "source": recorded.source,
        "requests": recorded.requests,
        "profile": _profile_inputs(recorded.profile),
    }


def recorded_of_document(document: Mapping[str, Any]) -> Recorded:
    """What `recorded_document` wrote."""
    stated = document["profile"]
    profile = Profile(
        peak_rps=_number(stated["peak_rps"]),
        dispersion=_number(stated["dispersion"]),
        prompt=_lengths(stated["prompt_tokens"]),
        output=_lengths(stated["output_tokens"]),
    )
    return Recorded(profile=profile, source=document["source"], requests=document["requests"])


def _lengths(stated: Mapping[str, Any] | None) -> Lengths | None:
    if stated is None:
        return None
    edges = tuple(math.inf if one is None else float(one) for one in stated["at_most"])
    return Lengths(at_most=edges, share=tuple(map(float, stated["share"])), exact=stated["exact"])


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _profile_inputs(profile: Profile) -> Mapping[str, Any]:
    return {
        "peak_rps": _decimal(profile.peak_rps),
        "dispersion": _decimal(profile.dispersion),
        "prompt_tokens": _lengths_inputs(profile.prompt),
        "output_tokens": _lengths_inputs(profile.output),
    }


def _lengths_inputs(lengths: Lengths | None) -> Mapping[str, Any] | None:
    if lengths is None:
        return None
    return {
        "exact": lengths.exact,
        "at_most": [_decimal(one) if math.isfinite(one) else None for one in lengths.at_most],
        "share": [_decimal(one) for one in lengths.share],
    }


def _decimal(value: float | None) -> str | None:
    return None if value is None else decimal_text(value)


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
