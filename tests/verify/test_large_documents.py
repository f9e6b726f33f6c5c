from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from gpuyield.verify import check
from verify.large import large_document
from verify.problems import seal


@pytest.mark.timeout(120)
def test_a_plan_of_thirty_thousand_jobs_is_checked_without_comparing_all_pairs() -> None:
    document, data = seal(*large_document(30_000))

    report = check(document, data)

    assert report.refused == ()


def test_a_relaxation_of_half_the_jobs_takes_no_more_memory_than_the_plan_itself() -> None:
    document, inputs = large_document(600)
    dropped = [job["id"] for job in inputs["jobs"][:300]]
    relaxed = {**document, "relaxations": [{"kind": "drop", "jobs": dropped, "witness": {}, "irreducible": None}]}

    alone, together = (_most_memory(*seal(one, inputs)) for one in (document, relaxed))

    assert together < 1.2 * alone


def _most_memory(document: dict[str, Any], data: bytes) -> int:
    """The most memory held at once while an accepted document is checked, in bytes."""
    tracemalloc.start()
    try:
        report = check(document, data)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.refused == ()
    return most
