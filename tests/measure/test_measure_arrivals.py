"""Arrivals are fixed in advance, at exactly the rate of the probe, and as random as they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuyield.errors import DeclarationError
from gpuyield.ledger.parquet import read_parquet
from gpuyield.measure.arrivals import Constant, Gamma, Poisson, Process, Schedule
from gpuyield.measure.representative import Profile, dispersion_of, distance, lengths_of
from gpuyield.measure.traces import Replay, Trace, read_trace, replay, trace_of
from gpuyield.model.measure import NANOS, SECOND_NS, Phase, ProbePlan


def plan(rate_rps: float, *, seconds: int = 100, seed: int = 1) -> ProbePlan:
    return ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=seed,
        rate_rps=rate_rps,
        warmup_ns=20 * SECOND_NS,
        batch_ns=seconds * SECOND_NS // 10,
        batches=10,
        runout_ns=5 * SECOND_NS,
        drain_ns=SECOND_NS,
    )


processes = st.sampled_from([Poisson(), Constant(), Gamma(cv=2.0), Gamma(cv=0.5)])


@given(process=processes, rate_rps=st.floats(0.05, 400), seed=st.integers(0, 2**63 - 1))
@settings(max_examples=60, deadline=None)
def test_a_probe_measures_its_rate_and_deals_requests_evenly(process: Process, rate_rps: float, seed: int) -> None:
    wanted = plan(rate_rps, seed=seed)
    schedule = Schedule(process=process, requests=7)

    arrivals = schedule.arrivals(wanted)
    again = schedule.arrivals(wanted)

    inside = (arrivals.scheduled_ns >= wanted.warmup_ns) & (
        arrivals.scheduled_ns < wanted.warmup_ns + wanted.measured_ns
    )
    dealt = np.bincount(arrivals.request[inside], minlength=7)
    assert abs(int(inside.sum()) - rate_rps * 100) <= 1
    assert dealt.max() - dealt.min() <= 1
    assert (np.diff(arrivals.scheduled_ns) >= 0).all()
    assert len(arrivals) == 0 or 0 <= arrivals.scheduled_ns[0] <= arrivals.scheduled_ns[-1] < wanted.sending_ns
    assert (arrivals.scheduled_ns == again.scheduled_ns).all()
    assert (arrivals.request == again.request).all()


@pytest.mark.parametrize(("process", "cv"), [(Poisson(), 1.0), (Constant(), 0.0), (Gamma(cv=2.0), 2.0)])
def test_gaps_vary_as_much_as_the_process_says(process: Process, cv: float) -> None:
    arrivals = Schedule(process=process, requests=1).arrivals(plan(400, seconds=200))

    gaps = np.diff(arrivals.scheduled_ns[(arrivals.scheduled_ns > 20 * SECOND_NS)])[:70_000]

    assert gaps.std() / gaps.mean() == pytest.approx(cv, abs=0.05)


def test_poisson_arrivals_in_short_spans_have_the_spread_of_poisson() -> None:
    arrivals = Schedule(process=Poisson(), requests=1).arrivals(plan(50, seconds=1_000))

    assert dispersion_of(arrivals.scheduled_ns) == pytest.approx(1.0, abs=0.1)


def test_a_trace_is_read_from_azure_mooncake_burstgpt_and_json_lines() -> None:
    azure = (
        b"TIMESTAMP,ContextTokens,GeneratedTokens\n"
        b"2023-11-16 18:17:03.9799600,4808,10\n"
        b"2023-11-16 18:17:04.0319600,3180,8\n"
    )
    mooncake = (
        b'{"timestamp": 3000, "input_length": 6758, "output_length": 500, "hash_ids": [0]}\n'
        b'{"timestamp": 0, "input_length": 7322, "output_length": 490, "hash_ids": [1]}\n'
    )
    burst = (
        b"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        b"5,GPT-4,472,18,490,API log\n"
        b"45,ChatGPT,1087,230,1317,API log\n"
    )
    own = b'{"at_s": 0.5, "prompt_tokens": 3, "output_tokens": 4}\n\n{"at_s": 0.75}\n'

    found = [read_trace(one, where="trace") for one in (azure, mooncake, burst, own)]

    assert [one.name for one in found] == ["azure", "mooncake", "burstgpt", "jsonl"]
    assert [one.offset_ns.tolist() for one in found] == [
        [0, 52_000_000],
        [0, 3 * SECOND_NS],
        [0, 40 * SECOND_NS],
        [0, 250_000_000],
    ]
    assert found[1].prompt_tokens.tolist() == [7322, 6758]
    assert found[2].output_tokens.tolist() == [18, 230]
    assert found[3].output_tokens.tolist() == [4, -1]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "two requests"),
        (b"a,b\n1,2\n3,4\n", "not known"),
        (b"at_s,prompt_tokens\n1,2\n1,2\n", "the same time"),
        (b"at_s,prompt_tokens\n1,2\nsoon,2\n3,many\n", "request 2"),
        (b'{"at_s": 1}\n[1]\n{"at_s"\n', "no JSON object"),
    ],
)
def test_a_trace_that_cannot_be_read_says_why(data: bytes, said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        read_trace(data, where="trace.csv")


@pytest.mark.parametrize("speed", [1.0, 10.0])
def test_the_azure_conversation_trace_is_replayed_in_order_and_on_time(shared_data: Path, speed: float) -> None:
    table = read_parquet(shared_data / "traces" / "azure_llm2023_conv.parquet")
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]

    trace = trace_of(rows, where="azure")
    arrivals = replay(trace, speed=speed)

    assert len(arrivals) == len(rows) == 19_366
    assert trace.prompt_tokens.tolist() == [row["ContextTokens"] for row in rows]
    assert (np.diff(arrivals.scheduled_ns) >= 0).all()
    assert np.abs(arrivals.scheduled_ns * speed - trace.offset_ns).max() <= speed


def test_a_trace_in_a_search_keeps_its_bursts_at_any_rate() -> None:
    rng = np.random.default_rng(3)
    offsets = np.cumsum(rng.gamma(0.25, 4.0, 4_000) * SECOND_NS).astype(np.int64)
    offsets -= offsets[0]
    unknown = np.full(len(offsets), -1, np.int64)
    trace = Trace(name="own", offset_ns=offsets, prompt_tokens=unknown, output_tokens=unknown)

    arrivals = Replay(trace=trace).arrivals(plan(200, seconds=100))

    gaps = np.diff(arrivals.scheduled_ns)
    assert len(arrivals) / 125 == pytest.approx(200, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, abs=0.1)


def profile_of(scheduled_ns: NANOS, prompt_tokens: NANOS, output_tokens: NANOS) -> Profile:
    """Of requests at these times with these lengths."""
    return Profile(
        prompt=lengths_of(prompt_tokens), output=lengths_of(output_tokens), dispersion=dispersion_of(scheduled_ns)
    )


def test_a_load_like_the_recorded_one_is_near_and_another_one_is_said_to_be_far() -> None:
    rng = np.random.default_rng(4)
    lengths = rng.integers(10, 1_000, 3_000)
    even = Schedule(process=Poisson(), requests=1).arrivals(plan(30)).scheduled_ns
    bursty = Schedule(process=Gamma(cv=3.0), requests=1).arrivals(plan(30)).scheduled_ns
    recorded = profile_of(even, lengths, lengths)

    near = distance(profile_of(even, lengths[::2], lengths[1::2]), recorded)
    far = distance(profile_of(bursty, lengths // 4, lengths), recorded)

    assert near.far == ()
    assert near.prompt is not None
    assert near.prompt < 0.05
    assert [one.split(" ")[0] for one in far.far] == ["prompt", "arrivals"]
