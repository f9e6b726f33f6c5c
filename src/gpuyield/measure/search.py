"""The rate search: which probe comes next, from those that ran, until a rate is certified and one is refuted.

`next_probe` is a pure function of the settings and of the probes so far: that is why a search that was killed goes on
where it stopped, and why the live search and the one in virtual time are the same. Every probe has fresh arrivals and a
length fixed in advance; what one says of its rate rests on its own counts alone, so that looking at it and going on
costs no confidence but the share of alpha that was set aside for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuyield.measure.judge import judge
from gpuyield.measure.rules import MAX_INVALID, RULES, Rules
from gpuyield.measure.state import State, burst, state_of
from gpuyield.measure.steps import confirm, look, refute
from gpuyield.model.declaration import Objective
from gpuyield.model.measure import SECOND_NS, Bench, Level, Measurement, Probe, ProbePlan, ProbeStatus, Scheduler, Stop


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a search is asked. No rate exceeds `max_rps`; `max_duration_s` None is without a limit."""

    objectives: tuple[Objective, ...]
    level: Level
    seed: int
    max_rps: float
    max_duration_s: float | None = None

    @property
    def rules(self) -> Rules:
        """What the level spends."""
        return RULES[self.level]


def search(
    bench: Bench,
    schedule: Scheduler,
    settings: Settings,
    *,
    kept: Sequence[Probe] = (),
    keep: Callable[[Probe], None] = lambda probe: None,
) -> Measurement:
    """Run probes until nothing is left to decide.

    `keep` gets each probe as soon as it ended; `kept` are those of an earlier run with the same settings.

    Raises:
        SourceError: The service is out of reach, or an abort condition holds.
    """
    probes = list(kept)
    while True:
        step = next_probe(settings, probes)
        if isinstance(step, Stop):
            return conclude(settings, probes, step)
        probe = judge(step, bench.run(step, schedule(step)), settings.objectives)
        keep(probe)
        probes.append(probe)


def next_probe(settings: Settings, probes: Sequence[Probe]) -> ProbePlan | Stop:
    """The next probe, or why there is none."""
    valid = [one for one in probes if one.status is not ProbeStatus.INVALID]
    if len(probes) - len(valid) >= MAX_INVALID:
        return Stop.INVALID
    step: ProbePlan | Stop | None = burst(valid, settings.max_rps)
    if step is None:
        state = _state(settings, valid)
        step = look(state) or confirm(state) or refute(state) or _end(state)
    if isinstance(step, Stop):
        return step
    plan = replace(step, number=len(probes), seed=_seed(settings.seed, len(probes)))
    spent_s = sum(one.duration_s for one in probes)
    if settings.max_duration_s is not None and spent_s + plan.sending_ns / SECOND_NS > settings.max_duration_s:
        return Stop.TIME
    return plan


def conclude(settings: Settings, probes: Sequence[Probe], stop: Stop) -> Measurement:
    """What the probes amount to; a rate that was not certified is None."""
    valid = [one for one in probes if one.status is not ProbeStatus.INVALID]
    if burst(valid, settings.max_rps) is not None:
        return Measurement(probes=tuple(probes), stop=stop)
    state = _state(settings, valid)
    certified, refuted = state.certified_rps, state.refuted_rps
    if certified is not None and refuted is not None and refuted <= certified:
        certified = refuted = None
        stop = Stop.CONTRADICTION
    return Measurement(
        probes=tuple(probes),
        stop=stop,
        certified_rps=certified,
        refuted_rps=refuted,
        estimate_rps=float(f"{state.guess.median_rps:.4g}"),
        limited_by=state.limited_by,
    )


def _state(settings: Settings, valid: Sequence[Probe]) -> State:
    return state_of(settings.rules, settings.objectives, settings.max_rps, valid)


def _seed(seed: int, number: int) -> int:
    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _end(state: State) -> Stop:
    if not state.rules.tries:
        return Stop.QUICK
    if state.certified_rps is None:
        return Stop.NOT_CERTIFIED
    if state.certified_rps >= state.max_rps:
        return Stop.MAX_RATE
    return Stop.NOT_REFUTED if state.refuted_rps is None else Stop.DECIDED
