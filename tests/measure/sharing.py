"""Shards as processes: a question with short probes, and what a pod of the Job would run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from doubles.model_server import RunningDouble
from gpuyield.steps.measure_question import Question

LEADS_S = (15, 60, 200)
"""How long processes get to be ready; the longer ones for a machine that has other things to do."""


def question(server: RunningDouble, folder: Path) -> Question:
    """A question whose requests tell who they are."""
    path = folder / "requests.jsonl"
    rows = [{"id": f"r{number}", "prompt": f"[[tag:r{number}]]", "max_tokens": 2} for number in range(500)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Question(
        url=server.url,
        model="double",
        objectives=("ttft p95 20s",),
        requests=path,
        max_rate="150",
        level="quick",
    )


def options(asked: Question) -> list[str]:
    """The same question as options."""
    named = {"--url": asked.url, "--model": asked.model, "--objective": asked.objectives[0]}
    named |= {"--max-rate": asked.max_rate, "--level": asked.level}
    named |= {"--requests": str(asked.requests)} if asked.requests is not None else {}
    return [str(word) for pair in named.items() for word in pair]


def of_kind(objects: Sequence[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The one object of a kind."""
    (found,) = [one for one in objects if one["kind"] == kind]
    return found


POD = ("measure", "--shard", "round.json", "--records", "records", "--apply")
SHARD = (*POD[:-1], "--requests", "requests.jsonl", POD[-1])


def process(folder: Path, index: int, arguments: Sequence[str] = SHARD) -> subprocess.Popen[str]:
    """A shard of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "gpuyield", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"JOB_COMPLETION_INDEX": str(index)},
    )


def ended(one: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and everything it said."""
    out, err = one.communicate(timeout=300)
    return one.returncode, out + err
