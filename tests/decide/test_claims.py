"""Whose word on run times is believed."""

from __future__ import annotations

from doubles.kueue_objects import flavor, job, local_queue, node, queue, seen, workload
from gpuyield.decide.live.claims import claims_of, with_claims
from gpuyield.decide.live.jobs import LiveTerms, ReadWork
from gpuyield.decide.live.problem import live_problem
from gpuyield.model.declaration import Declaration
from gpuyield.model.kueue import ClusterSnapshot
from gpuyield.plan.online.claims import Claim, learn_claims
from gpuyield.units import HOUR_MS, MINUTE_MS

TERMS = LiveTerms(declaration=Declaration(), history=lambda family: None, stem=lambda name: name.partition("-")[0])


def runs(count: int, *, claimed_ms: int, run_ms: int, family: str = "train", gpus: int = 1) -> list[Claim]:
    one = Claim(namespace="evals", family=family, gpus=gpus, claimed_ms=claimed_ms, run_ms=run_ms)
    return [one] * count


def cluster(*, took: str, said: str, count: int) -> ClusterSnapshot:
    """Runs of `train` that ended, and one that waits, and one of another team under the same name."""
    names = [f"train-{at}" for at in range(count)]
    ended = [workload(name, 1, on="h100", admitted="2026-11-30T20:00:00Z", finished=took) for name in names]
    return seen(
        resourceflavors=[flavor("h100", gpu="h100")],
        clusterqueues=[queue("batch", {"h100": {"nominalQuota": 4}})],
        localqueues=[local_queue("main", "batch"), local_queue("main", "batch", namespace="other")],
        nodes=[node("n0", 4, gpu="h100")],
        workloads=[*ended, workload("train-next", 1), workload("train-theirs", 1, namespace="other")],
        jobs=[
            *(job(name, expected_duration=said) for name in [*names, "train-next"]),
            job("train-theirs", namespace="other", expected_duration=said),
        ],
    )


def read(of: ClusterSnapshot) -> dict[str, ReadWork]:
    return {one.work.name: one for one in live_problem(of, with_claims(TERMS, of)).work}


def length_ms(one: ReadWork) -> int:
    assert one.job is not None
    return one.job.shapes[0].duration_ms


def test_a_family_that_overruns_is_planned_at_its_own_p90_and_fills_no_gaps() -> None:
    found = read(cluster(took="2026-11-30T23:00:00Z", said="30m", count=9))

    assert (length_ms(found["train-next"]), found["train-next"].overruns) == (3 * HOUR_MS, True)


def test_another_namespace_does_not_pay_for_a_family_of_the_same_name() -> None:
    found = read(cluster(took="2026-11-30T23:00:00Z", said="30m", count=9))

    assert (length_ms(found["train-theirs"]), found["train-theirs"].overruns) == (30 * MINUTE_MS, False)


def test_a_word_that_was_kept_counts() -> None:
    found = read(cluster(took="2026-11-30T23:00:00Z", said="3h", count=9))

    assert (length_ms(found["train-next"]), found["train-next"].overruns) == (3 * HOUR_MS, False)


def test_few_runs_say_nothing() -> None:
    found = read(cluster(took="2026-11-30T23:00:00Z", said="30m", count=4))

    assert (length_ms(found["train-next"]), found["train-next"].overruns) == (30 * MINUTE_MS, False)


def test_one_run_in_five_may_overrun_and_no_more() -> None:
    # Equal GPU time in all, so that the share of runs is that of GPU time too.
    good, bad = runs(1, claimed_ms=2 * HOUR_MS, run_ms=2 * HOUR_MS), runs(1, claimed_ms=HOUR_MS, run_ms=2 * HOUR_MS)

    assert not learn_claims([*(8 * good), *(2 * bad)]).overruns("evals", "train")
    assert learn_claims([*(7 * good), *(2 * bad)]).overruns("evals", "train")


def test_small_runs_that_keep_their_word_hide_no_long_one() -> None:
    small, large = runs(45, claimed_ms=MINUTE_MS, run_ms=MINUTE_MS), runs(5, claimed_ms=HOUR_MS, run_ms=5 * HOUR_MS)

    assert learn_claims([*small, *large]).overruns("evals", "train")


def test_a_new_name_buys_no_new_credit() -> None:
    lies = [one for at in range(6) for one in runs(1, claimed_ms=HOUR_MS, run_ms=4 * HOUR_MS, family=f"f{at}")]

    found = learn_claims(lies)

    assert found.overruns("evals", "never-seen")
    assert found.planned_ms("evals", "never-seen", HOUR_MS) >= 4 * HOUR_MS
    assert not found.overruns("other", "f0")


def test_who_keeps_the_word_again_is_believed_again() -> None:
    lies = runs(20, claimed_ms=HOUR_MS, run_ms=4 * HOUR_MS)
    kept = runs(50, claimed_ms=4 * HOUR_MS, run_ms=4 * HOUR_MS)

    assert learn_claims(lies).overruns("evals", "train")
    assert not learn_claims([*lies, *kept]).overruns("evals", "train")


def test_claims_are_read_in_the_order_in_which_runs_ended() -> None:
    found = claims_of(cluster(took="2026-11-30T23:00:00Z", said="30m", count=3).work, TERMS)

    assert [(one.family, one.claimed_ms, one.run_ms) for _, one in found] == [("train", HOUR_MS // 2, 3 * HOUR_MS)] * 3
