"""Measure documents: what follows from the counts is accepted, what does not is refused, even when sealed again."""

from __future__ import annotations

import copy
import functools
import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuyield.measure.document import Subject, measure_document, measure_inputs
from gpuyield.measure.recorded import Likeness, Recorded, likeness_of
from gpuyield.measure.representative import Profile, Sent, lengths_of_buckets, profile_of_sent
from gpuyield.measure.search import Settings, search
from gpuyield.measure.shapes import shapes
from gpuyield.model.document import canonical_bytes, inputs_digest
from gpuyield.model.measure import Level, Measurement, ProbeStatus, SenderHealth
from gpuyield.verify import check

Json = dict[str, Any]
SUBJECT = Subject(
    service="support-chat",
    arrival="poisson",
    started_at_ms=1_780_000_000_000,
    config={"engine": "simulated"},
    config_digest="sha256:00",
    replicas=2,
    gpus_per_replica=4,
    load={"requests": "made-up prompts", "requests_sha256": "sha256:22", "protocol": "chat", "streams": True},
)


def load(rng: np.random.Generator, *, longest: int, even: bool) -> tuple[Profile, Sent]:
    """A load of some hundred requests: as a profile, and as a probe that sent it."""
    gaps = np.full(400, 10**8) if even else rng.exponential(10**8, 400)
    sent = Sent(
        scheduled_ns=np.cumsum(gaps).astype(np.int64),
        input_tokens=rng.integers(1, longest, 400),
        output_tokens=rng.integers(1, 50, 400) if even else np.full(400, -1),
    )
    return profile_of_sent([sent], rate_rps=9.5), sent


def likeness(seed: int) -> Likeness:
    """A made-up load held against another one, exact or told in buckets."""
    rng = np.random.default_rng(seed)
    recorded, _ = load(rng, longest=int(rng.integers(50, 500)), even=bool(rng.integers(2)))
    if rng.integers(2):
        edges = [10.0, 100.0, 200.0, np.inf]
        counts = np.sort(rng.integers(0, 300, 4)).tolist()
        recorded = replace(recorded, prompt=lengths_of_buckets(edges, [*counts[:3], 300]))
    _, sent = load(rng, longest=200, even=bool(rng.integers(2)))
    return likeness_of(Recorded(profile=recorded, source="a log", requests=400), [sent], rate_rps=8.0)


@functools.cache
def measured(name: str, level: Level, seed: int) -> tuple[Settings, Measurement]:
    shape = next(one for one in shapes() if one.name == name)
    settings = Settings(objectives=(shape.objective,), level=level, seed=seed, max_rps=shape.guess_rps)
    return settings, search(shape.bench(), shape.schedule().arrivals, settings)


def documents(settings: Settings, found: Measurement, subject: Subject = SUBJECT) -> tuple[Json, Json]:
    inputs = measure_inputs(subject, settings, found)
    return json.loads(json.dumps(measure_document(subject, settings, found))), json.loads(canonical_bytes(inputs))


def sealed(document: Json, inputs: Json) -> tuple[Json, bytes]:
    data = canonical_bytes(inputs)
    return document | {"inputs_digest": inputs_digest(data)}, data


@pytest.mark.parametrize(
    ("name", "level"),
    [("slots", Level.STANDARD), ("slots", Level.QUICK), ("quality", Level.STANDARD), ("mix", Level.STANDARD)],
)
def test_what_the_search_says_is_accepted(name: str, level: Level) -> None:
    document, inputs = documents(*measured(name, level, 1))

    report = check(*sealed(document, inputs))

    assert report.refused == ()
    assert {"result.certified_rps", "result.refuted_rps", "probes[0]"} <= set(report.vouched)


@given(st.integers(0, 10**6))
def test_how_far_a_load_is_from_the_recorded_one_follows_from_the_two(seed: int) -> None:
    found = likeness(seed)
    document, inputs = documents(*measured("slots", Level.QUICK, 1), replace(SUBJECT, likeness=found))

    report = check(*sealed(document, inputs))

    assert report.refused == ()
    assert {"load", "representative"} <= set(report.vouched)
    assert document["representative"]["prompt_distance"] is not None


def test_a_document_of_an_older_version_is_vouched_for_but_for_its_load() -> None:
    document, inputs = documents(*measured("slots", Level.QUICK, 1), replace(SUBJECT, likeness=likeness(3)))
    for name in ("load", "profiles"):
        del inputs[name]

    report = check(*sealed(document, inputs))

    assert report.accepted
    assert not {"load", "representative"} & set(report.vouched)


def test_lengths_that_are_no_distribution_are_refused() -> None:
    document, inputs = documents(*measured("slots", Level.QUICK, 1), replace(SUBJECT, likeness=likeness(3)))
    for column, value in (("share", "0.999"), ("at_most", "9999"), ("share", "2"), ("share", "x")):
        changed = copy.deepcopy(inputs)
        changed["profiles"]["sent"]["prompt_tokens"][column][0] = value

        assert not check(*sealed(document, changed)).accepted


def test_a_measurement_with_invalid_probes_is_accepted() -> None:
    settings, found = measured("slots", Level.STANDARD, 1)
    starved = SenderHealth(lag_p99_s=2.0, valid=False, why="starved")
    probes = [replace(one, health=starved, status=ProbeStatus.INVALID) for one in found.probes[-1:]]
    document, inputs = documents(settings, replace(found, probes=(*found.probes, *probes)))

    report = check(*sealed(document, inputs))

    assert report.refused == ()


def test_unknown_gpus_make_no_rate_per_gpu() -> None:
    settings, found = measured("slots", Level.STANDARD, 1)
    document, inputs = documents(settings, found, replace(SUBJECT, replicas=None))

    report = check(*sealed(document, inputs))

    assert report.refused == ()
    assert document["result"]["certified_rps_per_gpu"] is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("result", "certified_rps"), 15.0),
        (("result", "certified_rps"), None),
        (("result", "refuted_rps"), None),
        (("result", "confidence"), 0.99),
        (("result", "certified_rps_per_gpu"), 3.0),
        (("result", "replicas"), 1),
        (("level",), "strict"),
        (("service",), "another"),
        (("config", "digest"), "sha256:11"),
        (("load", "requests_sha256"), "sha256:33"),
        (("load", "streams"), False),
        (("representative", "prompt_distance"), 0.0),
        (("representative", "output_distance"), 0.5),
        (("representative", "burst_ratio"), 1.0),
        (("representative", "rate_ratio"), 1.0),
        (("representative", "far"), []),
        (("representative", "sent", "prompt_tokens", "p95"), 1.0),
        (("representative", "recorded", "dispersion"), 1.0),
        (("representative",), None),
        (("objectives", 0, "at_most_s"), 2.0),
        (("objectives", 0, "share"), 0.9),
        (("probes", 3, "status"), "invalid"),
        (("probes", 3, "rate_rps"), 20.0),
        (("probes", 3, "requests"), 7),
        (("probes", 4, "attainment", "ttft", "lo"), 0.99),
        (("probes", 4, "attainment", "ttft", "n_eff"), 900.0),
        (("probes", 4, "attainment", "ttft", "inflation"), 1.5),
        (("probes", 4, "attainment", "ttft", "met"), 1),
        (("probes", 4, "backlog", "grows"), None),
    ],
)
def test_a_claim_that_the_counts_do_not_show_is_refused(path: tuple[str | int, ...], value: object) -> None:
    document, inputs = documents(*measured("slots", Level.STANDARD, 1), replace(SUBJECT, likeness=likeness(3)))
    target: Any = document
    for step in path[:-1]:
        target = target[step]
    assert target[path[-1]] != value
    target[path[-1]] = value

    report = check(*sealed(document, inputs))

    assert not report.accepted


def test_counts_that_were_made_better_and_sealed_again_contradict_the_document() -> None:
    document, inputs = documents(*measured("slots", Level.STANDARD, 1))
    rng = Random(5)

    for _ in range(60):
        changed = copy.deepcopy(inputs)
        probe = rng.choice([one for one in changed["probes"] if one["phase"] != "ceiling"])
        column = probe["attainment"]["ttft"][rng.choice(["attempts", "misses", "pending"])]
        column[rng.randrange(len(column))] += rng.choice([1, 3, 10])
        assert not check(*sealed(document, changed)).accepted


@pytest.mark.parametrize(
    "change",
    [
        lambda inputs: inputs.update(tries=["1", "1"]),
        lambda inputs: inputs.update(alpha="0.9"),
        lambda inputs: inputs.update(refutes=0),
        lambda inputs: inputs.update(objectives=[]),
        lambda inputs: inputs.update(level="quick"),
        lambda inputs: inputs["probes"].append(inputs["probes"][-1]),
        lambda inputs: inputs["probes"][3].update(valid="yes"),
        lambda inputs: inputs["probes"][3].update(in_flight=[1]),
        lambda inputs: inputs["probes"][3].update(rate_rps="-1"),
        lambda inputs: inputs["probes"][3].update(batch_ns=0),
        lambda inputs: inputs["probes"][3]["attainment"].clear(),
        lambda inputs: inputs["probes"][3]["attainment"]["ttft"].update(misses=[10**9] * 15),
    ],
)
def test_inputs_that_cannot_be_are_refused(change: Any) -> None:
    document, inputs = documents(*measured("slots", Level.STANDARD, 1))
    change(inputs)

    report = check(*sealed(document, inputs))

    assert not report.accepted


def test_one_confirmation_more_than_alpha_was_set_aside_for_is_refused() -> None:
    document, inputs = documents(*measured("slots", Level.STANDARD, 1))
    confirmed = next(one for one in inputs["probes"] if one["phase"] == "confirm")
    inputs["probes"] += [confirmed] * 3

    report = check(*sealed(document, inputs))

    assert "one confirmation more" in str(report.refused[0])


def test_failures_that_are_called_invalid_over_and_over_are_refused() -> None:
    document, inputs = documents(*measured("slots", Level.STANDARD, 1))
    failed = next(one for one in inputs["probes"] if one["phase"] == "confirm") | {"valid": False}
    inputs["probes"] = [failed] * 4 + inputs["probes"]

    report = check(*sealed(document, inputs))

    assert "probes are invalid" in str(report.refused[0])
