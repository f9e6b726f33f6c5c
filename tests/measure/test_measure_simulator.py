"""The server in virtual time against slower and simpler ones, and against what queueing theory says."""

from __future__ import annotations

import numpy as np
import pytest

from gpuyield.errors import DeclarationError
from gpuyield.measure.arrivals import Poisson, Schedule
from gpuyield.measure.shapes import shapes
from gpuyield.measure.simulator import Engine, EngineKind, RequestSet, serve
from gpuyield.model.measure import SECOND_NS, Arrivals, Phase, ProbePlan, ResponseStatus

MS = 1_000_000


def poisson(rate_rps: float, seconds: int, requests: int) -> Arrivals:
    span = ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=5,
        rate_rps=rate_rps,
        warmup_ns=0,
        batch_ns=seconds * SECOND_NS,
        batches=1,
        runout_ns=0,
        drain_ns=0,
    )
    return Schedule(process=Poisson(), requests=requests).arrivals(span)


def test_slots_serve_as_a_list_of_free_times_does() -> None:
    rng = np.random.default_rng(6)
    requests = RequestSet(prompt_tokens=rng.integers(1, 50, 200), output_tokens=rng.integers(1, 400, 200))
    engine = Engine(kind=EngineKind.SLOTS, slots=5, step_ns=2 * MS, per_prompt_token_ns=MS)
    arrivals = poisson(11, 100, 200)

    found = serve(engine, requests, arrivals, seed=1)

    free = [0] * 5
    for at, (scheduled, request) in enumerate(zip(arrivals.scheduled_ns, arrivals.request, strict=True)):
        slot = min(range(5), key=free.__getitem__)
        first = max(int(scheduled), free[slot]) + 2 * MS + int(requests.prompt_tokens[request]) * MS
        free[slot] = first + (int(requests.output_tokens[request]) - 1) * 2 * MS
        assert (found.first_ns[at], found.end_ns[at]) == (first, free[slot])


def test_one_slot_makes_requests_wait_as_long_as_the_formula_of_pollaczek_and_khinchine_says() -> None:
    requests = RequestSet(prompt_tokens=np.array([1, 1]), output_tokens=np.array([50, 150]))
    engine = Engine(kind=EngineKind.SLOTS, slots=1, step_ns=MS)
    arrivals = poisson(6, 40_000, 2)

    found = serve(engine, requests, arrivals, seed=1)

    waited = (found.first_ns - found.scheduled_ns - MS).mean() / SECOND_NS
    mean, square = 0.1, (0.05**2 + 0.15**2) / 2
    assert waited == pytest.approx(6 * square / (2 * (1 - 6 * mean)), rel=0.05)


def test_a_batch_of_one_takes_a_step_for_each_token_and_longer_where_a_prompt_is_read() -> None:
    requests = RequestSet(prompt_tokens=np.array([30, 10]), output_tokens=np.array([4, 2]))
    engine = Engine(
        kind=EngineKind.BATCHING,
        slots=2,
        step_ns=10 * MS,
        per_sequence_ns=MS,
        per_prompt_token_ns=MS // 10,
        prefill_tokens=20,
    )
    arrivals = Arrivals(scheduled_ns=np.array([0, 20 * MS]), request=np.array([0, 1]))

    found = serve(engine, requests, arrivals, seed=1)

    # 20 tokens of the first prompt, then its other 10: 13 and 12 ms. Both from 25 ms on: 13 (10 prompt tokens), 12, 11.
    assert (found.first_ns / MS).tolist() == [25.0, 38.0]
    assert (found.end_ns / MS).tolist() == [61.0, 50.0]
    assert (found.gap_max_ns / MS).tolist() == [13.0, 12.0]


@pytest.mark.parametrize(("prompt", "output"), [([0, 4], [1, 1]), ([1, 4], [1, 0]), ([], [])])
def test_requests_without_a_prompt_or_an_answer_are_refused(prompt: list[int], output: list[int]) -> None:
    with pytest.raises(DeclarationError, match="at least one token"):
        RequestSet(prompt_tokens=np.array(prompt, np.int64), output_tokens=np.array(output, np.int64))


def test_what_has_not_ended_when_the_bench_gives_up_is_in_flight() -> None:
    requests = RequestSet(prompt_tokens=np.array([1]), output_tokens=np.array([1_000]))
    arrivals = Arrivals(scheduled_ns=np.array([0, 500 * MS]), request=np.array([0, 0]))

    for kind in EngineKind:
        engine = Engine(kind=kind, slots=2, step_ns=MS)
        found = serve(engine, requests, arrivals, seed=1, give_up_ns=1_200 * MS)

        assert found.status.tolist() == [ResponseStatus.OK, ResponseStatus.IN_FLIGHT]
        assert found.end_ns[1] == -1
        assert found.first_ns[1] >= 0


@pytest.mark.parametrize("name", ["slots", "tpot", "heavy"])
def test_more_miss_at_a_higher_rate(name: str) -> None:
    shape = next(one for one in shapes() if one.name == name)

    low, high = (shape.miss_share(rate, seconds=200, seed=2) for rate in (3.0, 18.0))

    assert low <= float(1 - shape.objective.share) < high
