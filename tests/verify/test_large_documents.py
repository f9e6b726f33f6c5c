from __future__ import annotations

import pytest

from gpuyield.verify import check
from verify.large import large_document
from verify.problems import seal


@pytest.mark.timeout(120)
def test_a_plan_of_thirty_thousand_jobs_is_checked_without_comparing_all_pairs() -> None:
    document, data = seal(*large_document(30_000))

    report = check(document, data)

    assert report.refused == ()
