"""Measured capacity as evidence in the ledger: what comes back is what was written, once, with its age."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from gpuyield.ledger import Ledger
from gpuyield.model.service_capacity import ServiceCapacity
from gpuyield.steps.capacity import capacity_of, newest, read_capacity, record_capacity
from gpuyield.units import DAY_MS, parse_instant
from report.measured_sample import EXPIRES, STARTED, measured

_INPUTS = {"objectives": [{"name": "ttft", "at_most_us": 800_000, "share": "0.95"}]}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "ledger")


def evidence(
    *, service: str = "support-chat", replicas: int | None = 2, digest: str = "a", started: str = STARTED
) -> ServiceCapacity:
    """Of a measurement with four steady probes."""
    document = measured(service=service)
    document["result"]["replicas"] = replicas
    document["inputs_digest"] = f"sha256:{digest}"
    document["started_at"] = started
    return capacity_of(document, _INPUTS)


def test_what_was_recorded_comes_back_with_its_curve(ledger: Ledger) -> None:
    written = evidence()

    record_capacity(ledger, written)
    (found,) = read_capacity(ledger)

    assert found == written
    assert found.certified_rps == Decimal("12.4")
    assert found.certified_rps_per_replica == Decimal("6.2")
    assert [one.rate_rps for one in found.curve] == [Decimal(text) for text in ("9.0", "13.1", "12.4", "15.2")]
    assert found.curve[0].kept[0] == ("ttft", Decimal("0.999"), Decimal("0.99"), Decimal("1.0"))


def test_the_same_measurement_recorded_again_is_there_once(ledger: Ledger) -> None:
    for _ in range(2):
        record_capacity(ledger, evidence())

    assert len(read_capacity(ledger)) == 1


def test_the_newest_of_each_service_counts(ledger: Ledger) -> None:
    later = evidence(digest="b", started="2026-11-25T00:00:00Z")
    for one in (later, evidence(), evidence(service="search", digest="c")):
        record_capacity(ledger, one)

    assert newest(read_capacity(ledger)) == {"support-chat": later, "search": evidence(service="search", digest="c")}


def test_it_ends_at_the_instant_it_names() -> None:
    found = evidence()

    assert not found.is_expired(parse_instant(EXPIRES) - 1)
    assert found.is_expired(parse_instant(EXPIRES))
    assert found.is_expired(parse_instant(EXPIRES) + DAY_MS)


def test_without_a_number_of_replicas_no_rate_of_one_follows() -> None:
    assert evidence(replicas=None).certified_rps_per_replica is None


def test_what_is_not_certified_stays_unknown(ledger: Ledger) -> None:
    document = measured(certified=None, refuted=None)

    record_capacity(ledger, capacity_of(document, _INPUTS))
    (found,) = read_capacity(ledger)

    assert (found.certified_rps, found.refuted_rps, found.certified_rps_per_replica) == (None, None, None)
    assert found.estimate_rps == Decimal("13.1")
