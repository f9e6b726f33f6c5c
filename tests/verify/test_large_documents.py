from __future__ import annotations

import time

from gpuyield.verify import check
from verify.large import large_document
from verify.problems import seal


def test_a_plan_of_thirty_thousand_jobs_is_checked_within_twenty_seconds_of_computing() -> None:
    document, data = seal(*large_document(30_000))

    begun = time.process_time()
    report = check(document, data)
    took_s = time.process_time() - begun

    assert report.refused == ()
    assert took_s < 20
