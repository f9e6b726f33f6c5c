"""Where a pod's edges truly may lie: whole seconds, scrapes that did not show it, clocks that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any  # columns of rows

import pytest

from doubles.observations import Observations, at, span
from gpuyield.account import Accounting, account, summarise
from gpuyield.ledger.tables import RunKind
from gpuyield.model.waterfall import Account, GpuClass
from gpuyield.units import HOUR_MS, MINUTE_MS, Window

WINDOW = span("10:00", "12:00")
POD: dict[str, Any] = {"namespace": "team-a", "pod": "p", "uid": "uid-p"}


def _accounted(seen: Observations, folder: Path) -> Accounting:
    return account(seen.ledger(folder / "ledger"), window=WINDOW)


def _account(seen: Observations, folder: Path) -> Account:
    return summarise(_accounted(seen, folder))


def _bounds(found: Account, gpu_class: GpuClass) -> tuple[int, int, int]:
    leaf = found.waterfall.leaf(gpu_class)
    return leaf.lo, leaf.gpu_ms, leaf.hi


def _cluster() -> Observations:
    seen = Observations()
    seen.node("node-a", WINDOW, cards=1)
    return seen


def test_each_printed_time_is_a_whole_second_in_which_the_truth_lies(tmp_path: Path) -> None:
    seen = _cluster()
    seen.pod("p", span("10:10", "11:00"), running=at("10:20"), listed_until=at("11:30"))
    seen.activity("GPU-1", [(WINDOW.from_ms, WINDOW.to_ms, 1.0)], pod="p")

    found = _account(seen, tmp_path)

    # Bound and run up to a second later; free until then, and held a second longer at the end.
    assert _bounds(found, GpuClass.STARTING) == (10 * MINUTE_MS - 1_000, 10 * MINUTE_MS, 10 * MINUTE_MS + 1_000)
    assert _bounds(found, GpuClass.UNVERIFIED) == (40 * MINUTE_MS - 1_000, 40 * MINUTE_MS, 40 * MINUTE_MS + 1_000)
    assert found.waterfall.leaf(GpuClass.UNVERIFIED).evidence == "measured"


@pytest.mark.parametrize(("next_scrape", "latest"), [("10:40", "10:40"), ("10:42", "10:42"), ("10:44", "10:44")])
def test_a_pod_that_only_samples_tell_of_may_have_lived_until_the_next_scrape(
    tmp_path: Path, next_scrape: str, latest: str
) -> None:
    seen = _cluster()
    seen.pod("p", span("10:10", "10:40"), times=False)
    moments = range(WINDOW.from_ms, WINDOW.to_ms, MINUTE_MS)
    seen.scraped(one for one in moments if not at("10:39") < one < at(next_scrape))

    holding = _accounted(seen, tmp_path).pods.holdings[0]

    assert holding.to_ms == at("10:40")
    assert (holding.to_ms - holding.to_slack_ms, holding.to_ms + holding.to_lag_ms) == (at("10:39"), at(latest))


def test_a_pod_may_have_been_bound_since_the_last_scrape_without_it_however_long_ago(tmp_path: Path) -> None:
    seen = _cluster()
    seen.pod("p", span("10:10", "10:40"), times=False)
    seen.scraped(one for one in range(WINDOW.from_ms, WINDOW.to_ms, MINUTE_MS) if not at("10:07") < one < at("10:10"))

    holding = _accounted(seen, tmp_path).pods.holdings[0]

    assert (holding.from_ms, holding.from_slack_ms) == (at("10:10"), 3 * MINUTE_MS)


def test_of_two_targets_the_one_that_was_asked_longest_ago_may_be_the_one_that_tells(tmp_path: Path) -> None:
    seen = _cluster()
    seen.pod("p", span("10:10", "10:40"), times=False)
    seen.scraped(range(WINDOW.from_ms, WINDOW.to_ms, MINUTE_MS), target="one")
    seen.scraped(range(WINDOW.from_ms + 10_000, WINDOW.to_ms, MINUTE_MS), target="other")

    holding = _accounted(seen, tmp_path).pods.holdings[0]

    assert holding.from_slack_ms == MINUTE_MS
    assert holding.to_ms + holding.to_lag_ms == at("10:40")


def test_a_target_that_is_long_gone_bounds_nothing(tmp_path: Path) -> None:
    seen = _cluster()
    seen.pod("p", span("10:30", "10:40"), times=False)
    seen.scraped(range(WINDOW.from_ms, WINDOW.to_ms, MINUTE_MS), target="one")
    seen.scraped(range(WINDOW.from_ms, at("10:20"), 10_000), target="gone")

    holding = _accounted(seen, tmp_path).pods.holdings[0]

    assert holding.from_slack_ms == MINUTE_MS


def test_a_pod_seen_only_after_its_end_may_have_run_all_its_time(tmp_path: Path) -> None:
    seen = _cluster()
    listed = span("10:11", "10:20")
    seen.run(RunKind.POD_REQUEST, listed, node="node-a", container="main", resource="nvidia_com_gpu", **POD)
    seen.run(RunKind.POD_PHASE, listed, detail="Succeeded", **POD)
    seen.run(RunKind.POD_CREATED, listed, value=at("10:10") + 5_000, **POD)
    seen.run(RunKind.POD_SCHEDULED, listed, value=at("10:10") + 10_000, **POD)
    seen.run(RunKind.POD_COMPLETED, listed, value=at("10:10") + 40_000, **POD)

    found = _account(seen, tmp_path)

    assert _bounds(found, GpuClass.STARTING) == (0, 30_000, 31_000)
    assert found.waterfall.leaf(GpuClass.UNVERIFIED).hi == 31_000


def test_a_pod_of_which_one_container_ended_lives_on(tmp_path: Path) -> None:
    seen = _cluster()
    seen.pod("p", span("10:10", "11:00"))
    seen.run(RunKind.POD_COMPLETED, span("10:20", "11:00"), value=at("10:20"), **POD)

    holding = _accounted(seen, tmp_path).pods.holdings[0]

    assert (holding.to_ms, holding.ending) == (at("11:00"), "samples")


@pytest.mark.parametrize("wrong_ms", [at("11:30"), at("10:00", day=400), 10**30, 0, -HOUR_MS])
def test_a_time_that_was_printed_before_it_came_is_not_believed(tmp_path: Path, wrong_ms: int) -> None:
    seen = _cluster()
    held = span("10:10", "10:40")
    seen.pod("p", held, times=False)
    for kind in (RunKind.POD_CREATED, RunKind.POD_SCHEDULED, RunKind.POD_STARTED, RunKind.CONTAINER_STARTED):
        seen.run(kind, held, value=wrong_ms, **POD)
    seen.scraped(range(WINDOW.from_ms, WINDOW.to_ms, MINUTE_MS))

    found = _accounted(seen, tmp_path)

    holding = found.pods.holdings[0]
    assert (holding.from_ms, holding.running_ms, holding.to_ms) == (held.from_ms, held.from_ms, held.to_ms)
    assert found.pods.waiting == ()
    assert [gap.where for gap in found.gaps if "clock" in gap.reason] == ["node-a"]


def test_a_container_that_started_before_its_pod_was_bound_has_a_wrong_clock(tmp_path: Path) -> None:
    seen = _cluster()
    held = span("10:10", "10:40")
    seen.pod("p", held, running=at("10:20"), times=False)
    seen.run(RunKind.POD_SCHEDULED, held, value=held.from_ms, **POD)
    seen.run(RunKind.CONTAINER_STARTED, span("10:20", "10:40"), value=at("09:20"), **POD)

    found = _accounted(seen, tmp_path)

    assert found.pods.holdings[0].running_ms == at("10:20")
    assert any("clock" in gap.reason for gap in found.gaps)


def test_a_second_between_two_clocks_is_no_contradiction(tmp_path: Path) -> None:
    seen = _cluster()
    held = Window(at("10:10"), at("10:40"))
    seen.pod("p", held, times=False)
    seen.run(RunKind.POD_SCHEDULED, held, value=held.from_ms + 2_000, **POD)

    found = _accounted(seen, tmp_path)

    assert found.pods.holdings[0].from_ms == held.from_ms + 2_000
    assert not any("clock" in gap.reason for gap in found.gaps)


def test_what_is_held_when_reading_ends_may_have_ended_since_its_last_sample(tmp_path: Path) -> None:
    seen = _cluster()
    seen.pod("p", span("10:00", "12:00"))
    seen.activity("GPU-1", [(WINDOW.from_ms, WINDOW.to_ms, 1.0)], pod="p")

    found = _account(seen, tmp_path)

    assert _bounds(found, GpuClass.NO_DEMAND) == (0, 0, MINUTE_MS + 1_000)
    assert found.waterfall.leaf(GpuClass.NO_DEMAND).evidence == "measured"


def test_an_active_mig_card_that_perhaps_nobody_holds_may_be_bypassed(tmp_path: Path) -> None:
    seen = Observations()
    resources = {"nvidia_com_gpu": 0, "nvidia_com_mig_3g_40gb": 2}
    seen.node("node-a", WINDOW, resources=resources, labels={"gpu.count": "1", "gpu.product": "NVIDIA-H100"})
    seen.activity("GPU-1", [(WINDOW.from_ms, WINDOW.to_ms, 0.5)], instance="0", profile="3g.40gb")

    found = _account(seen, tmp_path)

    assert _bounds(found, GpuClass.NO_DEMAND) == (0, 2 * HOUR_MS, 2 * HOUR_MS)
    assert _bounds(found, GpuClass.BYPASSED) == (0, 0, 2 * HOUR_MS)


def test_a_free_card_that_is_not_sampled_may_be_bypassed(tmp_path: Path) -> None:
    seen = _cluster()
    seen.activity("GPU-1", [(at("10:00"), at("10:30"), 0.0), (at("11:30"), at("12:00"), 0.0)])

    found = _account(seen, tmp_path)

    lowest, gpu_ms, highest = _bounds(found, GpuClass.BYPASSED)
    # From the last sample before the gap to the first one after it, and since the very last.
    assert (lowest, gpu_ms) == (0, 0)
    assert highest == HOUR_MS + 2 * MINUTE_MS
