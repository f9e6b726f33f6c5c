"""Check how far the load that was sent is from the recorded one: worked out again from the two profiles.

A distance of lengths is the largest difference of the two distributions (Kolmogorov and Smirnov), at every length where
both are exact, else at the edges that all histograms share.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any  # JSON has no narrower type than this.

from .report import Refused
from .values import check_near, decimal, field, items, record

FAR_LENGTHS, FAR_BURSTS = 0.15, 1.5
MOST_LENGTHS = 1_000_000
_QUANTILES = (50, 95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """The share of requests of at most so many tokens; `exact`: every length that came is there."""

    exact: bool
    at_most: tuple[float, ...]
    share: tuple[float, ...]

    def at(self, edge: float) -> float:
        """The share at a length."""
        place = bisect_right(self.at_most, edge)
        return self.share[place - 1] if place else 0.0

    def quantile(self, percent: int) -> float | None:
        """The edge that so many percent do not exceed; None above the last one."""
        wanted = percent / 100 - 1e-12
        edge = next((edge for edge, share in zip(self.at_most, self.share, strict=True) if share >= wanted), None)
        return edge if edge is not None and math.isfinite(edge) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Rates, bursts and lengths of a load; None is not known."""

    peak_rps: float | None
    dispersion: float | None
    prompt: Lengths | None
    output: Lengths | None


def check_likeness(document: dict[str, Any], profiles: Any) -> None:
    """Refuse distances that do not follow from the profiles of the inputs.

    Raises:
        Refused: They do not, or the profiles are none.
    """
    stated = field(document, "representative", "the document")
    if profiles is None:
        if stated is not None:
            raise Refused("It is not null, and the inputs hold no profiles.")
        return
    both = record(profiles, "inputs.profiles")
    sent, recorded = (_profile(field(both, name, "inputs.profiles"), name) for name in ("sent", "recorded"))
    found = record(stated, "representative")
    prompt, output = _apart(sent.prompt, recorded.prompt), _apart(sent.output, recorded.output)
    bursts, rate = _ratio(sent.dispersion, recorded.dispersion), _ratio(sent.peak_rps, recorded.peak_rps)
    for name, right in (
        ("prompt_distance", prompt),
        ("output_distance", output),
        ("burst_ratio", bursts),
        ("rate_ratio", rate),
    ):
        check_near(found, name, right, "representative")
    far = {
        "prompt": prompt is not None and prompt > FAR_LENGTHS,
        "output": output is not None and output > FAR_LENGTHS,
        "arrivals": bursts is not None and not 1 / FAR_BURSTS <= bursts <= FAR_BURSTS,
    }
    told = [str(one).partition(" ")[0] for one in items(field(found, "far", "representative"), "representative.far")]
    if told != [name for name, is_far in far.items() if is_far]:
        raise Refused("far does not name what is far apart.")
    for name, profile in (("sent", sent), ("recorded", recorded)):
        _check_shown(record(field(found, name, "representative"), f"representative.{name}"), profile)


def _check_shown(shown: dict[str, Any], profile: Profile) -> None:
    check_near(shown, "peak_rps", profile.peak_rps, "a profile")
    check_near(shown, "dispersion", profile.dispersion, "a profile")
    for name, lengths in (("prompt_tokens", profile.prompt), ("output_tokens", profile.output)):
        stated = field(shown, name, "a profile")
        if lengths is None:
            if stated is not None:
                raise Refused(f"{name} is not null, and the inputs do not know it.")
            continue
        for percent in _QUANTILES:
            check_near(record(stated, name), f"p{percent}", lengths.quantile(percent), name)


def _profile(value: Any, where: str) -> Profile:
    stated = record(value, where)
    return Profile(
        peak_rps=_amount(stated, "peak_rps"),
        dispersion=_amount(stated, "dispersion"),
        prompt=_lengths(field(stated, "prompt_tokens", where), f"{where}.prompt_tokens"),
        output=_lengths(field(stated, "output_tokens", where), f"{where}.output_tokens"),
    )


def _lengths(value: Any, where: str) -> Lengths | None:
    if value is None:
        return None
    stated = record(value, where)
    edges = items(field(stated, "at_most", where), f"{where}.at_most")
    shares = items(field(stated, "share", where), f"{where}.share")
    if not 0 < len(edges) == len(shares) <= MOST_LENGTHS:
        raise Refused(f"{where} has no lengths, too many, or not a share for each.")
    at_most = tuple(math.inf if one is None else float(decimal(one, where)) for one in edges)
    share = tuple(float(decimal(one, where)) for one in shares)
    if not _rises(at_most, strictly=True) or not _rises(share, strictly=False) or not 0 <= share[0] <= share[-1] <= 1:
        raise Refused(f"{where} is no distribution.")
    exact = field(stated, "exact", where)
    if type(exact) is not bool:
        raise Refused(f"{where}.exact is neither true nor false.")
    return Lengths(exact=exact, at_most=at_most, share=share)


def _rises(values: Sequence[float], *, strictly: bool) -> bool:
    return all(one < other if strictly else one <= other for one, other in pairwise(values))


def _apart(first: Lengths | None, second: Lengths | None) -> float | None:
    if first is None or second is None:
        return None
    buckets = [set(one.at_most) for one in (first, second) if not one.exact]
    edges = set.intersection(*buckets) if buckets else {*first.at_most, *second.at_most}
    return max((abs(first.at(edge) - second.at(edge)) for edge in edges), default=None)


def _ratio(first: float | None, second: float | None) -> float | None:
    return None if first is None or not second else first / second


def _amount(holder: dict[str, Any], name: str) -> float | None:
    value = field(holder, name, "a profile")
    return None if value is None else float(decimal(value, name))
