"""Kernel source: search with learning. Decide, propagate, and turn every dead end into a lemma that is kept.

Compiled, or run as it stands (see `lanes`). A bound is a variable that only rises: `2 j` is the earliest start of
task j, `2 j + 1` minus its latest start. A literal `(v, t)` says that variable v is at least t, its opposite is
`(v ^ 1, 1 - t)`. All reasoning about capacity is one fact, "these tasks cannot all run at instant x", which makes a
bound rise once all others of them are known to run at x. So every step of a proof can be checked by itself.

Source: lazy clause generation (Ohrimenko, Stuckey, Codish 2009); time tables with pointwise explanations
(Schutt, Feydy, Stuckey, Wallace 2011).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpuyield.plan.kernel.table import Ints

TRAIL, QUEUE, LEVEL, LEMMAS, LITERALS, HINTS, FACTS, FACT_TASKS, POOL = range(9)
CONFLICTS, LEFT, ROUND, NODES, ANSWER, DIRTY, STEPS, CONFLICT_KIND, CONFLICT_A, CONFLICT_B, CONFLICT_SIZE = range(9, 20)
KEPT, NEXT_REDUCE, SCALARS = 20, 21, 22
"""Places of the counters in `Search.n`."""

DURATION, PHASE, DEMAND = range(3)
"""Columns of `tasks`; demands from `DEMAND` on."""
CAP, BASE_LOW, BASE_HIGH, MEMBER_LOW, MEMBER_HIGH = range(5)
"""Columns of `resources`."""
BOUND, EVENT, WATCH, ORDER_LOW, ORDER_HIGH = range(5)
"""Columns of `vars`: the bound, the event that raised it, the first lemma that watches it, its rows of `order`."""
VAR, VALUE, BEFORE, EARLIER, AT_LEVEL, KIND, A, B, POOL_AT, SIZE, NEED, UNIT = range(12)
"""Columns of `trail`: what was raised to what, from what, by which event, why, and what a conflict needs of it."""
LITERAL_AT, HINT_AT, GONE, LENGTH = range(4)
"""Columns of `lemmas`."""
KEY, CHANGE, TIME, HEIGHT, KEPT_AT = range(5)
"""Columns of `scratch`."""
OPEN, PLAN, NONE, FULL = range(4)
"""What `ANSWER` says."""
DECISION, LEMMA, COVER, ORDER, CROSSED = range(5)
"""Kinds of reasons and conflicts."""

UNSET = -(1 << 62)
FIRST_ROUND = 64
REDUCE_EVERY = 3_000
DECAY = 0.95
FAR = 1 << 60


class Search(NamedTuple):
    """Everything that a search knows; arrays only, so that it can be stopped and taken up again.

    A row each: `tasks` duration, wish and demands; `resources` the most there is and where their rows of `base` (what
    is missing from when on) and `members` lie; `order` first and second task, grouped by bound; `vars` as below.
    """

    n: Ints
    tasks: Ints
    resources: Ints
    base: Ints
    members: Ints
    order: Ints
    vars: Ints
    activity: NDArray[np.float64]
    trail: Ints
    levels: Ints
    pool: Ints
    lemmas: Ints
    literals: Ints
    hints: Ints
    watches: Ints
    facts: Ints
    fact_tasks: Ints
    scratch: Ints


def run(s: Search, conflicts: int, decisions: int) -> None:
    """Go on for so many conflicts or decisions, or until there is an answer."""
    n = s.n
    stop, last = n[CONFLICTS] + conflicts, n[NODES] + decisions
    while n[ANSWER] == OPEN and n[NODES] < last:
        if not propagate(s):
            n[CONFLICTS] += 1
            learn(s)
            if n[ANSWER] != OPEN:
                return
            n[LEFT] -= 1
            if n[CONFLICTS] >= stop:
                return
            continue
        if n[LEFT] <= 0:
            n[ROUND] += 1
            n[LEFT] = FIRST_ROUND * luby(n[ROUND])
            undo(s, 0)
            if n[CONFLICTS] >= n[NEXT_REDUCE]:
                n[NEXT_REDUCE] = n[CONFLICTS] + REDUCE_EVERY
                forget(s)
            continue
        decide(s)


def luby(number: int) -> int:
    """1, 1, 2, 1, 1, 2, 4, ..."""
    size, power = 1, 0
    while size < number + 1:
        power += 1
        size = 2 * size + 1
    while size - 1 != number:
        size = (size - 1) // 2
        power -= 1
        number = number % size
    return 1 << power


def raise_bound(s: Search, var: int, value: int, kind: int, a: int, b: int, pool: int, size: int) -> bool:
    """Raise a bound for a reason; False where the task has no start left, or there is no room to note it."""
    n = s.n
    if value <= s.vars[var, BOUND]:
        return True
    at = n[TRAIL]
    if at >= len(s.trail) - 1:
        n[ANSWER] = FULL
        return False
    s.trail[at, VAR] = var
    s.trail[at, VALUE] = value
    s.trail[at, BEFORE] = s.vars[var, BOUND]
    s.trail[at, EARLIER] = s.vars[var, EVENT]
    s.trail[at, AT_LEVEL] = n[LEVEL]
    s.trail[at, KIND] = kind
    s.trail[at, A] = a
    s.trail[at, B] = b
    s.trail[at, POOL_AT] = pool
    s.trail[at, SIZE] = size
    s.trail[at, NEED] = UNSET
    s.vars[var, BOUND] = value
    s.vars[var, EVENT] = at
    n[TRAIL] = at + 1
    n[STEPS] += 1
    n[DIRTY] = 1
    if n[LEVEL] == 0:
        note_unit(s, at)
    if value + s.vars[var ^ 1, BOUND] > 0:
        n[CONFLICT_KIND] = CROSSED
        n[CONFLICT_A] = var
        n[CONFLICT_B] = value
        n[CONFLICT_SIZE] = 0
        return False
    return True


def note_unit(s: Search, at: int) -> None:
    """What holds without any decision is a lemma of its own."""
    if (
        s.trail[at, KIND] == LEMMA
        and s.lemmas[s.trail[at, A] + 1, LITERAL_AT] - s.lemmas[s.trail[at, A], LITERAL_AT] == 1
    ):
        s.trail[at, UNIT] = s.trail[at, A]
        return
    lemma = open_lemma(s)
    if lemma < 0:
        return
    put_hint(s, reason_hint(s, at))
    mark_reason(s, at, s.trail[at, VALUE], lemma)
    put_literal(s, s.trail[at, VAR], s.trail[at, VALUE])
    close_lemma(s, lemma)
    s.trail[at, UNIT] = lemma


def open_lemma(s: Search) -> int:
    """The number of the next lemma; -1 where there is no room for another."""
    n = s.n
    lemma = n[LEMMAS]
    if (
        lemma >= len(s.lemmas) - 2
        or n[LITERALS] > len(s.literals) - 4096
        or n[HINTS] > len(s.hints) - 16384
        or n[FACTS] > len(s.facts) - 8192
        or n[FACT_TASKS] > len(s.fact_tasks) - 65536
    ):
        n[ANSWER] = FULL
        return -1
    return int(lemma)


def close_lemma(s: Search, lemma: int) -> None:
    """Its literals and hints are complete."""
    n = s.n
    n[LEMMAS] = lemma + 1
    s.lemmas[lemma + 1, LITERAL_AT] = n[LITERALS]
    s.lemmas[lemma + 1, HINT_AT] = n[HINTS]


def put_literal(s: Search, var: int, value: int) -> None:
    """A literal of the lemma that is open."""
    s.literals[s.n[LITERALS], 0] = var
    s.literals[s.n[LITERALS], 1] = value
    s.n[LITERALS] += 1


def put_hint(s: Search, hint: int) -> None:
    """What the lemma that is open follows from, last step first."""
    s.hints[s.n[HINTS]] = hint
    s.n[HINTS] += 1


def reason_hint(s: Search, at: int) -> int:
    """The reason of an event, as a hint: a lemma, or a fact as a negative number."""
    if s.trail[at, KIND] == LEMMA:
        return int(s.trail[at, A])
    own = s.trail[at, VAR] >> 1
    return put_fact(s, s.trail[at, KIND], s.trail[at, A], s.trail[at, B], s.trail[at, POOL_AT], s.trail[at, SIZE], own)


def put_fact(s: Search, kind: int, a: int, b: int, pool: int, size: int, own: int) -> int:
    """Keep a fact for good: of tasks that cannot all run at an instant, or of one before another."""
    n = s.n
    fact = n[FACTS]
    s.facts[fact, 0] = kind
    s.facts[fact, 1] = a
    s.facts[fact, 2] = b
    if kind == COVER:
        for place in range(pool, pool + size):
            s.fact_tasks[n[FACT_TASKS]] = s.pool[place]
            n[FACT_TASKS] += 1
        if own >= 0:
            s.fact_tasks[n[FACT_TASKS]] = own
            n[FACT_TASKS] += 1
    n[FACTS] = fact + 1
    s.facts[fact + 1, 3] = n[FACT_TASKS]
    return -1 - int(fact)


def mark(s: Search, var: int, value: int) -> int:
    """Note that a literal was needed: 1 where it was decided or derived on the last level, else 0."""
    n = s.n
    at = s.vars[var, EVENT]
    while at >= 0 and s.trail[at, BEFORE] >= value:
        at = s.trail[at, EARLIER]
    if at < 0:
        return 0
    if s.trail[at, AT_LEVEL] == 0:
        put_hint(s, s.trail[at, UNIT])
        return 0
    if s.trail[at, NEED] != UNSET:
        if value > s.trail[at, NEED]:
            s.trail[at, NEED] = value
        return 0
    s.trail[at, NEED] = value
    if s.trail[at, AT_LEVEL] == n[LEVEL]:
        return 1
    s.scratch[n[KEPT], KEPT_AT] = at
    n[KEPT] += 1
    return 0


def mark_cover(s: Search, x: int, pool: int, size: int) -> int:
    """The literals that say that tasks run at x."""
    found = 0
    for place in range(pool, pool + size):
        task = s.pool[place]
        found += mark(s, 2 * task, x - s.tasks[task, DURATION] + 1)
        found += mark(s, 2 * task + 1, -x)
    return found


def mark_reason(s: Search, at: int, value: int, lemma: int) -> int:
    """The literals that an event follows from; `value` is what is needed of it."""
    kind, var = s.trail[at, KIND], s.trail[at, VAR]
    if kind == COVER:
        x, own = s.trail[at, B], var >> 1
        found = mark_cover(s, x, s.trail[at, POOL_AT], s.trail[at, SIZE])
        if var & 1:
            return found + mark(s, var, -x)
        return found + mark(s, var, x - s.tasks[own, DURATION] + 1)
    if kind == ORDER:
        first, second = s.trail[at, A], s.trail[at, B]
        other = 2 * second + 1 if var & 1 else 2 * first
        return mark(s, other, value - s.tasks[first, DURATION])
    found = 0
    if kind == LEMMA:
        reason = s.trail[at, A]
        for place in range(s.lemmas[reason, LITERAL_AT], s.lemmas[reason + 1, LITERAL_AT]):
            if s.literals[place, 0] != var:
                found += mark(s, s.literals[place, 0] ^ 1, 1 - s.literals[place, 1])
    return found


def learn(s: Search) -> None:
    """Turn the conflict into a lemma and go back to where it first makes a bound rise."""
    n = s.n
    if n[ANSWER] != OPEN:
        return
    lemma = open_lemma(s)
    if lemma < 0:
        return
    n[KEPT] = 0
    open_count = mark_conflict(s)
    if n[LEVEL] == 0:
        close_lemma(s, lemma)
        n[ANSWER] = NONE
        return
    at = n[TRAIL] - 1
    while True:
        while s.trail[at, NEED] == UNSET or s.trail[at, AT_LEVEL] != n[LEVEL]:
            at -= 1
        s.activity[s.trail[at, VAR] >> 1] += 1.0
        if open_count == 1:
            break
        value = s.trail[at, NEED]
        s.trail[at, NEED] = UNSET
        put_hint(s, reason_hint(s, at))
        open_count += mark_reason(s, at, value, lemma) - 1
        at -= 1
    back = keep_literals(s, at)
    close_lemma(s, lemma)
    for task in range(len(s.activity)):
        s.activity[task] *= DECAY
    undo(s, back)
    use_lemma(s, lemma)


def mark_conflict(s: Search) -> int:
    """The literals that a conflict follows from."""
    n = s.n
    kind, a, b = n[CONFLICT_KIND], n[CONFLICT_A], n[CONFLICT_B]
    if kind == CROSSED:
        return mark(s, a, b) + mark(s, a ^ 1, 1 - b)
    found = 0
    if kind == LEMMA:
        put_hint(s, a)
        for place in range(s.lemmas[a, LITERAL_AT], s.lemmas[a + 1, LITERAL_AT]):
            found += mark(s, s.literals[place, 0] ^ 1, 1 - s.literals[place, 1])
        return found
    pool = n[POOL]
    put_hint(s, put_fact(s, COVER, a, b, pool, n[CONFLICT_SIZE], -1))
    return mark_cover(s, b, pool, n[CONFLICT_SIZE])


def keep_literals(s: Search, asserting: int) -> int:
    """Write the opposite of what was kept as the lemma, the literal that will rise first; the level to go back to."""
    n = s.n
    put_literal(s, s.trail[asserting, VAR] ^ 1, 1 - s.trail[asserting, NEED])
    s.trail[asserting, NEED] = UNSET
    first = n[LITERALS]
    back, deepest = 0, first
    asserting_var = s.trail[asserting, VAR]
    for place in range(n[KEPT]):
        at = s.scratch[place, KEPT_AT]
        var = s.trail[at, VAR]
        s.activity[var >> 1] += 1.0
        later = var == asserting_var
        if not later:
            for other in range(n[KEPT]):
                if s.scratch[other, KEPT_AT] > at and s.trail[s.scratch[other, KEPT_AT], VAR] == var:
                    later = True
                    break
        if later:
            continue
        if s.trail[at, AT_LEVEL] > back:
            back, deepest = s.trail[at, AT_LEVEL], n[LITERALS]
        put_literal(s, var ^ 1, 1 - s.trail[at, NEED])
    for place in range(n[KEPT]):
        s.trail[s.scratch[place, KEPT_AT], NEED] = UNSET
    if n[LITERALS] > first:
        var, value = s.literals[first, 0], s.literals[first, 1]
        s.literals[first, 0], s.literals[first, 1] = s.literals[deepest, 0], s.literals[deepest, 1]
        s.literals[deepest, 0], s.literals[deepest, 1] = var, value
    return back


def use_lemma(s: Search, lemma: int) -> None:
    """Watch a new lemma and let its first literal rise."""
    first, past = s.lemmas[lemma, LITERAL_AT], s.lemmas[lemma + 1, LITERAL_AT]
    s.lemmas[lemma, LENGTH] = past - first
    if past - first > 1:
        watch(s, 2 * lemma, first)
        watch(s, 2 * lemma + 1, first + 1)
    raise_bound(s, s.literals[first, 0], s.literals[first, 1], LEMMA, lemma, 0, 0, 0)


def watch(s: Search, node: int, place: int) -> None:
    """Be told when the literal at a place becomes false."""
    var = s.literals[place, 0] ^ 1
    s.watches[node, 1] = place
    s.watches[node, 0] = s.vars[var, WATCH]
    s.vars[var, WATCH] = node


def undo(s: Search, level: int) -> None:
    """Take back every decision above a level."""
    n = s.n
    if n[LEVEL] <= level:
        return
    start = s.levels[level + 1, 0]
    for at in range(n[TRAIL] - 1, start - 1, -1):
        var = s.trail[at, VAR]
        if not var & 1:
            s.tasks[var >> 1, PHASE] = s.vars[var, BOUND]
        s.vars[var, BOUND] = s.trail[at, BEFORE]
        s.vars[var, EVENT] = s.trail[at, EARLIER]
    n[POOL] = s.levels[level + 1, 1]
    n[TRAIL] = start
    n[QUEUE] = start
    n[LEVEL] = level


def propagate(s: Search) -> bool:
    """Everything that follows; False at a conflict."""
    n = s.n
    while True:
        while n[QUEUE] < n[TRAIL]:
            var = s.trail[n[QUEUE], VAR]
            n[QUEUE] += 1
            if not follow_lemmas(s, var) or not follow_order(s, var):
                return False
        if not n[DIRTY]:
            return True
        n[DIRTY] = 0
        for resource in range(len(s.resources)):
            if not follow_capacity(s, resource):
                n[DIRTY] = 1
                return False
        if n[QUEUE] == n[TRAIL]:
            n[DIRTY] = 0
            return True


def follow_lemmas(s: Search, var: int) -> bool:
    """Lemmas of which a literal has become false: watch another one, or let the last one rise."""
    before, node = -1, s.vars[var, WATCH]
    while node >= 0:
        following = s.watches[node, 0]
        place, other = s.watches[node, 1], s.watches[node ^ 1, 1]
        is_false = 1 - s.literals[place, 1] <= s.vars[var, BOUND]
        if is_false and (s.lemmas[node >> 1, GONE] or watch_another(s, node)):
            if before < 0:
                s.vars[var, WATCH] = following
            else:
                s.watches[before, 0] = following
            node = following
            continue
        if is_false and s.vars[s.literals[other, 0], BOUND] < s.literals[other, 1]:
            if s.vars[s.literals[other, 0] ^ 1, BOUND] >= 1 - s.literals[other, 1]:
                s.n[CONFLICT_KIND] = LEMMA
                s.n[CONFLICT_A] = node >> 1
                return False
            if not raise_bound(s, s.literals[other, 0], s.literals[other, 1], LEMMA, node >> 1, 0, 0, 0):
                return False
        before, node = node, following
    return True


def watch_another(s: Search, node: int) -> bool:
    """Watch a literal that is not false in place of one that is; not needed where the other one is true."""
    lemma, place, other = node >> 1, s.watches[node, 1], s.watches[node ^ 1, 1]
    if s.vars[s.literals[other, 0], BOUND] >= s.literals[other, 1]:
        return False
    for look in range(s.lemmas[lemma, LITERAL_AT], s.lemmas[lemma + 1, LITERAL_AT]):
        if look not in (place, other) and s.vars[s.literals[look, 0] ^ 1, BOUND] < 1 - s.literals[look, 1]:
            watch(s, node, look)
            return True
    return False


def follow_order(s: Search, var: int) -> bool:
    """Tasks that wait for each other."""
    for place in range(s.vars[var, ORDER_LOW], s.vars[var, ORDER_HIGH]):
        first, second = s.order[place, 0], s.order[place, 1]
        other = 2 * first + 1 if var & 1 else 2 * second
        if not raise_bound(s, other, s.vars[var, BOUND] + s.tasks[first, DURATION], ORDER, first, second, 0, 0):
            return False
    return True


def base_of(s: Search, resource: int, x: int) -> int:
    """What is missing of the most there is, at an instant."""
    found = 0
    for place in range(s.resources[resource, BASE_LOW], s.resources[resource, BASE_HIGH]):
        if s.base[place, 0] > x:
            break
        found = s.base[place, 1]
    return int(found)


def follow_capacity(s: Search, resource: int) -> bool:
    """The time table of one resource: overloads, and bounds that it makes rise."""
    count = profile(s, resource)
    if count < 0:
        return False
    cap = s.resources[resource, CAP]
    highest = 0
    for at in range(count):
        if s.scratch[at, HEIGHT] > highest:
            highest = s.scratch[at, HEIGHT]
    for place in range(s.resources[resource, MEMBER_LOW], s.resources[resource, MEMBER_HIGH]):
        task = s.members[place]
        demand = s.tasks[task, DEMAND + resource]
        if demand + highest <= cap or s.vars[2 * task, BOUND] + s.vars[2 * task + 1, BOUND] == 0:
            continue
        if not push_right(s, resource, task, demand, count) or not push_left(s, resource, task, demand, count):
            return False
    return True


def profile(s: Search, resource: int) -> int:
    """Build the segments of what must be held: how many there are; -1 at an overload."""
    count = 0
    for place in range(s.resources[resource, MEMBER_LOW], s.resources[resource, MEMBER_HIGH]):
        task = s.members[place]
        last, end = -s.vars[2 * task + 1, BOUND], s.vars[2 * task, BOUND] + s.tasks[task, DURATION]
        if last < end:
            s.scratch[count, KEY] = last
            s.scratch[count, CHANGE] = s.tasks[task, DEMAND + resource]
            s.scratch[count + 1, KEY] = end
            s.scratch[count + 1, CHANGE] = -s.tasks[task, DEMAND + resource]
            count += 2
    missing = 0
    for place in range(s.resources[resource, BASE_LOW], s.resources[resource, BASE_HIGH]):
        s.scratch[count, KEY] = s.base[place, 0]
        s.scratch[count, CHANGE] = s.base[place, 1] - missing
        missing = s.base[place, 1]
        count += 1
    sort_changes(s, count)
    segments, held = 0, 0
    for at in range(count):
        if segments and s.scratch[segments - 1, TIME] == s.scratch[at, KEY]:
            held += s.scratch[at, CHANGE]
            s.scratch[segments - 1, HEIGHT] = held
            continue
        held += s.scratch[at, CHANGE]
        s.scratch[segments, TIME] = s.scratch[at, KEY]
        s.scratch[segments, HEIGHT] = held
        segments += 1
    for at in range(segments):
        if s.scratch[at, HEIGHT] > s.resources[resource, CAP]:
            gather(s, resource, s.scratch[at, TIME], -1)
            s.n[CONFLICT_KIND] = COVER
            s.n[CONFLICT_A] = resource
            s.n[CONFLICT_B] = s.scratch[at, TIME]
            return -1
    return segments


def sort_changes(s: Search, count: int) -> None:
    """The first rows of changes in order of time; Shell's sort, in place."""
    gap = 301
    while gap:
        for at in range(gap, count):
            key, change, look = s.scratch[at, KEY], s.scratch[at, CHANGE], at
            while look >= gap and s.scratch[look - gap, KEY] > key:
                s.scratch[look, KEY] = s.scratch[look - gap, KEY]
                s.scratch[look, CHANGE] = s.scratch[look - gap, CHANGE]
                look -= gap
            s.scratch[look, KEY] = key
            s.scratch[look, CHANGE] = change
        gap = gap * 3 // 7


def gather(s: Search, resource: int, x: int, own: int) -> int:
    """Into the pool: tasks that are known to run at x and, with one of one's own, hold too much; as few as may be."""
    n = s.n
    start = n[POOL]
    if start > len(s.pool) - 2 * len(s.tasks):
        n[ANSWER] = FULL
        n[CONFLICT_SIZE] = 0
        return 0
    size, total = 0, base_of(s, resource, x) - s.resources[resource, CAP]
    if own >= 0:
        total += s.tasks[own, DEMAND + resource]
    for place in range(s.resources[resource, MEMBER_LOW], s.resources[resource, MEMBER_HIGH]):
        task = s.members[place]
        if task != own and -s.vars[2 * task + 1, BOUND] <= x < s.vars[2 * task, BOUND] + s.tasks[task, DURATION]:
            s.pool[start + size] = task
            size += 1
            total += s.tasks[task, DEMAND + resource]
    slack = total - 1
    while slack > 0:
        least, chosen = slack + 1, -1
        for place in range(start, start + size):
            demand = s.tasks[s.pool[place], DEMAND + resource]
            if demand < least:
                least, chosen = demand, place
        if chosen < 0:
            break
        slack -= least
        size -= 1
        s.pool[chosen] = s.pool[start + size]
    n[CONFLICT_SIZE] = size
    return size


def first_segment(s: Search, count: int, x: int) -> int:
    """The segment that holds an instant; -1 before the first."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if s.scratch[middle, TIME] <= x:
            low = middle + 1
        else:
            high = middle
    return low - 1


def push_right(s: Search, resource: int, task: int, demand: int, count: int) -> bool:
    """Raise the earliest start of a task behind what is too high for it."""
    cap, duration = s.resources[resource, CAP], s.tasks[task, DURATION]
    at = max(0, first_segment(s, count, s.vars[2 * task, BOUND]))
    while at < count and s.scratch[at, TIME] < s.vars[2 * task, BOUND] + duration:
        end = s.scratch[at + 1, TIME] if at + 1 < count else FAR
        head, last = s.vars[2 * task, BOUND], -s.vars[2 * task + 1, BOUND]
        inside = last <= s.scratch[at, TIME] and end <= head + duration
        if end > head and not inside and s.scratch[at, HEIGHT] + demand > cap:
            x = min(end - 1, head + duration - 1)
            if last <= x:
                return True
            size = gather(s, resource, x, task)
            if s.n[ANSWER] != OPEN:
                return False
            pool = s.n[POOL]
            s.n[POOL] += size
            if not raise_bound(s, 2 * task, x + 1, COVER, resource, x, pool, size):
                return False
            continue
        at += 1
    return True


def push_left(s: Search, resource: int, task: int, demand: int, count: int) -> bool:
    """Lower the latest start of a task before what is too high for it."""
    cap, duration = s.resources[resource, CAP], s.tasks[task, DURATION]
    at = first_segment(s, count, -s.vars[2 * task + 1, BOUND] + duration - 1)
    while at >= 0:
        end = s.scratch[at + 1, TIME] if at + 1 < count else FAR
        head, last = s.vars[2 * task, BOUND], -s.vars[2 * task + 1, BOUND]
        if end <= last:
            return True
        inside = last <= s.scratch[at, TIME] and end <= head + duration
        if s.scratch[at, TIME] < last + duration and not inside and s.scratch[at, HEIGHT] + demand > cap:
            x = max(s.scratch[at, TIME], last)
            if last <= x < head + duration:
                return True
            size = gather(s, resource, x, task)
            if s.n[ANSWER] != OPEN:
                return False
            pool = s.n[POOL]
            s.n[POOL] += size
            if not raise_bound(s, 2 * task + 1, duration - x, COVER, resource, x, pool, size):
                return False
            continue
        at -= 1
    return True


def decide(s: Search) -> None:
    """Take the most active task that has a choice left, and decide about its start; without one there is a plan."""
    n = s.n
    chosen, best, soonest = -1, -1.0, 0
    for task in range(len(s.tasks)):
        head, last = s.vars[2 * task, BOUND], -s.vars[2 * task + 1, BOUND]
        if head == last:
            continue
        if chosen < 0 or s.activity[task] > best or (s.activity[task] == best and head < soonest):
            chosen, best, soonest = task, s.activity[task], head
    if chosen < 0:
        n[ANSWER] = PLAN
        return
    head, last = s.vars[2 * chosen, BOUND], -s.vars[2 * chosen + 1, BOUND]
    wish = s.tasks[chosen, PHASE]
    if n[LEVEL] == 0:
        n[POOL] = 0
    n[LEVEL] += 1
    s.levels[n[LEVEL], 0] = n[TRAIL]
    s.levels[n[LEVEL], 1] = n[POOL]
    n[NODES] += 1
    if head < wish <= last:
        raise_bound(s, 2 * chosen, wish, DECISION, 0, 0, 0, 0)
    else:
        raise_bound(s, 2 * chosen + 1, -head, DECISION, 0, 0, 0, 0)


def forget(s: Search) -> None:
    """Let go of the longer half of the lemmas that are not in use; only between rounds."""
    n = s.n
    total, count = 0, 0
    for lemma in range(n[LEMMAS]):
        if not s.lemmas[lemma, GONE] and s.lemmas[lemma, LENGTH] > 3:
            total += s.lemmas[lemma, LENGTH]
            count += 1
    if not count:
        return
    for lemma in range(n[LEMMAS]):
        if s.lemmas[lemma, LENGTH] > 3 and s.lemmas[lemma, LENGTH] * count > total:
            s.lemmas[lemma, GONE] = 1


LEARNING = (
    luby,
    open_lemma,
    close_lemma,
    put_hint,
    put_fact,
    reason_hint,
    mark,
    mark_cover,
    mark_reason,
    mark_conflict,
    put_literal,
    keep_literals,
    note_unit,
    raise_bound,
    watch,
    use_lemma,
    undo,
    learn,
    watch_another,
    follow_lemmas,
    follow_order,
    sort_changes,
    base_of,
    gather,
    profile,
    first_segment,
    push_right,
    push_left,
    follow_capacity,
    propagate,
    decide,
    forget,
    run,
)
"""Every function, behind those that it calls."""
