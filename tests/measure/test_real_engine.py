"""A real engine, llama.cpp behind llama-cpp-python's server: its answers are read rightly, its capacity is found again.

It serves one request at a time, sends chunks without text, and tells no tokens of a stream.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from engine.llama import MODEL, EngineMissing, python, running_llama
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.protocols.completions import Completions
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.model.declaration import Declaration
from gpuyield.model.measure import Measurement, ResponseStatus, Stop
from gpuyield.steps.measure import find
from gpuyield.steps.measure_asked import read_question
from gpuyield.steps.measure_question import Question
from measure.busy import measured_when_quiet
from measure.sending import prompts, send
from required import missing

pytestmark = [pytest.mark.live_measuring, pytest.mark.timeout(600)]

_TOKENS = 16
_FULL = os.environ.get("GPUYIELD_LAWS", "sample") == "full"
"""Two whole searches take five minutes; a sample is a quick one, which only estimates."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        python()
    except EngineMissing as err:
        missing("ENGINE", str(err))
    with running_llama(tmp_path_factory.mktemp("llama")) as running:
        yield running


@pytest.mark.parametrize("spoken", [Chat(), Completions()], ids=["chat", "completions"])
def test_what_a_real_engine_streams_is_read_as_content_in_several_reads_without_tokens(
    url: str, spoken: Spoken
) -> None:
    records = send(url, prompts("one", "two", "three", max_tokens=64), spoken=spoken, spacing_s=0.5).run.records

    assert [ResponseStatus(int(one)) for one in records.status] == [ResponseStatus.OK] * 3
    assert (records.output_tokens == -1).all(), "it tells none, and chunks are no tokens"
    assert ((records.reads > 1) & (records.reads <= 64)).all()
    assert (records.sent_ns < records.first_ns).all()
    assert (records.first_ns < records.last_ns).all()
    assert (records.last_ns <= records.end_ns).all()


@pytest.mark.parametrize("spoken", [Chat(streams=False), Completions(streams=False)], ids=["chat", "completions"])
def test_what_a_real_engine_answers_at_once_has_the_tokens_it_was_asked_for(url: str, spoken: Spoken) -> None:
    records = send(url, prompts("one", "two", "three", max_tokens=_TOKENS), spoken=spoken, spacing_s=0.5).run.records

    assert [ResponseStatus(int(one)) for one in records.status] == [ResponseStatus.OK] * 3
    assert records.output_tokens.tolist() == [_TOKENS] * 3
    assert (records.first_ns == records.end_ns).all()


def test_searches_at_a_real_engine_agree(url: str, tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    rows = [{"prompt": f"Tell me about number {number}", "max_tokens": _TOKENS} for number in range(20)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    question = Question(
        url=url,
        model=MODEL,
        objectives=("ttft p95 500ms",),
        requests=path,
        max_rate="300",
        max_duration="150s",
        level="standard" if _FULL else "quick",
        seed=5,
    )
    asked = read_question(question, Declaration())

    def searched(name: str) -> Measurement:
        return measured_when_quiet(
            lambda attempt: (
                find(
                    asked, folder=tmp_path / f"{name}-{attempt}", say=lambda line: None, tell=lambda line: None
                ).measurement
            ),
            why_invalid=_why_nothing,
        )

    found = [searched(f"search-{number}") for number in range(2 if _FULL else 1)]

    for one, other in product(found, found):
        assert (one.certified_rps, one.refuted_rps) != (None, None) if _FULL else one.estimate_rps
        assert one.certified_rps is None or other.refuted_rps is None or one.certified_rps < other.refuted_rps
        assert not any(probe.failed for probe in one.probes)


def _why_nothing(found: Measurement) -> str:
    """Why nothing was found; empty when something was."""
    match found.stop:
        case Stop.INVALID:
            return found.probes[-1].reason
        case Stop.TIME:
            return "its time was over"
    return ""
