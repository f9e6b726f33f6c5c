"""The screen of `gpuyield cost`: its rows sum to the last one, and each says what is known of it."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from cost.test_cost_bill import BY_HAND, WHOLE_DAY, cost_of, node, result
from gpuyield.model.cost import Cost
from gpuyield.model.declaration import RateRule, Sharing
from gpuyield.model.outcome import OutcomeStatus
from gpuyield.report.answer import Answer
from gpuyield.report.screens.cost import cost_answer

VERIFIED = [result(OutcomeStatus.VERIFIED, 800), result(OutcomeStatus.UNVERIFIED, 200)]


def screen(cost: Cost) -> Answer:
    return cost_answer(cost, zone=ZoneInfo("UTC"))


def test_the_last_row_is_the_sum_and_time_that_nobody_held_says_so() -> None:
    (table,) = screen(cost_of(*BY_HAND, results=VERIFIED)).tables

    assert [row[:3] for row in table.texts()] == [
        ["evals", "38.18", "800"],
        ["support", "4.15", "-"],
        ["(nobody)", "77.19", "-"],
        ["all", "119.52", "800"],
    ]
    assert [row[-1] for row in table.texts()] == ["", "no outcome of it is known", "nothing of it was held", ""]


def test_the_rest_of_gpu_nodes_is_told_from_what_nobody_held() -> None:
    cost = cost_of(*WHOLE_DAY, prices=(), nodes=(node("72.00", "60.00"),), sharing=Sharing(rate=RateRule.GPU))

    (table,) = screen(cost).tables

    assert [row[:2] for row in table.texts()] == [
        ["evals", "45.00"],
        ["(nobody)", "15.00"],
        ["rest of GPU nodes", "12.00"],
        ["all", "72.00"],
    ]


def test_outcomes_that_do_not_tell_the_key_still_cost_something_over_all() -> None:
    answer = screen(cost_of(*BY_HAND, results=VERIFIED, by=("flavor", "team")))

    assert answer.headline[0] == (
        "A verified outcome costs 0.053 EUR (0.042-0.053); outcomes do not tell their flavor and team."
    )
