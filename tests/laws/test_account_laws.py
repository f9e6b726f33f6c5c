"""Laws of the accounting: nothing is lost, whichever way the time is cut or the rows arrive."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from doubles.observations import DAY, Observations
from gpuyield.account import Accounting, account, summarise
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, SAMPLES, SERIES
from gpuyield.model.declaration import Rules
from gpuyield.model.outcome import JudgedSpan, OutcomeStatus
from gpuyield.model.waterfall import Waterfall
from gpuyield.units import DAY_MS, MINUTE_MS, Window

SPAN_MINUTES = 30 * 60
START = DAY + 20 * 60 * MINUTE_MS
RULES = Rules(idle_after_ms=10 * MINUTE_MS)

minutes = st.integers(0, SPAN_MINUTES)
spans = st.tuples(minutes, minutes).filter(lambda pair: pair[0] != pair[1]).map(sorted)


def at(minute: int) -> int:
    return START + minute * MINUTE_MS


def window(pair: Iterable[int]) -> Window:
    low, high = pair
    return Window(at(low), at(high))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Observations, int]:
    """Two nodes over 30 hours across a midnight, with pods one after the other on each card; capacity in GPU-ms.

    Pods begin when all are scraped: else the last sample of one would still hold the card when the next one has it.
    """
    seen = Observations(every_ms=draw(st.sampled_from([MINUTE_MS, 3 * MINUTE_MS])))
    capacity = 0
    for name in ("node-a", "node-b"):
        low, high = draw(spans)
        step = seen.every_ms // MINUTE_MS
        life = Window(at(low - low % step), at(high + (-high) % step))
        cards = draw(st.integers(1, 3))
        seen.node(name, life, cards=cards, allocatable=draw(st.integers(0, cards)))
        capacity += cards * life.length_ms
        for number in range(cards):
            card = f"GPU-{name}-{number}"
            scrapes = range(low + -low % step, high + 1, step)
            edges = sorted(draw(st.sets(st.sampled_from(scrapes), min_size=2, max_size=6))) if len(scrapes) > 1 else []
            for index, (begin, end) in enumerate(zip(edges[::2], edges[1::2], strict=False)):
                pod = f"pod-{name}-{number}-{index}"
                seen.pod(
                    pod,
                    window((begin, end)),
                    node=name,
                    namespace=draw(st.sampled_from(["a", "b"])),
                    running=at(draw(st.integers(begin, end))),
                    listed_until=at(min(high, end + draw(st.integers(0, 9)))) if draw(st.booleans()) else None,
                    times=draw(st.booleans()),
                )
                ratio = draw(st.sampled_from([0.0, 0.01, 0.05, 0.333333, 0.9, 1.0, float("nan")]))
                pause = draw(st.integers(begin, end))
                seen.activity(card, [(at(begin), at(pause), ratio)], node=name, pod=pod)
                seen.activity(card, [(at(min(end, pause + 7)), at(end), 1 - ratio)], node=name, pod=pod)
    if draw(st.booleans()):
        seen.waiting("waiting", window(draw(spans)), devices=draw(st.integers(1, 4)))
    return seen, capacity


judged = st.lists(
    st.builds(
        lambda pair, namespace, node, number, index, status, weight: JudgedSpan(
            namespace=namespace,
            workload=f"pod-{node}-{number}-{index}",
            pod_uid=None,
            from_ms=at(pair[0]) + 7,
            to_ms=at(pair[1]) + 13,
            status=status,
            weight=weight,
        ),
        spans,
        st.sampled_from(["a", "b"]),
        st.sampled_from(["node-a", "node-b"]),
        st.integers(0, 2),
        st.integers(0, 2),
        st.sampled_from(OutcomeStatus),
        st.integers(0, 5),
    ),
    max_size=6,
)


def leaves(*waterfalls: Waterfall) -> Counter[str]:
    summed: Counter[str] = Counter()
    for one in waterfalls:
        for leaf in one.leaves:
            summed[leaf.gpu_class] += leaf.gpu_ms
    return +summed


def accounted(ledger: Ledger, when: Window, spans_judged: Iterable[JudgedSpan] = ()) -> Accounting:
    return account(ledger, window=when, rules=RULES, judged=tuple(spans_judged))


@given(clusters(), judged, minutes)
@settings(max_examples=12, deadline=None)
def test_all_time_is_in_one_class_and_splitting_the_window_changes_nothing(
    cluster: tuple[Observations, int], spans_judged: list[JudgedSpan], cut: int
) -> None:
    seen, capacity = cluster
    whole = Window(START, at(SPAN_MINUTES + 10))
    middle = at(cut) + 31_337
    with tempfile.TemporaryDirectory() as folder:
        ledger = seen.ledger(Path(folder))

        found = summarise(accounted(ledger, whole, spans_judged), by=("team", "hour"))
        parts = [
            summarise(accounted(ledger, part, spans_judged)).waterfall
            for part in (Window(whole.from_ms, middle), Window(middle, whole.to_ms))
        ]

    assert found.waterfall.capacity_gpu_ms == capacity
    assert leaves(*parts) == leaves(found.waterfall)
    assert leaves(*(row.waterfall for row in found.rows)) == leaves(found.waterfall)
    for leaf in found.waterfall.leaves:
        assert 0 <= leaf.lo <= leaf.gpu_ms <= leaf.hi


@given(clusters(), st.randoms(use_true_random=False))
@settings(max_examples=6, deadline=None)
def test_the_order_in_which_rows_arrive_changes_nothing(
    cluster: tuple[Observations, int], chance: random.Random
) -> None:
    seen, _ = cluster
    whole = Window(START, START + 2 * DAY_MS)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other:
        ledger = seen.ledger(Path(folder))
        shuffled = Ledger.create(Path(other))
        for table in (SAMPLES, SERIES, RUNS):
            days = ledger.days(table)
            chance.shuffle(days)
            for day in days:
                rows = ledger.read(table, days=[day])
                order = list(range(len(rows[table.order[0]])))
                chance.shuffle(order)
                shuffled.replace_day(table, day, {name: values[order] for name, values in rows.items()})

        first, second = (summarise(accounted(one, whole), by=("workload", "hour")) for one in (ledger, shuffled))
        digests = ledger.digest(), shuffled.digest()

    assert first.waterfall == second.waterfall
    assert first.rows == second.rows
    assert digests[0] == digests[1]
