"""What a `gpuyield.yaml` without mistakes means."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from declare.whole import WHOLE
from gpuyield.declare.yaml_file import load_declaration, parse_declaration
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import (
    At,
    Declaration,
    Metric,
    Milestone,
    NextClock,
    PriceBasis,
    PurchaseKind,
    SharingRule,
    VerdictPolicy,
    Within,
)
from gpuyield.units import Money

SMALLEST = b"sources: {prometheus: {url: http://127.0.0.1:9090}}\n"


@pytest.fixture
def whole() -> Declaration:
    return parse_declaration(WHOLE.encode(), file="gpuyield.yaml")


def _berlin_ms(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()) * 1000


def test_only_the_address_of_prometheus_is_required() -> None:
    declared = parse_declaration(SMALLEST, file="gpuyield.yaml")

    assert declared.sources.prometheus is not None
    assert declared.sources.prometheus.url == "http://127.0.0.1:9090"
    assert declared.rules.gap_limit_ms == 300_000
    assert declared.rules.activity_threshold == Decimal("0.05")
    assert declared.rules.idle_after_ms == 1_800_000
    assert declared.currency is None
    assert [*declared.services, *declared.batch, *declared.prices] == []


def test_a_key_without_a_value_is_as_good_as_absent() -> None:
    text = b"currency:\nrules:\nservices:\nbatch: ~\n" + SMALLEST

    declared = parse_declaration(text, file="gpuyield.yaml")

    assert declared.currency is None
    assert declared.services == ()


def test_a_pure_date_is_midnight_in_the_reporting_zone(whole: Declaration) -> None:
    assert whole.prices[0].from_ms == _berlin_ms(2026, 6, 1)
    assert whole.milestones["freeze"] == _berlin_ms(2026, 12, 24)
    assert whole.milestones["rc-2.3"] == int(datetime(2026, 12, 18, 12, tzinfo=UTC).timestamp()) * 1000


def test_money_is_exact_and_has_its_currency(whole: Declaration) -> None:
    assert [price.gpu_hour for price in whole.prices] == [
        Money(Decimal("2.49"), "EUR"),
        Money(Decimal("2.99"), "EUR"),
        Money(Decimal("1.10"), "USD"),
    ]
    assert [price.basis for price in whole.prices] == [PriceBasis.CONTRACTED, PriceBasis.LIST, PriceBasis.LIST]
    assert whole.purchase[0].price == Money(Decimal("1.60"), "EUR")
    assert whole.purchase[0].kind is PurchaseKind.RESERVED_1Y
    assert whole.purchase[0].lead_time_ms == 6 * 7 * 86_400_000
    assert (whole.rates[0].base, whole.rates[0].quote, whole.rates[0].rate) == ("USD", "EUR", Decimal("0.86"))


def test_sources_name_files_with_secrets_and_never_secrets(whole: Declaration) -> None:
    opencost = whole.sources.opencost

    assert opencost is not None
    assert opencost.service == "opencost/opencost:9003"
    assert opencost.token_file == "/run/token"
    assert opencost.ca_file == "ca.crt"
    assert whole.sources.kubernetes is not None
    assert whole.sources.kubernetes.context == "prod-eu"


def test_a_team_is_its_label_else_as_declared_else_the_namespace(whole: Declaration) -> None:
    assert whole.teams.team_of("evals", "vision") == "vision"
    assert whole.teams.team_of("norway") == "NO"
    assert whole.teams.team_of("search") == "search"


def test_objectives_keep_their_limits_exact(whole: Declaration) -> None:
    objectives = {one.name: one for one in whole.services[0].objectives}

    assert objectives["ttft"].at_most_us == 800_000
    assert objectives["ttft"].window_ms == 28 * 86_400_000
    assert objectives["tpot"].at_most_us == 12_500
    assert objectives["resolved"].score_at_least == Decimal("0.7")
    assert objectives["resolved"].at_most_us is None
    assert objectives["answered"].metric is Metric.ERROR
    assert objectives["answered"].share == Decimal("0.999")


def test_op_value_and_target_of_openslo_mean_the_same(whole: Declaration) -> None:
    objectives = {one.name: one for one in whole.services[0].objectives}

    assert objectives["first"].at_most_us == 1_999_999  # lt 2s: less than two seconds
    assert objectives["first"].share == Decimal("0.9")
    assert objectives["toxic"].score_at_most == Decimal("0.1")


def test_hours_are_always_or_the_parts_of_a_week(whole: Declaration) -> None:
    always, weekly = (one.hours for one in whole.services)

    assert always is None
    assert weekly is not None
    assert [(one.weekday, one.from_minute, one.to_minute, one.zone) for one in weekly] == [
        *((day, 480, 1200, "Europe/Berlin") for day in range(5)),
        (5, 1320, 1440, "UTC"),
        (6, 0, 120, "UTC"),
    ]


def test_outcome_policies_are_read(whole: Declaration) -> None:
    requests, items = whole.services[0].outcome, whole.batch[0].outcome

    assert requests is not None
    assert items is not None
    assert (requests.policy, requests.k, requests.n) == (VerdictPolicy.K_OF_N, 2, 3)
    assert (items.policy, items.min_units, items.require) == (VerdictPolicy.ALL, Decimal("0.99"), ("schema_valid",))


def test_batch_families_keep_deadlines_as_rules(whole: Declaration) -> None:
    nightly, candidate = whole.batch

    assert nightly.durations_ms == {"h100": 7_200_000, "a100": 12_600_000}
    assert nightly.deadline == NextClock(clock=time(6), zone="Europe/Berlin")
    assert nightly.due == Within(length_ms=8 * 3_600_000)
    assert (nightly.weight, nightly.restart_ms, nightly.gpus) == (Decimal(3), 180_000, 2)
    assert candidate.deadline == Milestone(name="rc-2.3")
    assert (candidate.duration_ms, candidate.restart_ms) == (43_200_000, None)


def test_a_pure_date_as_deadline_is_an_instant() -> None:
    text = SMALLEST + b"batch: [{name: a, selector: {queue: q}, deadline: 2026-12-01}]\n"

    declared = parse_declaration(text, file="gpuyield.yaml")

    assert declared.batch[0].deadline == At(at_ms=int(datetime(2026, 12, 1, tzinfo=UTC).timestamp()) * 1000)


def test_the_rest_of_the_file_is_read(whole: Declaration) -> None:
    assert (whole.inventory[0].flavor, whole.inventory[0].gpus, whole.inventory[0].nodes) == ("h100", 64, 8)
    assert whole.sharing.idle is SharingRule.BY_ALLOCATED
    assert whole.demand[0].growth_per_week == Decimal("0.015")
    assert (whole.limits["evals"].max_weight, whole.limits["evals"].max_gpus) == (Decimal(5), 32)
    assert whole.services[0].spare_replicas == 1
    assert whole.services[0].selector.labels == {"app": "chat", "version": "2"}
    assert [one.path for one in whole.bill] == ["bill/*.csv"]
    assert (whole.name, whole.reporting_zone) == ("prod-eu", "Europe/Berlin")


def test_a_declaration_knows_the_digest_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "gpuyield.yaml"
    path.write_bytes(SMALLEST)

    declared = load_declaration(path)

    assert declared.path == str(path)
    assert declared.sha256 == hashlib.sha256(SMALLEST).hexdigest()


def test_anchors_and_merge_keys_are_fine() -> None:
    text = SMALLEST + (
        b"services:\n"
        b"  - &chat {name: a, selector: {namespace: x}, team: t, objectives: [{metric: error, share: 0.9}]}\n"
        b"  - {<<: *chat, name: b}\n"
    )

    declared = parse_declaration(text, file="gpuyield.yaml")

    assert [(one.name, one.team) for one in declared.services] == [("a", "t"), ("b", "t")]


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    plain = parse_declaration(WHOLE.encode(), file="gpuyield.yaml")

    windows = parse_declaration(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode(), file="gpuyield.yaml")

    assert windows.services == plain.services
    assert windows.batch == plain.batch


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="no such file") as caught:
        load_declaration(tmp_path / "gpuyield.yaml")

    assert caught.value.mistakes[0].where == str(tmp_path / "gpuyield.yaml")
    assert "gpuyield init" in caught.value.mistakes[0].fix
