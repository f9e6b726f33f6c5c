"""Idle GPUs that are held: what counts, who holds them, and since when."""

from __future__ import annotations

from pathlib import Path

from doubles.observations import DAY, Observations, at, span
from gpuyield.account import account, summarise
from gpuyield.model.waterfall import BUSY, Account, GpuClass
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window


def _account(seen: Observations, folder: Path, window: Window) -> Account:
    return summarise(account(seen.ledger(folder / "ledger"), window=window))


def _one_card(steps: list[tuple[int, int, float]], window: Window) -> Observations:
    seen = Observations()
    seen.node("node-a", window, cards=1)
    seen.pod("notebook", window)
    seen.activity("GPU-1", steps, pod="notebook")
    return seen


def test_half_an_hour_below_the_threshold_is_idle_from_its_first_sample(tmp_path: Path) -> None:
    window = span("10:00", "12:00")
    seen = _one_card([(at("10:00"), at("11:00"), 0.8), (at("11:00"), at("12:00"), 0.04)], window)

    found = _account(seen, tmp_path, window)

    assert found.waterfall.gpu_ms(GpuClass.IDLE_HELD) == HOUR_MS
    assert found.waterfall.gpu_ms(*BUSY) == 48 * MINUTE_MS


def test_less_than_half_an_hour_is_underused_and_not_idle(tmp_path: Path) -> None:
    window = span("10:00", "12:00")
    steps = [(at("10:00"), at("10:30"), 0.8), (at("10:30"), at("10:59"), 0.0), (at("10:59"), at("12:00"), 0.8)]

    found = _account(_one_card(steps, window), tmp_path, window)

    assert found.waterfall.gpu_ms(GpuClass.IDLE_HELD) == 0
    assert found.waterfall.gpu_ms(GpuClass.UNDERUSED) == (29 + 91 * 0.2) * MINUTE_MS


def test_a_gap_breaks_an_idle_span_but_its_bound_tells_that_it_may_be_one(tmp_path: Path) -> None:
    window = span("10:00", "11:00")
    steps = [(at("10:00"), at("10:20"), 0.0), (at("10:30"), at("10:50"), 0.0), (at("10:50"), at("11:00"), 0.9)]

    idle = _account(_one_card(steps, window), tmp_path, window).waterfall.leaf(GpuClass.IDLE_HELD)

    assert (idle.gpu_ms, idle.hi) == (0, 50 * MINUTE_MS)


def test_a_training_run_at_45_percent_has_nothing_to_reclaim(tmp_path: Path) -> None:
    window = Window(DAY, DAY + 100 * HOUR_MS)
    seen = Observations()
    seen.node("node-a", window, cards=8)
    seen.pod("train", window, devices=8)
    for number in range(8):
        seen.activity(f"GPU-{number}", [(window.from_ms, window.to_ms, 0.45)], pod="train")

    found = _account(seen, tmp_path, window)

    assert found.waterfall.gpu_ms(*BUSY) == 360 * HOUR_MS
    assert found.waterfall.gpu_ms(GpuClass.UNDERUSED) == 440 * HOUR_MS
    assert found.waterfall.gpu_ms(GpuClass.IDLE_HELD) == 0
    assert found.holders == ()


def test_a_holder_is_named_with_its_gpus_since_when_and_its_longest_span(tmp_path: Path) -> None:
    began = at("13:00", day=-4)
    seen = Observations(every_ms=5 * MINUTE_MS)
    life = Window(at("12:00", day=-4), DAY + DAY_MS)
    seen.node("node-a", life, cards=2)
    seen.pod("notebook", life, devices=2)
    for card in ("GPU-1", "GPU-2"):
        seen.activity(card, [(life.from_ms, began, 0.7), (began, life.to_ms, 0.0)], pod="notebook")

    (holder,) = _account(seen, tmp_path, Window(DAY, DAY + DAY_MS)).holders

    assert (holder.workload, holder.gpus, holder.gpus_now, holder.since_ms) == ("notebook", 2, 2, began)
    assert holder.idle_gpu_ms == 2 * DAY_MS
    assert holder.longest == Window(began, DAY + DAY_MS)
    assert not holder.open_start


def test_idle_since_before_anything_was_read_says_so(tmp_path: Path) -> None:
    window = Window(DAY, DAY + DAY_MS)

    (holder,) = _account(_one_card([(window.from_ms, window.to_ms, 0.0)], window), tmp_path, window).holders

    assert holder.open_start
    assert holder.since_ms == DAY


def test_since_when_a_gpu_is_idle_does_not_depend_on_the_window_where_scrapes_miss_midnight(tmp_path: Path) -> None:
    began = at("13:00", day=-4) + 20_000
    life = Window(at("12:00", day=-4), DAY + DAY_MS)
    seen = Observations(every_ms=5 * MINUTE_MS)
    seen.node("node-a", life, cards=1, labels={"gpu.product": "NVIDIA-H100-80GB-HBM3"})
    seen.pod("notebook", life)
    seen.activity("GPU-1", [(life.from_ms + 20_000, began, 0.7), (began, life.to_ms, 0.0)], pod="notebook")
    ledger = seen.ledger(tmp_path / "ledger")

    holders = [
        summarise(account(ledger, window=Window(life.to_ms - days * DAY_MS, life.to_ms))).holders for days in (1, 2, 4)
    ]

    told = {(one.since_ms, one.open_start, one.flavor) for (one,) in holders}
    assert told == {(began, False, "h100")}
