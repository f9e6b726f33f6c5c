"""The rate search in virtual time, where the truth is known: it claims no more than holds, and can be resumed."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from gpuyield.errors import SourceError
from gpuyield.measure.kept import probe_line, probes_of
from gpuyield.measure.rules import RULES, expected_s
from gpuyield.measure.search import Settings, next_probe, search
from gpuyield.measure.shapes import Shape, shapes, true_capacity
from gpuyield.model.declaration import Metric, Objective
from gpuyield.model.measure import (
    Arrivals,
    Bench,
    Level,
    Measurement,
    Phase,
    Probe,
    ProbePlan,
    ProbeStatus,
    Run,
    SenderHealth,
    Stop,
)


def shape_named(name: str) -> Shape:
    return next(one for one in shapes() if one.name == name)


def asked(shape: Shape, seed: int, level: Level = Level.STANDARD) -> Settings:
    return Settings(objectives=(shape.objective,), level=level, seed=seed, max_rps=shape.guess_rps)


def run(shape: Shape, settings: Settings, bench: Bench | None = None) -> Measurement:
    return search(bench or shape.bench(), shape.schedule().arrivals, settings)


@dataclass(frozen=True, slots=True)
class SometimesStarved:
    """A bench whose sender could not keep its schedule in some probes."""

    inner: Bench
    starved: frozenset[int]

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        found = self.inner.run(plan, arrivals)
        if plan.number not in self.starved:
            return found
        return replace(found, health=SenderHealth(lag_p99_s=3.0, valid=False, why="the sender was starved"))


@dataclass(slots=True)
class Stops:
    """Dies in the middle of its n-th probe."""

    inner: Bench
    after: int
    ran: list[int] = field(default_factory=list)

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        if len(self.ran) == self.after:
            raise KeyboardInterrupt
        self.ran.append(plan.number)
        return self.inner.run(plan, arrivals)


@pytest.mark.parametrize("name", ["slots", "mix"])
def test_what_is_certified_holds_and_what_is_refuted_does_not(name: str) -> None:
    shape = shape_named(name)
    truth = true_capacity(shape, seconds=4_000, seeds=(1,))

    found = [run(shape, asked(shape, seed)) for seed in range(6)]

    certified = np.array([one.certified_rps for one in found if one.certified_rps is not None])
    refuted = np.array([one.refuted_rps for one in found if one.refuted_rps is not None])
    assert len(certified) >= 4
    assert len(refuted) >= 4
    assert certified.max() <= 1.05 * truth
    assert refuted.min() >= 0.95 * truth
    assert np.median(certified) >= 0.85 * truth


def test_the_same_seed_gives_the_same_probes() -> None:
    shape = shape_named("slots")

    first, second = run(shape, asked(shape, 3)), run(shape, asked(shape, 3))

    assert first == second


@pytest.mark.parametrize("after", [0, 1, 3, 5, 8])
def test_a_search_that_was_killed_ends_as_if_it_had_not_been(after: int) -> None:
    shape = shape_named("slots")
    settings = asked(shape, 5)
    whole = run(shape, settings)
    lines: list[bytes] = []

    with pytest.raises(KeyboardInterrupt):
        search(
            Stops(shape.bench(), after),
            shape.schedule().arrivals,
            settings,
            keep=lambda probe: lines.append(probe_line(probe)),
        )
    kept = probes_of(b"".join(lines) + b'{"plan": {"numb')
    rest = Stops(shape.bench(), 99)
    resumed = search(rest, shape.schedule().arrivals, settings, kept=kept)

    assert len(kept) == after
    assert resumed == whole
    assert rest.ran == list(range(after, len(whole.probes)))


def test_a_search_that_was_killed_at_20_random_points_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    script = Path(__file__).with_name("killed_search.py")

    done = subprocess.run([sys.executable, str(script), str(tmp_path), "5", "20"], capture_output=True, check=False)

    assert done.returncode == 0, done.stderr.decode()[-1000:]
    found = json.loads(done.stdout)
    assert len(found["progress"]) == 20
    assert found["progress"] == sorted(found["progress"]), "what was kept once is never lost"
    assert found["resumed"] == found["whole"]
    assert found["rows"] == found["whole"]["sent"], "every request is in the raw records once"


def test_a_line_that_is_no_probe_is_an_error_that_names_it() -> None:
    with pytest.raises(SourceError, match=r"probes.jsonl: line 1 is no probe"):
        probes_of(b'{"plan": 1}\n', where="probes.jsonl")


def test_quick_gives_an_estimate_and_never_certifies() -> None:
    shape = shape_named("slots")

    found = [run(shape, asked(shape, seed, Level.QUICK)) for seed in range(4)]

    assert {one.stop for one in found} == {Stop.QUICK}
    assert {one.certified_rps for one in found} | {one.refuted_rps for one in found} == {None}
    assert all(one.estimate_rps is not None and 10 < one.estimate_rps < 18 for one in found)
    assert not any(probe.plan.phase is Phase.CONFIRM for one in found for probe in one.probes)


def test_probes_of_a_starved_sender_say_nothing_and_are_run_again() -> None:
    shape = shape_named("slots")

    found = run(shape, asked(shape, 2), SometimesStarved(shape.bench(), frozenset({1, 4})))

    invalid = [one.plan.number for one in found.probes if one.status is ProbeStatus.INVALID]
    assert invalid == [1, 4]
    assert found.certified_rps is not None
    assert found.probes[2].plan.rate_rps == found.probes[1].plan.rate_rps
    assert found.probes[2].plan.seed != found.probes[1].plan.seed


def test_a_sender_that_is_always_starved_ends_the_search_without_a_claim() -> None:
    shape = shape_named("slots")

    found = run(shape, asked(shape, 2), SometimesStarved(shape.bench(), frozenset(range(4, 99))))

    assert found.stop is Stop.INVALID
    assert found.certified_rps is None
    assert found.refuted_rps is None
    assert sum(one.status is ProbeStatus.INVALID for one in found.probes) == 3


def test_a_limit_on_the_rate_is_never_exceeded_and_can_be_certified() -> None:
    shape = shape_named("slots")

    found = run(shape, replace(asked(shape, 1), max_rps=6.0))

    assert found.stop is Stop.MAX_RATE
    assert found.certified_rps == 6.0
    assert found.limited_by == "max_rate"
    assert max(one.plan.rate_rps for one in found.probes) <= 6.0


def test_a_limit_on_the_time_ends_the_search_before_it_is_exceeded() -> None:
    shape = shape_named("slots")

    found = run(shape, replace(asked(shape, 1), max_duration_s=600.0))

    assert found.stop is Stop.TIME
    assert sum(one.duration_s for one in found.probes) <= 700
    assert found.certified_rps is None


def test_an_objective_that_no_rate_keeps_is_not_certified() -> None:
    shape = shape_named("slots")
    impossible = Objective(name="ttft", metric=Metric.TTFT, at_most_us=20_000, share=Decimal("0.95"))

    found = run(shape, replace(asked(shape, 1), objectives=(impossible,)))

    assert found.certified_rps is None
    assert found.limited_by == "ttft"


def test_the_objective_that_binds_first_limits_and_each_is_held_to_its_part_of_alpha() -> None:
    shape = shape_named("slots")
    loose = Objective(name="e2e", metric=Metric.E2E, at_most_us=60_000_000, share=Decimal("0.9"))

    found = run(shape, replace(asked(shape, 4), objectives=(loose, shape.objective)))

    confirmed = next(one for one in found.probes if one.plan.phase is Phase.CONFIRM)
    assert found.limited_by == "ttft"
    assert confirmed.plan.alpha_keep == pytest.approx(0.05 * 0.5 / 2)
    assert [one.objective for one in confirmed.tallies] == ["e2e", "ttft"]


def test_a_check_that_no_load_touches_is_limited_by_throughput() -> None:
    shape = shape_named("quality")
    answered = Objective(name="answered", metric=Metric.ERROR, share=Decimal("0.9"))

    found = run(shape, replace(asked(shape, 2), objectives=(answered,)))

    assert found.certified_rps is not None
    assert found.certified_rps <= 16.5
    assert found.certified_rps >= 13.0


def test_the_expected_time_is_about_what_a_search_takes() -> None:
    shape = shape_named("slots")

    found = run(shape, asked(shape, 7))

    took = sum(one.duration_s for one in found.probes)
    expected = expected_s(RULES[Level.STANDARD], (shape.objective,), 1.1)
    assert 0.4 < took / expected < 2.5


def test_no_two_probes_share_their_draws() -> None:
    shape = shape_named("slots")

    found = run(shape, asked(shape, 9))

    seeds = [one.plan.seed for one in found.probes]
    assert len(set(seeds)) == len(seeds)
    assert isinstance(next_probe(asked(shape, 9), found.probes), Stop)


def test_probes_survive_their_line() -> None:
    shape = shape_named("slots")
    found: list[Probe] = list(run(shape, asked(shape, 6, Level.QUICK)).probes)

    assert probes_of(b"".join(map(probe_line, found))) == found
