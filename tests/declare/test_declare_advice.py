"""What a declaration without mistakes still leaves open."""

from __future__ import annotations

from declare.whole import WHOLE
from gpuyield.declare.advice import advise
from gpuyield.declare.yaml_file import parse_declaration
from gpuyield.units import parse_instant

NOW_MS = parse_instant("2026-11-30T21:00:00Z")


def _notes(text: str, now_ms: int = NOW_MS) -> list[str]:
    return [str(one) for one in advise(parse_declaration(text.encode(), file="f.yaml"), now_ms=now_ms)]


def test_the_smallest_file_lacks_prices() -> None:
    notes = _notes("sources: {prometheus: {url: http://127.0.0.1:9090}}\n")

    assert notes == ["prices: no prices: cost is shown in GPU-hours only. Add prices, or sources.opencost."]


def test_a_whole_file_is_told_what_it_leaves_open() -> None:
    notes = _notes(WHOLE)

    assert notes == [
        "purchase: nobody says how more a100 could be had. Add it, or never be advised to buy it.",
        "services: batch-api: no objectives: its headroom is not known. Add objectives: [{metric: ttft, ...}].",
        "batch: release-candidate: no gpus or run time: it is planned by its history only. Add gpus and flavors.",
    ]


def test_what_is_past_is_said() -> None:
    later_ms = parse_instant("2027-01-01T00:00:00Z")
    text = WHOLE.replace("due: within 8h", "due: 2026-12-01T00:00:00Z").replace("to: null", "to: 2026-12-01")

    notes = _notes(text, later_ms)

    assert "prices: the last price of h100 has ended. Add the price that holds now." in notes
    assert "batch: nightly-eval: its due 2026-12-01T00:00:00Z is past. Move it." in notes
    assert "batch: release-candidate: its deadline rc-2.3 (2026-12-18T12:00:00Z) is past. Move the milestone." in notes
