"""The rate search against known truth, in virtual time: false claims, coverage, requests, and what other rules do.

    python benchmarks/measure_search.py [--sample N] [--shapes slots,heavy] [--level standard] [--json FILE] [--rules N]

Each share is printed with its own one-sided 95 % bound (Clopper and Pearson). The truth of each shape is computed anew
by long simulations. `--rules N` also runs simplified stopping rules of other tools, N times each; `--sample 0` runs
them alone.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gpuyield.measure.search import Settings, search
from gpuyield.measure.shapes import Shape, shapes, true_capacity
from gpuyield.measure.statistics import binomial_lower, binomial_upper
from gpuyield.model.measure import Level
from measure_rules import RULES


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One search, rates over the truth."""

    certified: float | None
    refuted: float | None
    requests: int


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sample", type=int, default=60, help="searches per shape; the floors need 600")
    options.add_argument("--shapes", default="")
    options.add_argument("--level", type=Level, default=Level.STANDARD)
    options.add_argument("--json", type=Path, default=None)
    options.add_argument("--rules", type=int, default=0)
    chosen = options.parse_args()
    wanted = set(filter(None, chosen.shapes.split(",")))
    kept: dict[str, object] = {}
    for shape in shapes():
        if wanted and shape.name not in wanted:
            continue
        truth = true_capacity(shape, seconds=20_000, seeds=(101, 102, 103))
        began = time.perf_counter()
        found = [one_search(shape, truth, seed, chosen.level) for seed in range(chosen.sample)]
        if found:
            show(shape.name, truth, found, time.perf_counter() - began)
        kept[shape.name] = {"truth": truth, "searches": [asdict(one) for one in found]}
        if chosen.rules:
            kept[f"{shape.name}.rules"] = compare(shape, truth, chosen.rules)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(kept))


def one_search(shape: Shape, truth: float, seed: int, level: Level) -> Found:
    settings = Settings(objectives=(shape.objective,), level=level, seed=seed, max_rps=shape.guess_rps)
    found = search(shape.bench(), shape.schedule().arrivals, settings)
    return Found(
        certified=None if found.certified_rps is None else found.certified_rps / truth,
        refuted=None if found.refuted_rps is None else found.refuted_rps / truth,
        requests=sum(probe.sent for probe in found.probes),
    )


def show(name: str, truth: float, found: list[Found], took: float) -> None:
    total = len(found)
    certified = np.array([one.certified for one in found if one.certified is not None])
    refuted = np.array([one.refuted for one in found if one.refuted is not None])
    far, over, under = int((certified > 1.02).sum()), int((certified > 1).sum()), int((refuted < 1).sum())
    both = [one for one in found if one.certified is not None and one.refuted is not None]
    covered = sum(1 for one in both if (one.certified or 0) <= 1 <= (one.refuted or 0))
    said = f"measure.search.{name}"
    print(f"{said}.truth {truth:.3f} req/s")
    print(f"{said}.over_by_2_percent {far / total:.4f} share, at most {binomial_upper(far, total, 0.05):.4f} (0.02)")
    print(f"{said}.over {over / total:.4f} share, at most {binomial_upper(over, total, 0.05):.4f}")
    print(f"{said}.under_refuted {under / total:.4f} share, at most {binomial_upper(under, total, 0.05):.4f}")
    if both:
        least = binomial_lower(covered, len(both), 0.05)
        print(f"{said}.coverage {covered / len(both):.4f} share of {len(both)}, at least {least:.4f} (0.90)")
    print(f"{said}.certified {quantiles(certified)} of truth; none in {1 - len(certified) / total:.3f}")
    print(f"{said}.refuted {quantiles(refuted)} of truth; none in {1 - len(refuted) / total:.3f}")
    requests = np.array([one.requests for one in found])
    print(f"{said}.requests {requests.mean():.0f} mean, {quantiles(requests, 0)}")
    print(f"{said}.time {took / total * 1000:.0f} ms a search", flush=True)


def compare(shape: Shape, truth: float, sample: int) -> dict[str, list[tuple[float, int]]]:
    kept = {}
    for name, rule in RULES.items():
        answers = [rule(shape, seed) for seed in range(sample)]
        ratios = np.array([rate / truth for rate, _ in answers])
        sent = np.mean([requests for _, requests in answers])
        print(
            f"measure.rules.{shape.name}.{name} {quantiles(ratios)} of truth, over {(ratios > 1).mean():.2f}, "
            f"by 2 % {(ratios > 1.02).mean():.2f}, by 5 % {(ratios > 1.05).mean():.2f}, {sent:.0f} requests",
            flush=True,
        )
        kept[name] = [(float(rate / truth), requests) for rate, requests in answers]
    return kept


def quantiles(values: np.ndarray, digits: int = 3) -> str:
    if not len(values):
        return "-"
    return "p10 {:.{d}f} p50 {:.{d}f} p90 {:.{d}f}".format(*np.quantile(values, [0.1, 0.5, 0.9]), d=digits)


if __name__ == "__main__":
    main()
