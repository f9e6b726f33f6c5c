"""The observed jobs as a planning problem: had our plan been used, which would have been in time?"""

from __future__ import annotations

from collections.abc import Collection

from gpuyield.steps.evidence import Evidence


def jobs_on_time(evidence: Evidence) -> Collection[str] | None:
    """Jobs that our plan runs in time on the GPUs that batch work had; None where there is no such plan."""
    return None
