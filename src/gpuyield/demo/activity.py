"""How busy the cards are, as step functions.

Every value is a multiple of 1/32, which floats and six printed decimals hold exactly. No step is shorter than ten
minutes, and a card is either below the idle threshold for at most 20 minutes or for at least 45: a sampled series
then leaves no doubt which of the two it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from random import Random

from gpuyield.demo.cluster import Pod, Steps
from gpuyield.demo.story import Dice, Profile
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS

UNIT = 32
"""Activities are whole numbers of 1/32."""

_Spans = Iterator[tuple[int, int]]
"""Lengths in ms and activities in 1/32, one after the other."""


def pod_activity(pod: Pod, profile: Profile, dice: Dice, until_ms: int) -> dict[str, Steps]:
    """The steps of each of its cards; they end with a 0 when the pod ends."""
    if pod.running_ms is None or not pod.cards:
        return {}
    end_ms = min(pod.ended_ms if pod.ended_ms is not None else until_ms, until_ms)
    made = {}
    for number, card in enumerate(pod.cards):
        die = dice.of(f"activity/{pod.uid}/{number}")
        steps = list(_laid_out(_SHAPES[profile](die, dice, pod.running_ms), pod.running_ms, end_ms))
        for restarted in pod.restarts_ms:
            steps = _silenced(steps, restarted, restarted + 10 * MINUTE_MS)
        made[card] = (*steps, (end_ms, 0.0)) if end_ms < until_ms else tuple(steps)
    return made


def _laid_out(spans: _Spans, start_ms: int, end_ms: int) -> Iterator[tuple[int, float]]:
    at_ms, last = start_ms, -1
    for length_ms, level in spans:
        if at_ms >= end_ms or (at_ms > start_ms and end_ms - at_ms < 45 * MINUTE_MS):
            return
        if level != last:
            yield at_ms, level / UNIT
        at_ms, last = at_ms + length_ms, level


def _silenced(steps: list[tuple[int, float]], low_ms: int, high_ms: int) -> list[tuple[int, float]]:
    """The same with nothing done in between; steps close by are forgotten."""
    before = [step for step in steps if step[0] <= low_ms - 10 * MINUTE_MS]
    near = [step for step in steps if low_ms - 10 * MINUTE_MS < step[0] < high_ms + 10 * MINUTE_MS]
    after = [step for step in steps if step[0] >= high_ms + 10 * MINUTE_MS]
    resumed = [0.0, *(value for _, value in (*before, *near))][-1]
    return [*before, (low_ms, 0.0), (high_ms, resumed), *after]


def _nothing(die: Random, dice: Dice, start_ms: int) -> _Spans:
    while True:
        yield 30 * DAY_MS, 0


def _train(die: Random, dice: Dice, start_ms: int) -> _Spans:
    """Around 45 %, with a pause for a checkpoint now and then."""
    while True:
        yield dice.span(die, HOUR_MS, 3 * HOUR_MS), die.randint(13, 16)
        if die.random() < 0.2:
            yield dice.span(die, 10 * MINUTE_MS, 15 * MINUTE_MS), 0


def _finetune(die: Random, dice: Dice, start_ms: int) -> _Spans:
    while True:
        yield dice.span(die, 30 * MINUTE_MS, 90 * MINUTE_MS), die.randint(20, 28)


def _burn(die: Random, dice: Dice, start_ms: int) -> _Spans:
    while True:
        yield dice.span(die, 15 * MINUTE_MS, 40 * MINUTE_MS), die.randint(22, 30)


def _serve(die: Random, dice: Dice, start_ms: int) -> _Spans:
    """A day and a night: from a tenth to two thirds."""
    at_ms = start_ms
    while True:
        length = dice.span(die, 30 * MINUTE_MS, HOUR_MS)
        hour = (at_ms % DAY_MS) / HOUR_MS
        daily = 0.5 - 0.5 * math.cos((hour - 3) / 24 * 2 * math.pi)
        yield length, max(3, min(24, round(3 + 17 * daily + die.uniform(-1.5, 1.5))))
        at_ms += length


def _trickle(die: Random, dice: Dice, start_ms: int) -> _Spans:
    while True:
        yield dice.span(die, HOUR_MS, 4 * HOUR_MS), die.choice((2, 2, 3, 4))


def _bouts(die: Random, dice: Dice, start_ms: int) -> _Spans:
    """A notebook: an hour of work a day or less, and else a process that keeps the memory."""
    while True:
        yield dice.span(die, 20 * HOUR_MS, 60 * HOUR_MS), die.choice((0, 0, 1))
        yield dice.span(die, 45 * MINUTE_MS, 90 * MINUTE_MS), die.randint(6, 14)


_SHAPES: dict[Profile, Callable[[Random, Dice, int], _Spans]] = {
    Profile.NONE: _nothing,
    Profile.TRAIN: _train,
    Profile.FINETUNE: _finetune,
    Profile.SERVE: _serve,
    Profile.TRICKLE: _trickle,
    Profile.BOUTS: _bouts,
    Profile.BURN: _burn,
}
