"""A measurement as a page: rates, curve with bounds, witnesses; what nobody saw is left out, what is old says so."""

from __future__ import annotations

from typing import Any

from gpuyield.report.html import page_html
from gpuyield.report.page import Page, Tone
from gpuyield.report.screens.measure import busy_sentence
from gpuyield.units import parse_instant
from report.measured_sample import EXPIRES, measured, measured_page


def test_the_page_tells_rates_objectives_and_what_the_gpus_looked_like() -> None:
    page = measured_page()

    assert page.headline == "support-chat sustains 12.4 requests a second: certified, 95 % sure."
    assert "GPUs 92 % busy at 9 requests a second, 38 % more requests possible." in page.lead
    assert "Objectives: ttft within 800 ms for 95 %; answered for 99.9 %." in page.lead
    assert (page.tone, page.status_word) == (Tone.GOOD, "A rate is certified")
    assert page.sections[0].kicker == "support-chat, measured 20 Nov 11:00 (3 d ago)"


def test_the_drawings_share_their_axis_and_show_bounds_marks_and_witnesses() -> None:
    kept, answered, good, used, waiting = measured_page().sections[0].charts

    assert [one.id for one in (kept, answered)] == ["measured-kept-0", "measured-kept-1"]
    assert "9 a second: 99.90% kept, bounds 99.00% to 100.00%" in kept.alt
    assert {"certified 12.4", "refuted 15.2"} <= set(words_of(kept.spec))
    assert "GPUs busy at 9 a second: 92 %" in used.alt
    assert "at 15.2 a second 7.2 on the mean, 25.6 at most" in waiting.alt
    axes = {str(domain) for one in (kept, answered, good, used, waiting) for domain in rates_of(one.spec)}
    assert len(axes) == 1


def test_invalid_probes_and_bursts_are_in_the_table_and_not_in_the_curve() -> None:
    page = measured_page()

    (kept, *_) = page.sections[0].charts
    assert kept.alt.count("a second:") == 4
    assert len(page.sections[0].tables[0].rows) == 6


def test_without_witnesses_nothing_is_guessed() -> None:
    page = measured_page(measured(gpus=False, server=False))

    assert [one.id for one in page.sections[0].charts] == ["measured-kept-0", "measured-kept-1", "measured-good"]
    assert busy_sentence(measured(gpus=False)) is None
    assert not any("busy" in line for line in page.lead)
    assert "GPUs busy" not in {one.label for one in page.figures}
    assert [table.title for table in page.sections[0].tables] == ["Probes"]


def test_a_rate_that_is_not_certified_is_none_and_not_the_estimate() -> None:
    page = measured_page(measured(certified=None))

    assert page.status_word == "No rate is certified"
    assert page.figures[0].value == "none"
    assert "certified 12.4" not in str(page.sections[0].charts[0].spec)


def test_an_expired_measurement_says_so_first() -> None:
    before = measured_page(now_ms=parse_instant(EXPIRES) - 1)
    after = measured_page(now_ms=parse_instant(EXPIRES))

    assert before.status_word == "A rate is certified"
    assert (after.status_word, after.tone) == ("This measurement has expired", Tone.OPEN)
    assert after.sections[0].kicker.endswith("(90 d ago, expired)")


def test_the_page_is_one_file_that_draws() -> None:
    text = page_html(measured_page())

    still, _, _ = text.partition("<script")
    assert still.count("<svg ") == 2 * 5
    assert "src=" not in still


def test_a_measurement_without_a_steady_probe_is_a_page_without_drawings() -> None:
    document = measured(certified=None, refuted=None)
    document["probes"] = document["probes"][:1]

    page: Page = measured_page(document)

    assert page.sections[0].charts == ()
    assert page_html(page).startswith("<!doctype html>")


def words_of(spec: Any) -> list[str]:
    """Every word that stands in a drawing."""
    if isinstance(spec, dict):
        own = [spec["word"]] if isinstance(spec.get("word"), str) else []
        return own + [word for one in spec.values() for word in words_of(one)]
    return [word for one in spec for word in words_of(one)] if isinstance(spec, list) else []


def rates_of(spec: Any) -> list[list[float]]:
    """The span of every axis of rates."""
    if isinstance(spec, dict):
        own = [spec["scale"]["domain"]] if spec.get("title") == "requests a second, offered" else []
        return own + [found for one in spec.values() for found in rates_of(one)]
    return [found for one in spec for found in rates_of(one)] if isinstance(spec, list) else []
