"""A judge model that grades answers: asked after a probe, so that it never disturbs the load, and only so often.

The same answer to the same request is judged once. Whoever does not get a verdict is ungraded; a judge that gives none
most of the time ends the search, since its silence says nothing of the service.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.collect.endpoint import Endpoint, endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.measure.model_judge import PROMPT, Verdict, checked_template, question_body, verdict_of
from gpuyield.measure.requests import RequestLine
from gpuyield.model.declaration import Objective
from gpuyield.report.screens.measure import Judging
from gpuyield.steps.measure_collected import Collected

JUDGE = "judge"
"""The check that a judge model grades."""

AT_ONCE = 8
_LARGEST_PROMPT = 1 << 20
_PATIENCE = Patience(connect_s=5, read_s=60, total_s=120, attempts=3, longest_pause_s=5)
_FEWEST = 20
_LOOK_S = 0.2
_Answered = tuple[RequestLine, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """The options, as they were written; all of them may be missing."""

    url: str | None
    model: str | None
    token_file: Path | None
    prompt: Path | None
    at_most: int


def asked_judge(options: JudgeOptions, objectives: Sequence[Objective]) -> ModelJudge | None:
    """The judge that the options name; None where they name none.

    Raises:
        DeclarationError: It is named in part, it cannot be asked, or no objective needs it.
    """
    if options.url is None:
        if options.model is not None or options.token_file is not None or options.prompt is not None:
            raise DeclarationError(
                "a judge without an address.", where="--judge-url", fix="Write --judge-url http://HOST:PORT/v1."
            )
        return None
    found, url, prompt = Collected(), options.url, options.prompt
    if not options.model:
        found.wrong("the judge's model is not named.", "--judge-model", "Write its name.")
    if not any(one.check == JUDGE for one in objectives):
        fix = "Write --objective 'judge 0.7 for 90%', or leave the judge out."
        found.wrong("no objective is judged.", "--judge-url", fix)
    if not 1 <= options.at_most <= 10**9:
        found.wrong("no number of questions.", "--judge-at-most", "Write 20000.")
    template = PROMPT if prompt is None else found.value(lambda: _template(prompt))
    where = found.value(
        lambda: endpoint(
            product="the judge",
            url=url,
            declared_at="--judge-url",
            token_file=options.token_file,
            hint="Is it up, and does the URL end in /v1?",
        )
    )
    if found.mistakes or where is None or template is None or options.model is None:
        raise DeclarationError.of(found.mistakes)
    return ModelJudge(JudgeAsked(where=where, model=options.model, template=template, at_most=options.at_most))


def _template(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST_PROMPT:
            raise DeclarationError("more than 1 MiB of prompt.", where=str(path), fix="Write a shorter one.")
        return checked_template(path.read_text(encoding="utf-8"), file=str(path))
    except (OSError, UnicodeDecodeError) as err:
        raise DeclarationError(f"cannot be read: {err}.", where=str(path), fix="Name a text file.") from err


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeAsked:
    """Who judges: `at_most` is how often it is asked in one run of the command. `template` is its prompt."""

    where: Endpoint
    model: str
    template: str
    at_most: int

    @property
    def prompt_sha256(self) -> str:
        """What the template is."""
        return hashlib.sha256(self.template.encode()).hexdigest()

    @property
    def name(self) -> str:
        """All that a score depends on."""
        return f"{self.model} at {self.where.base_url}, prompt {self.prompt_sha256}"


@dataclass(slots=True)
class Asking:
    """What was asked so far. `without_verdict` are those that were asked in vain."""

    requests: int = 0
    without_verdict: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    problem: str = ""


@dataclass(slots=True)
class _Batch:
    """The questions of one probe."""

    waiting: queue.SimpleQueue[_Answered]
    total: int
    done: int = 0
    over: bool = False
    threads: list[threading.Thread] = field(default_factory=list)


class ModelJudge:
    """Implements `Judge` with a model; `tell` hears how far it is."""

    def __init__(self, asked: JudgeAsked, tell: Callable[[str], None] = lambda said: None) -> None:
        self.asked = asked
        self.tell = tell
        self.asking = Asking()
        self._client = HttpClient(asked.where, patience=_PATIENCE)
        self._known: dict[tuple[str, str], float | None] = {}
        self._lock = threading.Lock()

    def score(self, *, request: RequestLine, answer: str) -> float | None:
        """The score that `ahead` asked for; None when there is none."""
        return self._known.get((request.id, answer))

    def announced(self, answers: float) -> Judging:
        """What would be asked, where so many answers are judged."""
        return Judging(
            url=self.asked.where.base_url,
            model=self.asked.model,
            expected_at_most=min(self.asked.at_most, max(1, round(answers))),
            at_most=self.asked.at_most,
        )

    def tried(self, request: RequestLine, *, expected: Judging | None) -> str:
        """Ask once, before any load, and say what it took.

        Raises:
            SourceError: It gives no verdict.
        """
        began_s = time.monotonic()
        self._one(request, "")
        if self.asking.without_verdict:
            raise SourceError(
                f"the judge gave no verdict: {self.asking.problem}.",
                where=self.asked.where.base_url,
                fix="Is --judge-model right, is --judge-token-file needed, and does --judge-url end in /v1?",
            )
        took_s = time.monotonic() - began_s
        used = self.asking.input_tokens + self.asking.output_tokens
        tokens = f" and {used:,} tokens" if used else ""
        most = "" if expected is None else f": up to {expected.expected_at_most:,} of them for the whole search"
        return f"A first judgement took {took_s:.2f} s{tokens}{most}."

    def ahead(self, answers: Sequence[_Answered]) -> None:
        """Get the scores of all these answers, some at a time; returns when they are there.

        Raises:
            SourceError: It was asked as often as it may be, or most often gives no verdict.
        """
        new = {(line.id, text): (line, text) for line, text in answers if self._known.get((line.id, text)) is None}
        batch = _Batch(waiting=queue.SimpleQueue(), total=len(new))
        for one in new.values():
            batch.waiting.put(one)
        before, failed_before = self.asking.requests, self.asking.without_verdict
        # Threads that die with the process: whoever stops everything waits for nobody.
        batch.threads = [
            threading.Thread(target=self._work, args=(batch,), daemon=True) for _ in range(min(AT_ONCE, len(new)))
        ]
        try:
            for thread in batch.threads:
                thread.start()
            for thread in batch.threads:
                while thread.is_alive():
                    thread.join(_LOOK_S)
                    self.tell(f"judging: {batch.done} of {batch.total} answers")
        finally:
            batch.over = True
        if batch.done < batch.total:
            raise SourceError(
                f"the judge was asked {self.asking.requests} times, as often as it may be.",
                where="--judge-at-most",
                fix="Raise it; the same command goes on after the last probe.",
            )
        asked, failed = self.asking.requests - before, self.asking.without_verdict - failed_before
        if asked >= _FEWEST and failed > asked / 2:
            raise SourceError(
                f"the judge gave no verdict for {failed} of {asked} answers: {self.asking.problem}.",
                where=self.asked.where.base_url,
                fix="Its silence says nothing of the service, so the search was stopped; the same command goes on.",
            )

    def told(self) -> str:
        """What judging took, in a sentence."""
        asking = self.asking
        tokens = asking.input_tokens + asking.output_tokens
        used = f", {tokens:,} tokens" if tokens else ""
        vain = f"; {asking.without_verdict:,} gave no verdict and count as missed" if asking.without_verdict else ""
        return f"{self.asked.model} judged {asking.requests:,} answers{used}{vain}."

    def document(self) -> dict[str, Any]:
        """Who judged, and what that took."""
        return {
            "url": self.asked.where.base_url,
            "model": self.asked.model,
            "prompt_sha256": self.asked.prompt_sha256,
            "requests": self.asking.requests,
            "without_verdict": self.asking.without_verdict,
            "input_tokens": self.asking.input_tokens,
            "output_tokens": self.asking.output_tokens,
        }

    def _work(self, batch: _Batch) -> None:
        while not batch.over:
            try:
                line, text = batch.waiting.get_nowait()
            except queue.Empty:
                return
            if not self._may_ask():
                return
            self._one(line, text, counted=True)
            with self._lock:
                batch.done += 1

    def _may_ask(self) -> bool:
        with self._lock:
            if self.asking.requests >= self.asked.at_most:
                return False
            self.asking.requests += 1
            return True

    def _one(self, line: RequestLine, text: str, *, counted: bool = False) -> None:
        verdict, problem = self._ask(line, text)
        with self._lock:
            self.asking.requests += not counted
            self.asking.input_tokens += verdict.input_tokens
            self.asking.output_tokens += verdict.output_tokens
            self._known[line.id, text] = verdict.score
            if verdict.score is None:
                self.asking.without_verdict += 1
                self.asking.problem = problem

    def _ask(self, line: RequestLine, text: str) -> tuple[Verdict, str]:
        body = question_body(self.asked.template, line, text, model=self.asked.model)
        try:
            answer = self._client.post_json("/chat/completions", body)
        except SourceError as err:
            return Verdict(score=None), err.mistakes[0].what.rstrip(".")
        if answer.status != 200:
            return Verdict(score=None), f"HTTP {answer.status}"
        return verdict_of(answer.body), "its reply is not the line SCORE: N"
