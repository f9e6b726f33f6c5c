"""One replica leads, whatever the clocks of the others do."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from doubles.cluster.objects import ApiObjects
from gpuyield.collect.kubernetes import LEASE
from gpuyield.controller.lease import LENGTH_S, MARGIN_S, RENEW_S, Lease
from gpuyield.errors import SourceError
from gpuyield.model.marks import CONTROLLER, NAMESPACE


@dataclass(slots=True)
class Clock:
    """A clock that runs at its own pace."""

    pace: float = 1.0
    true_s: float = 0.0

    def __call__(self) -> float:
        return 1_000 + self.true_s * self.pace


def replica(api: ApiObjects, name: str, clock: Clock) -> Lease:
    return Lease(api, NAMESPACE, name, monotonic=clock)


steps = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([0.0, 0.5, RENEW_S, 7.0, LENGTH_S, 20.0]), st.booleans()), max_size=60
)


@given(steps, st.lists(st.sampled_from([0.9, 1.0, 1.1]), min_size=3, max_size=3))
def test_two_never_lead_at_once_though_their_clocks_run_at_different_paces(
    done: list[tuple[int, float, bool]], paces: list[float]
) -> None:
    api = ApiObjects()
    clocks = [Clock(pace) for pace in paces]
    replicas = [replica(api, f"r{at}", clock) for at, clock in enumerate(clocks)]

    for which, passes_s, reaches in done:
        for clock in clocks:
            clock.true_s += passes_s
        api.refuses = set() if reaches else {LEASE.plural}
        try:
            replicas[which].try_once()
        except SourceError:
            assert not reaches
        assert sum(one.leads() for one in replicas) <= 1


def test_who_renews_leads_on_and_nobody_else_is_told_to() -> None:
    api, clock = ApiObjects(), Clock()
    first, second = (replica(api, name, clock) for name in ("a", "b"))

    for _ in range(20):
        first.try_once()
        second.try_once()
        assert (first.leads(), second.leads(), second.is_stale()) == (True, False, False)
        clock.true_s += RENEW_S

    assert second.holder() == "a"
    assert api.get(LEASE, CONTROLLER, NAMESPACE)["spec"]["leaseTransitions"] == 0


def test_a_leader_that_is_heard_of_no_more_stops_before_the_next_one_leads() -> None:
    api, clock = ApiObjects(), Clock()
    first, second = (replica(api, name, clock) for name in ("a", "b"))
    first.try_once()
    second.try_once()
    led_until_s = taken_s = None

    while taken_s is None:
        clock.true_s += 0.5
        second.try_once()
        if led_until_s is None and not first.leads():
            led_until_s = clock.true_s
        if second.leads():
            taken_s = clock.true_s

    assert led_until_s is not None
    assert LENGTH_S - MARGIN_S <= led_until_s <= LENGTH_S - MARGIN_S + 0.5
    assert LENGTH_S < taken_s <= LENGTH_S + 1
    assert api.get(LEASE, CONTROLLER, NAMESPACE)["spec"]["leaseTransitions"] == 1


def test_a_lease_that_is_given_back_is_taken_at_once() -> None:
    api, clock = ApiObjects(), Clock()
    first, second = (replica(api, name, clock) for name in ("a", "b"))
    first.try_once()
    second.try_once()

    first.stop()
    second.try_once()

    assert (first.leads(), second.leads()) == (False, True)


def test_a_standby_says_that_the_leader_is_stale_before_it_leads_itself() -> None:
    api, clock = ApiObjects(), Clock()
    first, second = (replica(api, name, clock) for name in ("a", "b"))
    first.try_once()
    second.try_once()

    clock.true_s += LENGTH_S + 1

    assert second.is_stale()
    assert not second.leads()
