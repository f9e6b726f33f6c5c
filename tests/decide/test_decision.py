from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from gpuyield.decide.decide import decide
from gpuyield.decide.document import decision_document, decision_inputs
from gpuyield.model.decision import (
    Coverage,
    DecideInputs,
    Decision,
    DecisionStatus,
    GpuRate,
    LeverKind,
    Offer,
    ServiceHolding,
)
from gpuyield.model.document import canonical_bytes, inputs_digest
from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
from gpuyield.model.waterfall import Holder
from gpuyield.plan.online.observed import observed_table
from gpuyield.units import DAY_MS, HOUR_MS, Money, Window, parse_instant
from gpuyield.verify import check

ORIGIN = parse_instant("2026-11-30T21:00:00Z")  # 22:00 in Berlin
ONE, TWO, THREE, FOUR, FIVE = (hours * HOUR_MS for hours in (1, 2, 3, 4, 5))
H100 = {"gpu": GpuRate(gpu_hour=Money(Decimal("2.49"), "EUR"), source="declared")}


def job(name: str, deadline_ms: int | None, duration_ms: int = TWO, gpus: int = 2, resource: str = "gpu") -> PlanJob:
    shape = Shape(demand={resource: gpus}, duration_ms=duration_ms)
    return PlanJob(id=name, shapes=(shape,), deadline_ms=deadline_ms)


def problem(*jobs: PlanJob, **capacity: int) -> Problem:
    steps = {name.replace("_", "/"): ((0, amount),) for name, amount in (capacity or {"gpu": 4}).items()}
    return Problem(origin_ms=ORIGIN, jobs=jobs, capacity=Capacity(steps=steps), zone="Europe/Berlin")


def four(deadline_ms: int) -> Problem:
    return problem(*(job(name, deadline_ms) for name in "abcd"))


def inputs(declared: Problem | None, **more: Any) -> DecideInputs:
    return DecideInputs(now_ms=ORIGIN, problem=declared, zone="Europe/Berlin", **more)


def holder(gpus_now: int, flavor: str = "h100", idle_hours: int = 48) -> Holder:
    return Holder(
        namespace="research",
        workload="notebook",
        team="research",
        flavor=flavor,
        gpus=4,
        idle_gpu_ms=idle_hours * HOUR_MS,
        since_ms=ORIGIN - DAY_MS,
        gpus_now=gpus_now,
        open_start=False,
        longest=Window(ORIGIN - DAY_MS, ORIGIN),
    )


def lever(decision: Decision, kind: LeverKind) -> dict[str, Any]:
    return next(one for one in decision_document(decision)["levers"] if one["lever"] == kind)


def test_four_jobs_due_at_two_need_no_purchase() -> None:
    document = decision_document(decide(inputs(four(FOUR), prices=H100)))

    assert (document["status"], document["headline"], document["lead"][0]) == (
        "not_needed",
        "For the declared batch work: no GPU purchase needed.",
        "4 of 4 GPUs suffice; starting all at once would take 8 GPUs.",
    )
    assert document["levers"][0]["change"] == "Start 2 of 4 jobs later than at once: 4 GPUs at most instead of 8."
    assert document["certificate"]["claim"] == "met"


def test_the_same_jobs_due_at_one_need_four_more_and_say_what_they_cost() -> None:
    document = decision_document(decide(inputs(four(THREE), prices=H100)))

    assert (document["status"], document["headline"]) == (
        "needed",
        (
            "For the declared batch work: a purchase is needed: at least 8 GPUs are needed, 4 exist; "
            "4 more cost 7,270.80 EUR a month."
        ),  # 4 x 2.49 x 730 h
    )
    assert document["lead"] == [
        (
            "Whatever the order, all four jobs must run between 23:00 and 00:00 (8 GPUs), and 4 exist: "
            "at least 4 GPUs more."
        )
    ]
    assert document["levers"][-1]["gpus_added"] == {"gpu": 4}
    assert document["levers"][-1]["money_per_month"] == {"amount": "-7270.80", "currency": "EUR"}
    certificate = document["certificate"]["plan"]["certificate"]
    assert (certificate["kind"], certificate["from_ms"], certificate["to_ms"]) == ("interval", ONE, TWO)
    assert document["first_shortage"]["p50"] == "2026-11-30T22:00:00Z"
    assert [one["sentence"] for one in document["flip_points"]] == [
        "4 GPUs more for 1h would be enough: 9.96 EUR if they can be had by the hour at 2.49.",
        "With 2 deadlines up to 1h later (c and d) none is needed.",
        "Without 2 jobs (c and d) none is needed.",
    ]


def test_needed_is_refused_without_a_price() -> None:
    decision = decide(inputs(four(THREE)))

    assert (decision.status, decision.reasons) == (DecisionStatus.UNKNOWN, ("no price for a GPU-hour",))
    assert decision.next_experiment is not None
    assert decision.next_experiment.sentence == "Add the price of a GPU-hour under prices."


def test_needed_is_refused_while_an_unmeasured_service_holds_the_same_gpus() -> None:
    chat = ServiceHolding(name="chat", gpus={"gpu": 12})

    refused = decide(inputs(four(THREE), prices=H100, services=(chat,)))
    elsewhere = decide(inputs(four(THREE), prices=H100, services=(replace(chat, gpus={"gpu/l4": 2}),)))
    measured = decide(inputs(four(THREE), prices=H100, services=(replace(chat, measured=True, has_objective=True),)))

    assert refused.status is DecisionStatus.UNKNOWN
    assert refused.headline == (
        "For the declared batch work, with services as they are today: whether a purchase is needed is not known: "
        "service chat holds 12 of the same GPUs and has not been measured."
    )
    assert refused.next_experiment is not None
    assert refused.next_experiment.command == "gpuyield measure --service chat"
    assert (elsewhere.status, measured.status) == (DecisionStatus.NEEDED, DecisionStatus.NEEDED)


def test_several_services_are_one_reason() -> None:
    services = tuple(ServiceHolding(name=name, gpus={"gpu": held}) for name, held in (("a", 1), ("b", 9)))

    decision = decide(inputs(four(THREE), prices=H100, services=services))

    assert decision.reasons == ("services b and a hold 10 of the same GPUs and have not been measured",)


def test_a_service_with_replicas_to_spare_is_to_give_them_back_before_anything_is_bought() -> None:
    chat = ServiceHolding(name="chat", gpus={"gpu": 12}, has_objective=True, spare_replicas=2)

    decision = decide(inputs(four(THREE), prices=H100, services=(chat,)))

    assert decision.status is DecisionStatus.UNKNOWN
    assert "needs 2 replicas fewer by certified rate and demand" in decision.headline
    assert decision.next_experiment is not None
    assert decision.next_experiment.sentence == (
        "Run chat with 2 replicas fewer: certified rate and demand need no more."
    )
    assert any("replicas that certified rate and demand do not need: 2." in gap.reason for gap in decision.gaps)


def test_what_is_not_measured_and_what_has_replicas_to_spare_are_two_reasons() -> None:
    chat = ServiceHolding(name="chat", gpus={"gpu": 12}, has_objective=True, spare_replicas=1)
    search = ServiceHolding(name="search", gpus={"gpu": 4}, has_objective=True)

    decision = decide(inputs(four(THREE), prices=H100, services=(chat, search)))

    assert decision.reasons == (
        "service search holds 4 of the same GPUs and has not been measured",
        "service chat holds 12 of the same GPUs and needs 1 replica fewer by certified rate and demand",
    )


def test_a_job_that_would_run_on_either_of_two_flavors_names_no_flavor_that_must_be_bought() -> None:
    shapes = tuple(Shape(flavor=one, demand={f"gpu/{one}": 4}, duration_ms=TWO) for one in ("a100", "h100"))
    wide = PlanJob(id="wide", shapes=shapes, deadline_ms=FOUR)
    prices = {f"gpu/{one}": GpuRate(gpu_hour=Money(Decimal(2), "EUR"), source="declared") for one in ("a100", "h100")}

    decision = decide(inputs(problem(wide, gpu_a100=2, gpu_h100=2), prices=prices))

    assert decision.status is DecisionStatus.NEEDED
    assert "more GPUs are needed than exist; 2 more a100 GPUs cost 2,920.00 EUR a month" in decision.headline


def test_a_lack_of_processors_is_no_reason_to_buy_gpus() -> None:
    jobs = [
        PlanJob(id=name, shapes=(Shape(demand={"gpu": 1, "cpu": 8}, duration_ms=TWO),), deadline_ms=TWO)
        for name in "ab"
    ]

    decision = decide(inputs(problem(*jobs, gpu=4, cpu=8), prices=H100))

    assert (decision.status, decision.reasons) == (
        DecisionStatus.UNKNOWN,
        ("the proof names no GPUs that a purchase could add",),
    )


def test_deadlines_saved_are_those_beyond_a_queue_on_gpus_that_running_work_holds_too() -> None:
    running = replace(job("running", None, FOUR, gpus=4), started_ms=-ONE)
    given = inputs(problem(running, job("too soon", THREE), job("after it", FIVE)), prices=H100)

    reschedule = lever(decide(given), LeverKind.RESCHEDULE)

    assert reschedule["deadlines_saved"] == 0


def test_deadlines_that_a_queue_misses_and_the_plan_meets_are_saved() -> None:
    urgent = replace(job("urgent", THREE), release_ms=ONE)
    given = inputs(problem(job("long", FIVE + ONE, THREE, gpus=4), urgent), prices=H100)

    reschedule = lever(decide(given), LeverKind.RESCHEDULE)

    assert reschedule["deadlines_saved"] == 1


def test_idle_gpus_are_taken_back_before_any_are_bought() -> None:
    given = inputs(
        four(THREE),
        prices=H100,
        reclaimable={"gpu": 4},
        holders=(holder(gpus_now=4, flavor="gpu"),),
        window=Window(ORIGIN - DAY_MS, ORIGIN),
    )

    decision = decide(given)

    assert (decision.status, decision.headline, decision.lead[0]) == (
        DecisionStatus.NOT_NEEDED,
        "For the declared batch work: no GPU purchase needed.",
        "8 of 8 GPUs suffice, once idle ones are taken back.",
    )
    reclaim = lever(decision, LeverKind.RECLAIM)
    # 48 idle GPU-hours in a day are two GPUs: 2 x 2.49 x 730
    assert (reclaim["gpus_freed"], reclaim["money_per_month"]["amount"], reclaim["deadlines_saved"]) == (
        {"gpu": 4},
        "3635.40",
        2,
    )
    assert reclaim["holders"][0] == {
        "namespace": "research",
        "workload": "notebook",
        "team": "research",
        "flavor": "gpu",
        "gpus": 4,
        "since": "2026-11-29T21:00:00Z",
        "idle_gpu_h": 48.0,
        "longest_s": 86400,
    }


def test_money_of_idle_gpus_without_a_price_is_not_known() -> None:
    given = inputs(None, holders=(holder(gpus_now=2),), window=Window(ORIGIN - DAY_MS, ORIGIN))

    reclaim = lever(decide(given), LeverKind.RECLAIM)

    assert (reclaim["gpus_freed"], reclaim["money_per_month"]) == ({"h100": 2}, None)


def test_a_job_that_no_purchase_can_save_is_named_and_decides_nothing() -> None:
    alone = decide(inputs(problem(job("long", THREE, FIVE)), prices=H100))
    beside = decide(inputs(problem(job("long", THREE, FIVE), *four(THREE).jobs), prices=H100))

    assert (alone.status, alone.headline) == (
        DecisionStatus.NOT_NEEDED,
        "For the declared batch work: no GPU purchase needed, and none would bring long (2h late at best) in on time.",
    )
    assert decision_document(alone)["hopeless"] == [{"id": "long", "earliest_end": "2026-12-01T02:00:00Z"}]
    assert beside.status is DecisionStatus.NEEDED


def test_a_gang_wider_than_the_cluster_needs_a_purchase() -> None:
    decision = decide(inputs(problem(job("wide", FOUR, gpus=6)), prices=H100))

    assert (decision.status, decision.shortage and decision.shortage.at_least) == (DecisionStatus.NEEDED, 2)


def test_what_is_short_is_told_apart_by_flavor() -> None:
    jobs = [job(name, THREE, resource="gpu/a100") for name in "abcd"] + [job("e", THREE, resource="gpu/h100")]
    prices = {"gpu/a100": GpuRate(gpu_hour=Money(Decimal("1.50"), "EUR"), source="declared")}

    decision = decide(inputs(problem(*jobs, gpu_a100=4, gpu_h100=8), prices=prices))

    assert decision.status is DecisionStatus.NEEDED
    assert lever(decision, LeverKind.BUY)["gpus_added"] == {"a100": 4}
    assert lever(decision, LeverKind.BUY)["money_per_month"]["amount"] == "-4380.00"


def test_an_offer_sets_price_number_and_the_day_to_order_by() -> None:
    cheap = Offer(kind="reserved_1y", gpu_hour=Money(Decimal("1.60"), "EUR"), min_gpus=8, lead_time_ms=DAY_MS)
    dear = Offer(kind="on_demand", gpu_hour=Money(Decimal("3.00"), "EUR"))

    document = decision_document(decide(inputs(four(THREE), offers={"gpu": (dear, cheap)})))

    assert document["levers"][-1]["change"] == ("Buy 8 GPUs (reserved 1y, 1.60 EUR an hour); there after 1d.")
    assert document["order_by"] == "2026-11-29T22:00:00Z"


def test_without_declared_work_the_table_of_observed_work_is_the_headline() -> None:
    seen = [replace(job(f"j{number}", None), release_ms=number * ONE) for number in range(6)]
    capacity = Capacity(steps={"gpu": ((0, 4),)})
    rows = observed_table(seen, capacity, origin_ms=ORIGIN, zone="Europe/Berlin")

    document = decision_document(
        decide(inputs(None, observed=tuple(rows), observed_jobs=6, observed_window=Window(ORIGIN, ORIGIN + 7 * DAY_MS)))
    )

    assert (document["status"], document["scope"]["batch"]) == ("unknown", "observed")
    assert document["headline"] == (
        "No deadline is declared, so whether a purchase is needed is not known. "
        "If the 6 observed jobs of 7d may each finish within 8 h, 2 of 4 GPUs suffice."
    )
    assert [(row["finish_within"], row["gpus_needed"], row["impossible"]) for row in document["conditional"]][:2] == [
        ("1h", 0, 6),
        ("8h", 2, 0),
    ]


def test_with_nothing_given_the_answer_is_unknown_and_names_the_next_step() -> None:
    document = decision_document(decide(inputs(None)))

    assert (document["status"], document["certificate"]) == ("unknown", None)
    assert document["next_experiment"]["command"] == "gpuyield init"


def test_gpus_that_declared_work_does_without_are_not_free_while_other_work_runs_on_them() -> None:
    spare = problem(job("a", FOUR), gpu=8)

    alone = lever(decide(inputs(spare, prices=H100)), LeverKind.RESCHEDULE)
    shared = decide(inputs(spare, prices=H100, has_other_work=True))

    assert (alone["gpus_freed"], alone["money_per_month"]["amount"]) == ({"gpu": 6}, "10906.20")
    assert shared.levers == ()


def test_coverage_is_the_declared_share_of_gpu_time() -> None:
    document = decision_document(decide(inputs(four(FOUR), coverage=Coverage(declared_gpu_ms=3, total_gpu_ms=4))))

    assert document["coverage"] == 0.75


def test_the_same_inputs_give_the_same_bytes_and_the_digest_is_theirs() -> None:
    given = inputs(four(THREE), prices=H100, holders=(holder(2),), window=Window(ORIGIN - DAY_MS, ORIGIN))

    one, other = decide(given), decide(given)

    assert decision_document(one) == decision_document(other)
    data = canonical_bytes(decision_inputs(one))
    assert decision_document(one)["inputs_digest"] == inputs_digest(data)


DAY = Window(ORIGIN - DAY_MS, ORIGIN)
CHECKED = {
    "met": inputs(four(FOUR), prices=H100),
    "short": inputs(four(THREE), prices=H100, coverage=Coverage(declared_gpu_ms=1, total_gpu_ms=3)),
    "no price": inputs(four(THREE)),
    "offer": inputs(
        four(THREE), offers={"gpu": (Offer(kind="spot", gpu_hour=Money(Decimal("0.7"), "EUR"), min_gpus=8),)}
    ),
    "service": inputs(four(THREE), prices=H100, services=(ServiceHolding(name="chat", gpus={"gpu": 12}),)),
    "hopeless": inputs(problem(job("long", THREE, FIVE), *four(THREE).jobs), prices=H100),
    "wide": inputs(problem(job("wide", FOUR, gpus=6)), prices=H100),
    "reclaimed": inputs(four(THREE), prices=H100, reclaimable={"gpu": 4}, holders=(holder(4, "gpu"),), window=DAY),
    "reclaimed, not enough": inputs(
        four(THREE), prices=H100, reclaimable={"gpu": 2}, holders=(holder(2, "gpu"),), window=DAY
    ),
    "idle without a price": inputs(None, holders=(holder(2),), window=DAY),
    "other work": inputs(problem(job("a", FOUR), gpu=8), prices=H100, has_other_work=True),
    "nothing": inputs(None),
}


@pytest.mark.parametrize("name", CHECKED)
def test_every_decision_is_accepted_by_the_independent_checker(name: str) -> None:
    decision = decide(CHECKED[name])

    report = check(decision_document(decision), canonical_bytes(decision_inputs(decision)))

    assert report.accepted, report.refused


def test_round_prices_are_said_as_prices() -> None:
    dear = {"gpu": GpuRate(gpu_hour=Money(Decimal("1E+2"), "EUR"), source="declared")}

    change = lever(decide(inputs(four(THREE), prices=dear)), LeverKind.BUY)["change"]

    assert change == "Buy 4 GPUs (at today's price, 100.00 EUR an hour)."


def test_a_proof_that_rests_on_flavors_without_a_price_does_not_become_needed_by_leaving_out_a_job() -> None:
    either = PlanJob(
        id="either",
        shapes=tuple(Shape(flavor=one, demand={f"gpu/{one}": 2}, duration_ms=ONE) for one in ("a", "b")),
        deadline_ms=ONE,
    )
    jobs = (job("first", ONE, ONE, 2, "gpu/b"), either, job("third", ONE, ONE, 1, "gpu/b"))
    prices = {"gpu/a": GpuRate(gpu_hour=Money(Decimal(2), "EUR"), source="declared")}

    whole = decide(inputs(problem(*jobs, gpu_a=1, gpu_b=2), prices=prices))
    without_first = decide(inputs(problem(*jobs[1:], gpu_a=1, gpu_b=2), prices=prices))

    assert (whole.status, without_first.status) == (DecisionStatus.UNKNOWN, DecisionStatus.UNKNOWN)
    assert without_first.reasons == ("no price for flavor b",)
