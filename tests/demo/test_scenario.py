"""The made-up cluster is whole, lawful and the same for the same seed."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from gpuyield.demo.cluster import Scenario
from gpuyield.demo.scenario import make_scenario
from gpuyield.units import MINUTE_MS

END_MS = 1_750_032_000_000


@pytest.fixture(params=[True, False], ids=["on-grid", "off-grid"], scope="module")
def scenario(request: pytest.FixtureRequest) -> Scenario:
    return make_scenario(seed=3, gpus=32, days=7, end_ms=END_MS, grid=request.param)


def test_the_same_seed_gives_the_same_cluster_and_another_seed_another() -> None:
    made = [make_scenario(seed=seed, gpus=16, days=3, end_ms=END_MS) for seed in (5, 5, 6)]

    assert made[0] == made[1]
    assert made[0].pods != made[2].pods


@pytest.mark.parametrize("gpus", [1, 2, 4, 8, 15, 16, 33, 200])
def test_there_are_as_many_cards_as_asked_for_and_all_differ(gpus: int) -> None:
    scenario = make_scenario(seed=1, gpus=gpus, days=2, end_ms=END_MS)

    cards = [card for node in scenario.nodes for card in node.cards]

    assert len(set(cards)) == len(cards) == gpus == scenario.gpus


def test_no_card_is_held_twice_at_once(scenario: Scenario) -> None:
    held = defaultdict(list)
    for pod in scenario.pods:
        for card in pod.cards:
            held[card].append((pod.scheduled_ms or 0, pod.ended_ms or scenario.window.to_ms))

    assert all(first[1] <= second[0] for spans in held.values() for first, second in pairwise(sorted(spans)))


def test_a_pod_holds_as_many_cards_of_one_node_as_it_asked_for(scenario: Scenario) -> None:
    cards_by_node = {node.name: set(node.cards) for node in scenario.nodes}

    placed = [pod for pod in scenario.pods if pod.gpus and pod.scheduled_ms is not None]

    assert all(len(pod.cards) == pod.gpus for pod in placed)
    assert all(set(pod.cards) <= cards_by_node[pod.node or ""] for pod in placed)


def test_nothing_is_placed_on_a_closed_node(scenario: Scenario) -> None:
    closed = {node.name: (*node.cordoned, *node.not_ready) for node in scenario.nodes}

    placed = [(pod.node, pod.scheduled_ms) for pod in scenario.pods if pod.gpus and pod.scheduled_ms is not None]

    # Half a second may pass between the choice of a node and the binding.
    assert not any(span.from_ms + 1000 <= at_ms < span.to_ms for node, at_ms in placed for span in closed[node or ""])


def test_a_pod_lives_in_order(scenario: Scenario) -> None:
    for pod in scenario.pods:
        moments = [pod.created_ms, pod.scheduled_ms, pod.running_ms, *pod.restarts_ms, pod.ended_ms, pod.deleted_ms]
        known = [at_ms for at_ms in moments if at_ms is not None]

        assert known == sorted(known)


def test_on_the_grid_every_change_falls_on_a_whole_minute() -> None:
    scenario = make_scenario(seed=3, gpus=32, days=7, end_ms=END_MS)

    moments = {at_ms for steps in scenario.activity.values() for at_ms, _ in steps}
    for pod in scenario.pods:
        moments |= {at for at in (pod.scheduled_ms, pod.running_ms, pod.ended_ms, pod.deleted_ms) if at is not None}

    assert {at_ms % MINUTE_MS for at_ms in moments} == {0}


def test_off_the_grid_hardly_any_change_does() -> None:
    scenario = make_scenario(seed=3, gpus=32, days=7, end_ms=END_MS, grid=False)

    moments = [pod.ended_ms for pod in scenario.pods if pod.ended_ms is not None]

    assert sum(at_ms % MINUTE_MS == 0 for at_ms in moments) < len(moments) / 10


def test_activities_are_exact_in_binary(scenario: Scenario) -> None:
    values = {value for steps in scenario.activity.values() for _, value in steps}

    assert all(0 <= value <= 1 and (value * 32).is_integer() for value in values)


def test_no_step_is_so_short_that_scrapes_could_miss_it(scenario: Scenario) -> None:
    for steps in scenario.activity.values():
        lengths = [second[0] - first[0] for first, second in pairwise(steps) if second[1] != first[1]]

        # A card may pass on to the next pod at once; what it does there begins with a pull of a minute or more.
        assert min(lengths, default=MINUTE_MS) >= MINUTE_MS


def test_the_story_has_what_a_report_should_find() -> None:
    scenario = make_scenario(end_ms=END_MS)

    late = [job for job in scenario.jobs if job.deadline_ms and (job.completed_ms or 0) > job.deadline_ms]

    assert any(job.family == "nightly-eval" for job in late)
    assert any(job.failed_pods for job in scenario.jobs)
    assert any(pod.gpus and pod.scheduled_ms is None for pod in scenario.pods)
    assert any(pod.waiting_reason == "ImagePullBackOff" for pod in scenario.pods)
    assert any(node.cordoned for node in scenario.nodes)
    assert any(node.not_ready for node in scenario.nodes)
    assert scenario.silences
    assert scenario.outcomes
    assert scenario.verdicts
