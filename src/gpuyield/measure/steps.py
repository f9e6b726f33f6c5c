"""The probe that comes next in each phase: at which rate, and how long."""

from __future__ import annotations

import numpy as np

from gpuyield.measure.curve import WAVE, chance_to_break, chance_to_pass
from gpuyield.measure.rules import ALPHA, BATCHES, DRAIN_E2E, LONG_BATCH_E2E, RUNOUT_E2E, confirm_e2e
from gpuyield.measure.state import State, is_latency
from gpuyield.measure.statistics import normal_cdf
from gpuyield.model.measure import SECOND_NS, Phase, ProbePlan, ProbeStatus

_AIM = 0.98
_LIKELY = 0.5
_PASS_WAVE = 4.0
_STEP_DOWN = 0.95
_STEP_DOWN_FAILED = 0.90
_CEILING_CENTRE, _CEILING_SPREAD = 0.97, 0.04


def look(state: State) -> ProbePlan | None:
    """A cheap probe where the capacity is believed to be; None when it is known well enough."""
    rules, done = state.rules, state.of(Phase.SEARCH)
    known = len(done) >= 2 and state.guess.spread <= rules.spread
    if known or len(done) >= rules.search_probes or state.of(Phase.CONFIRM):
        return None
    rate = state.guess.median_rps * _AIM
    return _plan(state, Phase.SEARCH, rate, warmup_e2e=rules.warmup_e2e, length_e2e=rules.search_e2e)


def confirm(state: State) -> ProbePlan | None:
    """A long probe at a rate that it has a good chance to certify; None when one is, or the tries are used up."""
    rules, tried = state.rules, state.of(Phase.CONFIRM)
    if state.certified_rps is not None or len(tried) >= len(rules.tries):
        return None
    limit = state.max_rps
    for one in tried:
        missed = any(tally.bounds.share > tally.allowed for tally in one.tallies)
        down = _STEP_DOWN_FAILED if missed or one.status is ProbeStatus.FAIL else _STEP_DOWN
        limit = min(limit, one.plan.rate_rps * down)
    alpha = ALPHA * rules.tries[len(tried)]
    return _plan(
        state,
        Phase.CONFIRM,
        _confirmable_rps(state, alpha, limit),
        warmup_e2e=rules.confirm_warmup_e2e,
        length_e2e=confirm_e2e(rules, state.objectives),
        alpha_keep=alpha,
    )


def refute(state: State) -> ProbePlan | None:
    """A probe above the capacity, at the lowest rate that it has a fair chance to refute; None when one is."""
    rules = state.rules
    at_most = state.certified_rps is not None and state.certified_rps >= state.max_rps
    if at_most or state.refuted_rps is not None or len(state.of(Phase.REFUTE)) >= rules.refutes:
        return None
    alpha = ALPHA / rules.refutes
    rate = _refutable_rps(state, alpha)
    if rate > state.max_rps:
        return None
    return _plan(
        state,
        Phase.REFUTE,
        rate,
        warmup_e2e=rules.warmup_e2e,
        length_e2e=rules.refute_e2e,
        alpha_break=alpha,
    )


def _plan(
    state: State,
    phase: Phase,
    rate_rps: float,
    *,
    warmup_e2e: float,
    length_e2e: float,
    alpha_keep: float = ALPHA,
    alpha_break: float = ALPHA,
) -> ProbePlan:
    """Batches of equal length that fill the measured span; alpha is shared by the objectives (Bonferroni)."""
    e2e_ns = state.e2e_s * SECOND_NS
    batches = max(BATCHES, int(length_e2e / LONG_BATCH_E2E))
    return ProbePlan(
        number=0,
        phase=phase,
        seed=0,
        rate_rps=float(f"{min(rate_rps, state.max_rps):.4g}"),
        warmup_ns=round(warmup_e2e * e2e_ns),
        batch_ns=max(1, round(length_e2e / batches * e2e_ns)),
        batches=batches,
        runout_ns=round(RUNOUT_E2E * e2e_ns),
        drain_ns=round(DRAIN_E2E * e2e_ns),
        alpha_keep=alpha_keep / len(state.objectives),
        alpha_break=alpha_break / len(state.objectives),
    )


def _confirmable_rps(state: State, alpha: float, limit_rps: float) -> float:
    best, best_rps = 0.0, min(limit_rps, state.guess.median_rps * 0.6)
    # Each try that failed makes the next one more careful.
    greed = state.rules.greed / (1 + len(state.of(Phase.CONFIRM)))
    length_s = confirm_e2e(state.rules, state.objectives) * state.e2e_s
    for rate in np.minimum(limit_rps, state.guess.median_rps * np.arange(0.60, 1.05, 0.01)):
        value = rate**greed
        value *= normal_cdf((_CEILING_CENTRE - rate / state.ceiling_rps) / _CEILING_SPREAD)
        for at, belief in enumerate(state.beliefs):
            value *= chance_to_pass(
                belief,
                float(rate),
                requests=rate * length_s,
                wave=_wave(state, at, float(rate), _PASS_WAVE),
                alpha=alpha / len(state.beliefs),
            )
        if value > best:
            best, best_rps = value, float(rate)
    return best_rps


def _refutable_rps(state: State, alpha: float) -> float:
    tried = [one.plan.rate_rps for one in state.of(Phase.REFUTE)]
    lowest = max(tried, default=0.0) * 1.03
    for rate in state.guess.median_rps * np.arange(1.02, 1.6, 0.01):
        missed = 1.0
        for at, belief in enumerate(state.beliefs):
            size = rate * state.rules.refute_e2e * state.e2e_s / max(1.0, _wave(state, at, float(rate), WAVE))
            share = alpha / len(state.beliefs)
            missed *= 1 - chance_to_break(belief, float(rate), size=max(1.0, size), alpha=share)
        if rate >= lowest and 1 - missed >= _LIKELY:
            return float(rate)
    return max(lowest, state.guess.median_rps * 1.6)


def _wave(state: State, at: int, rate_rps: float, in_e2e: float) -> float:
    """How many requests in a row miss together at the limit: so many response times of them, else what was seen."""
    if is_latency(state.objectives[at]):
        return in_e2e * rate_rps * state.e2e_s
    steady = [one for one in state.probes if one.plan.phase is not Phase.CEILING]
    return max((one.tallies[at].bounds.inflation for one in steady), default=1.0)
