"""Nobody gets more jobs on time by saying what is not so: simulated on Kueue's contract, job by job the same worlds."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from statistics import mean, stdev

import pytest

from doubles.enforced import TERMS, Enforced
from doubles.kueue_contract import BEGIN, KueueContract, Submitted, planned_queue
from gpuyield.decide.live.claims import with_claims
from gpuyield.decide.live.jobs import LiveTerms
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.units import SECOND_MS
from laws.sizes import size

_GPUS, _JOBS, _SECONDS = 4, 40, 240
_WORLDS = size(default=60, sample=2, full=60)
_POINT = 0.01
HOSTILE, HONEST = "train", "evals"


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is true of a job: when it comes, its size, how long it runs, and by when its owner needs it, in seconds."""

    name: str
    namespace: str
    at: int
    gpus: int
    runs: int
    within: int


def truthful(job: Job) -> Submitted:
    """The job as its owner says it."""
    return Submitted(
        name=job.name,
        namespace=job.namespace,
        gpus=job.gpus,
        runs_ms=job.runs * SECOND_MS,
        annotations={"expected-duration": f"{job.runs}s", "deadline": f"within {job.within}s"},
    )


def _says(said: Submitted, **annotations: str) -> Submitted:
    return replace(said, annotations={**said.annotations, **annotations})


Lie = Callable[[Job, Submitted], Submitted]
LIES: dict[str, Lie] = {
    "shorter": lambda job, said: _says(said, **{"expected-duration": f"{max(1, job.runs // 4)}s"}),
    "longer": lambda job, said: _says(said, **{"expected-duration": f"{3 * job.runs}s"}),
    "earlier deadline": lambda job, said: _says(said, deadline=f"within {job.runs + 5}s"),
    "more weight": lambda job, said: _says(said, weight="1000"),
    "no gate": lambda job, said: replace(said, gated=False),
    "others first": lambda job, said: _says(said, after=f"{HONEST}/j0"),
}
LIES["all of it"] = lambda job, said: functools.reduce(
    lambda found, lie: LIES[lie](job, found), ("shorter", "earlier deadline", "more weight", "no gate"), said
)


def world(seed: int) -> list[Job]:
    """Jobs of two namespaces, a little more than the GPUs can do in time."""
    rng = Random(f"world {seed}")
    found = []
    for number in range(_JOBS):
        gpus, runs = rng.choice([1, 1, 2, 4]), rng.randint(4, 24)
        found.append(
            Job(
                name=f"{rng.choice('abc')}-{number}",
                namespace=(HONEST, HOSTILE)[number % 2],
                at=rng.randint(0, _SECONDS // 2),
                gpus=gpus,
                runs=runs,
                within=runs + rng.randint(10, 90),
            )
        )
    return sorted(found, key=lambda one: one.at)


def terms(seen: ClusterSnapshot) -> LiveTerms:
    """As the controller knows them: what ended work was said to take is held against what it took."""
    return with_claims(replace(TERMS, stem=lambda name: name.partition("-")[0]), seen)


def on_time(jobs: list[Job], lie: Lie | None) -> dict[str, float]:
    """The share of each namespace's jobs that ended when their owners needed them."""
    there = KueueContract([planned_queue("main", {"h100": _GPUS})], {"h100": _GPUS})
    enforced = Enforced(there, terms=terms)
    coming = list(jobs)
    for second in range(_SECONDS + sum(one.runs for one in jobs) // 2):
        there.pass_time(BEGIN + second * SECOND_MS)
        while coming and coming[0].at == second:
            job = coming.pop(0)
            said = truthful(job)
            there.submit(said if lie is None or job.namespace == HONEST else lie(job, said))
        enforced.rounds()
        if not coming and all(one.ended_ms is not None for one in there.jobs.values()):
            break
    kept: dict[str, list[bool]] = {HONEST: [], HOSTILE: []}
    for job in jobs:
        ended_ms = there.jobs[f"{job.namespace}/{job.name}"].ended_ms
        needed_ms = BEGIN + (job.at + job.within) * SECOND_MS
        kept[job.namespace].append(ended_ms is not None and ended_ms <= needed_ms)
    return {namespace: mean(found) for namespace, found in kept.items()}


@functools.cache
def truth(seed: int) -> dict[str, float]:
    """The shares where everybody tells the truth."""
    return on_time(world(seed), None)


@pytest.mark.slow_laws
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("lie", LIES)
def test_lying_gains_a_namespace_no_more_than_a_point_of_its_jobs_on_time(
    lie: str, record_property: Callable[[str, object], None]
) -> None:
    gains = [on_time(world(seed), LIES[lie])[HOSTILE] - truth(seed)[HOSTILE] for seed in range(_WORLDS)]

    surely = mean(gains) - 1.65 * stdev(gains) / math.sqrt(len(gains))
    assert 0.3 < mean(truth(seed)[HOSTILE] for seed in range(_WORLDS)) < 0.97, "there is something to gain and to lose"
    assert surely <= _POINT, f"{100 * mean(gains):+.1f} points, surely more than {100 * surely:+.1f}"
    record_property("gain", mean(gains))
