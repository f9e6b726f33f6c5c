"""What a Job promises by annotations, and whose a workload is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from decimal import Decimal

import pytest

from gpuyield.declare.annotations import JobPromise, JobSettings, read_promise
from gpuyield.declare.selectors import declared_for
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import BatchFamily, NamespaceLimit, Selector
from gpuyield.units import parse_instant

CREATED_MS = parse_instant("2026-11-30T21:00:00Z")
HOUR_MS = 3_600_000
SETTINGS = JobSettings(
    created_ms=CREATED_MS, zone=UTC, milestones={"rc": 5}, limit=NamespaceLimit(max_weight=Decimal(5))
)


def test_one_annotation_is_enough() -> None:
    promise = read_promise({"gpuyield.dev/deadline": "within 8h"}, {}, SETTINGS, job="evals/a")

    assert promise == JobPromise(deadline_ms=CREATED_MS + 8 * HOUR_MS)


def test_all_annotations_are_read_and_win_over_labels() -> None:
    annotations = {
        "gpuyield.dev/deadline": "06:00 Europe/Berlin",
        "gpuyield.dev/due": "milestone:rc",
        "gpuyield.dev/earliest-start": "within 1h",
        "gpuyield.dev/expected-duration": "2h",
        "gpuyield.dev/weight": "3",
        "gpuyield.dev/after": "a, b",
        "gpuyield.dev/preemptible": "3m",
        "other.example/weight": "9",
    }

    promise = read_promise(
        annotations, {"gpuyield.dev/weight": "1", "gpuyield.dev/outcome": "exact"}, SETTINGS, job="e/c"
    )

    assert promise == JobPromise(
        deadline_ms=CREATED_MS + 8 * HOUR_MS,
        due_ms=5,
        earliest_start_ms=CREATED_MS + HOUR_MS,
        expected_duration_ms=2 * HOUR_MS,
        weight=Decimal(3),
        after=("a", "b"),
        restart_ms=180_000,
        outcome="exact",
    )


def test_wrong_annotations_are_said_all_at_once() -> None:
    annotations = {
        "gpuyield.dev/deadlin": "within 8h",
        "gpuyield.dev/due": "06:00",
        "gpuyield.dev/weight": "7",
        "gpuyield.dev/expected-duration": "2",
    }

    with pytest.raises(DeclarationError) as caught:
        read_promise(annotations, {}, SETTINGS, job="evals/a")

    assert [str(one) for one in caught.value.mistakes] == [
        'evals/a: gpuyield.dev/deadlin: no such annotation. Did you mean "deadline"?',
        'evals/a: gpuyield.dev/due: due "06:00" has no time zone. Write 06:00 UTC.',
        'evals/a: gpuyield.dev/expected-duration: duration "2" has no unit. Write 2ms, 2s, 2m or 2h.',
        (
            "evals/a: gpuyield.dev/weight: weight 7 is above 5, which is the namespace's limit. "
            "Write 5 or less, or raise limits.NAMESPACE.max_weight."
        ),
    ]


def test_a_namespace_without_limits_may_claim_weight_one() -> None:
    unlimited = JobSettings(created_ms=CREATED_MS, zone=UTC, milestones={})

    with pytest.raises(DeclarationError, match="weight 2 is above 1"):
        read_promise({"gpuyield.dev/weight": "2"}, {}, unlimited, job="evals/a")


def test_weight_zero_is_zero() -> None:
    assert read_promise({"gpuyield.dev/weight": "0"}, {}, SETTINGS, job="evals/a").weight == 0


@pytest.mark.parametrize(
    ("namespace", "labels", "queue", "name"),
    [
        ("evals", {"job": "nightly", "x": "y"}, "batch", "nightly"),
        ("evals", {"job": "nightly"}, None, "any"),
        ("evals", {}, "batch", "any"),
        ("other", {"job": "nightly"}, "batch", None),
    ],
)
def test_a_workload_belongs_to_the_first_family_that_takes_it_in(
    namespace: str, labels: dict[str, str], queue: str | None, name: str | None
) -> None:
    families = [
        BatchFamily(name="empty", selector=Selector()),
        BatchFamily(name="nightly", selector=Selector(namespace="evals", labels={"job": "nightly"}, queue="batch")),
        BatchFamily(name="any", selector=Selector(namespace="evals")),
    ]

    found = declared_for(families, namespace=namespace, labels=labels, queue=queue)

    assert (found.name if found else None) == name


def test_a_job_with_more_gpus_than_its_namespace_may_claim_promises_nothing() -> None:
    limited = JobSettings(created_ms=CREATED_MS, zone=UTC, milestones={}, limit=NamespaceLimit(max_gpus=8), gpus=16)
    annotations = {"gpuyield.dev/deadline": "within 8h"}

    with pytest.raises(DeclarationError, match=r"asks for 16 GPUs, and its namespace may claim 8"):
        read_promise(annotations, {}, limited, job="evals/a")

    assert read_promise({}, {}, limited, job="evals/a") == JobPromise()
    assert read_promise(annotations, {}, replace(limited, gpus=8), job="evals/a").deadline_ms is not None


def test_after_reaches_only_jobs_of_its_own_namespace() -> None:
    with pytest.raises(DeclarationError) as refused:
        read_promise({"gpuyield.dev/after": "prepare, other/train"}, {}, SETTINGS, job="evals/a")

    (mistake,) = refused.value.mistakes
    assert mistake.where == "evals/a: gpuyield.dev/after"
    assert '"other/train" is no name of a job in this namespace' in mistake.what


def test_marks_of_our_own_are_no_mistakes() -> None:
    ours = {"parked": "2026-12-01T00:00:00Z", "queue": "main", "managed": "true"}
    marks = {f"gpuyield.dev/{name}": value for name, value in ours.items()}

    assert read_promise(marks, {}, SETTINGS, job="evals/a") == JobPromise()
