"""What annotations may claim: only what `limits` grants their namespace."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.console import Console
from doubles.exposition_text import steady
from doubles.small_cluster import busy_cluster
from gpuyield.demo.api import serving
from gpuyield.units import parse_instant

TIMES = range(parse_instant("2026-11-05T09:00:00Z"), parse_instant("2026-11-05T12:00:00Z"), 60_000)
SPAN = ("--from", "2026-11-05T09:00:00Z", "--to", "2026-11-05T12:00:00Z")


def declare(folder: Path, url: str, limits: str) -> None:
    (folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\nkind: Cluster\nmetadata: {name: small}\n"
        f'sources: {{prometheus: {{url: "{url}"}}}}\n{limits}'
    )


@pytest.mark.parametrize(
    ("limits", "is_granted"),
    [("", True), ("limits: {team-a: {max_gpus: 1}}\n", True), ("limits: {team-a: {max_gpus: 0}}\n", False)],
)
def test_an_annotation_of_a_job_with_more_gpus_than_its_namespace_may_claim_is_no_promise(
    console: Console, limits: str, is_granted: bool
) -> None:
    job = {"namespace": "team-a", "job_name": "train"}
    series = [
        *busy_cluster(TIMES),
        steady("kube_job_created", TIMES[0] // 1000, TIMES, **job),
        steady("kube_job_annotations", 1, TIMES, **job, annotation_gpuyield_dev_deadline="within 8h"),
    ]
    with serving(series) as url:
        declare(console.folder, url, limits)
        assert console.run("collect", *SPAN).code == 0

    decided = console.run("decide", *SPAN, "-o", "json").document
    refused = [gap for gap in decided["gaps"] if gap["where"] == "team-a/train"]

    assert (decided["coverage"] == 1.0) is is_granted
    assert bool(refused) is not is_granted
    if refused:
        assert refused[0]["reason"] == (
            "annotation gpuyield.dev/deadline: the job asks for 1 GPU, and its namespace may claim 0. "
            "It claims nothing; see limits.team-a.max_gpus."
        )
