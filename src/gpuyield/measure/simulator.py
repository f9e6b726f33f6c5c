"""A serving engine in virtual time: the bench on which the search is tested against a known truth.

Two engines. `SLOTS`: so many slots, first come first served, each request alone in its slot. `BATCHING`: continuous
batching; every step gives each running request one token and reads up to `prefill_tokens` of prompts, and takes
`step_ns` + `per_sequence_ns` for each running request + `per_prompt_token_ns` for each prompt token, so that prompts
slow the answers of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any  # numba's compiled functions have no types.

import numpy as np
from numpy.typing import NDArray

from gpuyield.errors import DeclarationError
from gpuyield.model.measure import CODES, NANOS, NEVER_NS, Arrivals, Grade, ProbePlan, Records, ResponseStatus, Run

_FAR_NS = 1 << 62


class EngineKind(StrEnum):
    """How requests share the server."""

    SLOTS = "slots"
    BATCHING = "batching"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The parameters of a server, times in nanoseconds.

    With `SLOTS` a request takes `step_ns` + prompt tokens x `per_prompt_token_ns` until its first token and then
    `step_ns` a token. `checks`: for each check the share of good answers (of those that begin within `rushed_ns`,
    and of the others).
    """

    kind: EngineKind
    slots: int
    step_ns: int
    per_sequence_ns: int = 0
    per_prompt_token_ns: int = 0
    prefill_tokens: int = 2048
    checks: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rushed_ns: int = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSet:
    """What may be sent: prompt and output lengths in tokens; the server's own output varies by `jitter`.

    `jitter` is the standard deviation of the logarithm of the output length, around the length of the request.

    Raises:
        DeclarationError: There is no request, or a length is less than 1.
    """

    prompt_tokens: NANOS
    output_tokens: NANOS
    jitter: float = 0.0

    def __post_init__(self) -> None:
        if not len(self.prompt_tokens) or min(self.prompt_tokens.min(), self.output_tokens.min()) < 1:
            raise DeclarationError(
                "a request of the simulator has no prompt, or no answer.",
                where="the request set",
                fix="Give each prompt and each answer at least one token.",
            )

    def __len__(self) -> int:
        return len(self.prompt_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulator:
    """A bench in virtual time; the same plan gives the same run."""

    engine: Engine
    requests: RequestSet

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Serve the arrivals, starting empty."""
        give_up_ns = plan.sending_ns + plan.drain_ns
        return Run(records=serve(self.engine, self.requests, arrivals, seed=plan.seed, give_up_ns=give_up_ns))


def serve(engine: Engine, requests: RequestSet, arrivals: Arrivals, *, seed: int, give_up_ns: int = _FAR_NS) -> Records:
    """What becomes of the arrivals on an engine that starts empty; what has not ended by `give_up_ns` is in flight."""
    rng = np.random.default_rng([seed, 1])
    prompt = requests.prompt_tokens[arrivals.request]
    output = requests.output_tokens[arrivals.request]
    if requests.jitter:
        scale = np.exp(rng.normal(-(requests.jitter**2) / 2, requests.jitter, len(output)))
        output = np.maximum(1, np.rint(output * scale)).astype(np.int64)
    count = len(arrivals)
    first, end, gap = (np.full(count, NEVER_NS, np.int64) for _ in range(3))
    kernel = _compiled()[engine.kind]
    limits = np.array(
        [engine.slots, engine.step_ns, engine.per_sequence_ns, engine.per_prompt_token_ns, engine.prefill_tokens]
    )
    kernel(arrivals.scheduled_ns, prompt, output, limits, give_up_ns, first, end, gap)
    done = end >= 0
    status = np.where(done, ResponseStatus.OK, ResponseStatus.IN_FLIGHT).astype(np.int8)
    rushed = first - arrivals.scheduled_ns > engine.rushed_ns
    return Records(
        scheduled_ns=arrivals.scheduled_ns,
        sent_ns=arrivals.scheduled_ns,
        first_ns=first,
        last_ns=end,
        end_ns=end,
        output_tokens=np.where(done, output, -1),
        input_tokens=np.where(done, prompt, -1),
        reads=np.where(done, output, 0),
        gap_max_ns=gap,
        status=status,
        grades={name: _graded(rng, shares, rushed, done) for name, shares in engine.checks.items()},
    )


def _graded(
    rng: np.random.Generator, shares: tuple[float, float], rushed: NDArray[np.bool_], done: NDArray[np.bool_]
) -> CODES:
    good = rng.random(len(done)) < np.where(rushed, shares[1], shares[0])
    return np.where(done, np.where(good, Grade.GOOD, Grade.BAD), Grade.UNGRADED).astype(np.int8)


def _serve_slots(
    arrive: NANOS, prompt: NANOS, output: NANOS, limits: NANOS, give_up: int, first: NANOS, end: NANOS, gap: NANOS
) -> None:
    """First come, first served on equal slots: the heap holds when each slot is free."""
    slots, step, per_prompt = limits[0], limits[1], limits[3]
    free = np.zeros(slots, np.int64)
    for at in range(len(arrive)):
        begin = max(arrive[at], free[0])
        first_at = begin + step + prompt[at] * per_prompt
        end_at = first_at + (output[at] - 1) * step
        if first_at <= give_up:
            first[at] = first_at
        if end_at <= give_up:
            end[at] = end_at
            if output[at] > 1:
                gap[at] = step
        hole = 0
        while True:
            below = 2 * hole + 1
            if below >= slots:
                break
            if below + 1 < slots and free[below + 1] < free[below]:
                below += 1
            if free[below] >= end_at:
                break
            free[hole] = free[below]
            hole = below
        free[hole] = end_at


def _serve_batching(
    arrive: NANOS, prompt: NANOS, output: NANOS, limits: NANOS, give_up: int, first: NANOS, end: NANOS, gap: NANOS
) -> None:
    """Step after step; the running requests lie in order of admission, prompts are read in that order."""
    slots, step, per_sequence, per_prompt, budget = limits[0], limits[1], limits[2], limits[3], limits[4]
    running = np.zeros(slots, np.int64)
    unread = np.zeros(slots, np.int64)
    left = np.zeros(slots, np.int64)
    spoke = np.zeros(slots, np.int64)
    active, following, now = 0, 0, 0
    count = len(arrive)
    while active or following < count:
        if not active and arrive[following] > now:
            now = arrive[following]
        while active < slots and following < count and arrive[following] <= now:
            running[active] = following
            unread[active] = prompt[following]
            left[active] = output[following]
            active += 1
            following += 1
        room = budget
        for at in range(active):
            if unread[at] and room:
                taken = min(unread[at], room)
                unread[at] -= taken
                room -= taken
                if unread[at] == 0:
                    unread[at] = -1
        now += step + per_sequence * active + per_prompt * (budget - room)
        if now > give_up:
            return
        kept = 0
        for at in range(active):
            request = running[at]
            if unread[at] == -1:
                unread[at] = 0
                first[request] = now
                spoke[at] = now
                left[at] -= 1
            elif unread[at] == 0:
                gap[request] = max(gap[request], now - spoke[at])
                spoke[at] = now
                left[at] -= 1
            if left[at] == 0:
                end[request] = now
                continue
            running[kept], unread[kept], left[kept], spoke[kept] = request, unread[at], left[at], spoke[at]
            kept += 1
        active = kept


@cache
def _compiled() -> dict[EngineKind, Callable[..., Any]]:
    import numba

    return {EngineKind.SLOTS: numba.njit(_serve_slots), EngineKind.BATCHING: numba.njit(_serve_batching)}
