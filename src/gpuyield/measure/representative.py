"""How far the load that was sent is from what the service really gets: lengths, bursts, rate.

A capacity holds for the load it was measured with. The distance is shown beside the figure, and said where it is large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpuyield.model.measure import NANOS, SECOND_NS

FAR_LENGTHS = 0.15
"""Lengths are far apart when for some length the shares of shorter requests differ by more."""

FAR_BURSTS = 1.5
"""Bursts are far apart when the spread of counts differs by more than this factor."""

FEWEST_REQUESTS = 100
"""Fewer say nothing of a distribution."""

COUNT_WINDOW_REQUESTS = 10
"""Bursts are judged in windows that hold so many requests on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A distribution of token counts as serving engines report it: the share of requests of at most so many tokens.

    `at_most` rises; `share` does not fall. `exact`: every length that came is there, else they are edges of buckets.
    """

    at_most: tuple[float, ...]
    share: tuple[float, ...]
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a service gets, or a test sent; None where it is not known.

    `peak_rps` is the highest rate that was seen (of a service: p99 of 5-minute rates). `dispersion` is variance over
    mean of the counts in windows of `COUNT_WINDOW_REQUESTS` requests: 1 for Poisson, 0 for constant, more in bursts.
    """

    peak_rps: float | None = None
    prompt: Lengths | None = None
    output: Lengths | None = None
    dispersion: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a steady probe sent: when, and the tokens of each request and its answer, -1 where nobody counted."""

    scheduled_ns: NANOS
    input_tokens: NANOS
    output_tokens: NANOS


def profile_of_sent(sent: Sequence[Sent], *, rate_rps: float | None) -> Profile:
    """All probes together; bursts are the mean of theirs, weighted by how many requests they were."""
    found = [(len(one.scheduled_ns), spread) for one in sent if (spread := dispersion_of(one.scheduled_ns)) is not None]
    weight = sum(count for count, _ in found)
    return Profile(
        peak_rps=rate_rps,
        prompt=lengths_of(np.concatenate([one.input_tokens for one in sent])),
        output=lengths_of(np.concatenate([one.output_tokens for one in sent])),
        dispersion=sum(count * spread for count, spread in found) / weight if found else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Distance:
    """Between two profiles; None where either does not know. `far` names what is too far apart, as sentences."""

    prompt: float | None
    output: float | None
    burst_ratio: float | None
    rate_ratio: float | None
    far: tuple[str, ...]


def lengths_of(tokens: NANOS) -> Lengths | None:
    """The exact distribution of token counts; -1 is unknown and left out."""
    known = tokens[tokens >= 0]
    if not len(known):
        return None
    values, counts = np.unique(known, return_counts=True)
    shares = np.cumsum(counts) / len(known)
    return Lengths(at_most=tuple(values.astype(float).tolist()), share=tuple(shares.tolist()), exact=True)


def lengths_of_buckets(edges: Sequence[float], counts: Sequence[float]) -> Lengths | None:
    """The distribution that a histogram's cumulative counts tell; None of fewer than `FEWEST_REQUESTS`."""
    if not counts or counts[-1] < FEWEST_REQUESTS:
        return None
    return Lengths(at_most=tuple(edges), share=tuple(one / counts[-1] for one in counts))


def drawn_lengths(lengths: Lengths, count: int) -> NANOS:
    """So many lengths spread evenly over the distribution, rising; within a bucket every length is as likely."""
    edges, shares = np.asarray(lengths.at_most), np.asarray(lengths.share)
    wanted = (np.arange(count) + 0.5) / count
    at = np.minimum(np.searchsorted(shares, wanted), len(edges) - 1)
    # Nothing tells how far beyond its last edge a histogram goes.
    tops = np.where(np.isfinite(edges), edges, edges[-2] if len(edges) > 1 else 1.0)
    if lengths.exact:
        return np.asarray(tops[at], np.int64)
    lows, before = np.concatenate([[0.0], tops[:-1]])[at], np.concatenate([[0.0], shares[:-1]])[at]
    within = (wanted - before) / np.maximum(shares[at] - before, 1e-12)
    return np.asarray(np.maximum(1, np.ceil(lows + (tops[at] - lows) * within)), np.int64)


def peak_rps_of(scheduled_ns: NANOS, *, bin_s: int = 300) -> float | None:
    """The 99th percentile of the rates of whole five minutes; None where there is not one of them.

    Source: nearest rank, as the demand of services.
    """
    bins = int((scheduled_ns[-1] - scheduled_ns[0]) // (bin_s * SECOND_NS)) if len(scheduled_ns) else 0
    if not bins:
        return None
    since = (scheduled_ns - scheduled_ns[0]) // (bin_s * SECOND_NS)
    counts = np.sort(np.bincount(since[since < bins], minlength=bins))
    return float(counts[-(-99 * bins // 100) - 1]) / bin_s


def dispersion_of(scheduled_ns: NANOS) -> float | None:
    """Variance over mean of the counts in windows of equal length; None with fewer than ten windows.

    Source: the index of dispersion for counts (Cox and Lewis 1966).
    """
    windows = len(scheduled_ns) // COUNT_WINDOW_REQUESTS
    if windows < 10:
        return None
    begin, end = int(scheduled_ns[0]), int(scheduled_ns[-1]) + 1
    counts = np.bincount((scheduled_ns - begin) * windows // (end - begin), minlength=windows)
    return float(counts.var(ddof=1) / counts.mean())


def distance(sent: Profile, recorded: Profile) -> Distance:
    """How far what was sent is from what was recorded."""
    prompt, output = _apart(sent.prompt, recorded.prompt), _apart(sent.output, recorded.output)
    bursts = _ratio(sent.dispersion, recorded.dispersion)
    rate = _ratio(sent.peak_rps, recorded.peak_rps)
    far: list[str] = []
    if prompt is not None and prompt > FAR_LENGTHS:
        far.append(f"prompt lengths differ from the service's by {prompt:.0%}")
    if output is not None and output > FAR_LENGTHS:
        far.append(f"output lengths differ from the service's by {output:.0%}")
    if bursts is not None and not 1 / FAR_BURSTS <= bursts <= FAR_BURSTS:
        far.append(f"arrivals are {'more' if bursts > 1 else 'less'} bursty than the service's, {bursts:.1f} times")
    return Distance(prompt=prompt, output=output, burst_ratio=bursts, rate_ratio=rate, far=tuple(far))


def _apart(first: Lengths | None, second: Lengths | None) -> float | None:
    """The largest difference of two distributions where both are known (Kolmogorov and Smirnov).

    An exact one is known everywhere, a histogram at its edges only.
    """
    if first is None or second is None:
        return None
    buckets = [set(one.at_most) for one in (first, second) if not one.exact]
    edges = sorted(set.intersection(*buckets) if buckets else {*first.at_most, *second.at_most})
    if not edges:
        return None
    return float(np.abs(_at(first, edges) - _at(second, edges)).max())


def _at(lengths: Lengths, edges: Sequence[float]) -> NDArray[np.float64]:
    found = np.searchsorted(np.asarray(lengths.at_most), np.asarray(edges), side="right")
    return np.concatenate([[0.0], lengths.share])[found]


def _ratio(first: float | None, second: float | None) -> float | None:
    return None if first is None or not second else first / second
