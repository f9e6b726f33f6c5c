"""The options of `gpuyield measure`, as they were written, and how they are written again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, fields
from pathlib import Path

from gpuyield.steps.measure_judge import JudgeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The options, as they were written."""

    service: str | None = None
    url: str | None = None
    model: str | None = None
    objectives: tuple[str, ...] = ()
    requests: Path | None = None
    level: str = "standard"
    max_rate: str = "100"
    max_duration: str | None = None
    at_least: str | None = None
    abort_if: tuple[str, ...] = ()
    arrivals: str = "poisson"
    protocol: str = "chat"
    stream: bool = True
    checks: tuple[str, ...] = ()
    reader: str | None = None
    token_file: Path | None = None
    headers_file: Path | None = None
    ca_file: Path | None = None
    gpu_metrics: str | None = None
    replicas: int | None = None
    gpus_per_replica: int | None = None
    judge_url: str | None = None
    judge_model: str | None = None
    judge_token_file: Path | None = None
    judge_prompt: Path | None = None
    judge_at_most: int = 20_000
    key: str | None = field(default=None, repr=False)
    """From the environment only."""
    seed: int = 0
    workers: int = 1
    trace: Path | None = None
    profile: str | None = None

    @property
    def judge(self) -> JudgeOptions:
        """What is asked of a judge model."""
        return JudgeOptions(
            url=self.judge_url,
            model=self.judge_model,
            token_file=self.judge_token_file,
            prompt=self.judge_prompt,
            at_most=self.judge_at_most,
        )


def same_question(question: Question) -> str:
    """The options that were given, for the next command; a key is none of them."""
    words: list[str] = []
    for one in fields(question):
        value = getattr(question, one.name)
        if one.name == "key" or value == one.default:
            continue
        option = f"--{_OPTIONS.get(one.name, one.name.replace('_', '-'))}"
        if isinstance(value, bool):
            words.append(f"--no-{one.name}")
        else:
            for text in value if isinstance(value, tuple) else (value,):
                words += [option, shlex.quote(str(text))]
    return " ".join(words)


_OPTIONS = {"objectives": "objective", "checks": "check"}
