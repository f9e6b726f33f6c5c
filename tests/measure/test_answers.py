"""Every way in which servers answer, rightly and wrongly, over real sockets against the double's own log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import pytest

from doubles.model_server import RunningDouble, running_double
from gpuyield.demo.engine import EngineSettings
from gpuyield.demo.language_model import FIELDS, LogRow
from gpuyield.measure.graders import Check
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.protocols.completions import Completions
from gpuyield.measure.protocols.embeddings import Embeddings
from gpuyield.measure.protocols.plain import Plain
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.protocols.responses import Responses
from gpuyield.measure.requests import RequestLine
from gpuyield.measure.sender.limits import Limits
from gpuyield.model.measure import Grade, ResponseStatus
from measure.sending import Took, prompts, send

_TOKENS = 8
_GOOD = (
    "none",
    "role_first",
    "reasoning_first",
    "reasoning_only",
    "tool_calls",
    "no_usage",
    "tokens_per_chunk:4",
    "chunks_per_read:3",
    "chunks_per_read:99",
    "split:1",
    "split:3",
    "split:7",
    "split:64",
    "crlf",
    "line_separators",
    "comments",
    "not_chunked",
    "no_done",
    "done_then_late",
    "hangs_after_done",
    "closes_idle",
    "trailers",
)
_MISSED = {
    "error_event": ResponseStatus.ERROR_EVENT,
    "no_finish": ResponseStatus.CUT_OFF,
    "cut": ResponseStatus.CUT_OFF,
    "empty": ResponseStatus.MALFORMED,
    "broken_json": ResponseStatus.MALFORMED,
    "not_utf8": ResponseStatus.MALFORMED,
    "wrong_chunk": ResponseStatus.MALFORMED,
    "too_many": ResponseStatus.REFUSED,
    "unavailable": ResponseStatus.REFUSED,
    "fails": ResponseStatus.HTTP_ERROR,
}
_CASES = (*_GOOD, *_MISSED)


@dataclass(frozen=True, slots=True)
class Answered:
    """What the sender took of each case over one protocol, and the server that knows the truth."""

    took: Took
    server: RunningDouble

    def value(self, column: str, case: str) -> int:
        """A number of a case's record."""
        return int(getattr(self.took.run.records, column)[_CASES.index(case)])

    def at_ns(self, column: str, case: str) -> int:
        """A time of a case's record, on the clock of the double's log."""
        return self.value(column, case) + self.took.started_ns

    def truth(self, case: str) -> LogRow:
        """The double's row of a case."""
        return self.server.row(_tag(case))


def _tag(case: str) -> str:
    return case.replace(":", "-")


@pytest.fixture(scope="module", params=[Chat(), Responses()], ids=["chat", "responses"])
def answered(request: pytest.FixtureRequest) -> Iterator[Answered]:
    with running_double() as server:
        texts = [f"[[fault:{case}]] [[tag:{_tag(case)}]] tell me" for case in _CASES]
        yield Answered(send(server.url, prompts(*texts, max_tokens=_TOKENS), spoken=request.param), server)


@pytest.mark.parametrize("case", _GOOD)
def test_a_whole_answer_counts_however_it_is_written(answered: Answered, case: str) -> None:
    assert answered.took.status(_CASES.index(case)) is ResponseStatus.OK, answered.took.problems


@pytest.mark.parametrize("case", _MISSED)
def test_what_is_not_whole_is_a_miss(answered: Answered, case: str) -> None:
    assert answered.took.status(_CASES.index(case)) is _MISSED[case]


@pytest.mark.parametrize("case", [case for case in _GOOD if case != "no_usage"])
def test_tokens_are_those_the_server_counts(answered: Answered, case: str) -> None:
    assert answered.value("output_tokens", case) == _TOKENS


def test_without_usage_tokens_are_unknown_and_not_the_chunks(answered: Answered) -> None:
    assert answered.value("output_tokens", "no_usage") == -1


@pytest.mark.parametrize("case", _GOOD)
def test_the_first_token_is_the_first_content_and_never_before_the_server_wrote_it(
    answered: Answered, case: str
) -> None:
    truth = answered.truth(case)

    assert truth.first_ns <= answered.at_ns("first_ns", case)
    assert truth.last_ns <= answered.at_ns("last_ns", case) <= answered.at_ns("end_ns", case)


def test_the_first_token_is_not_waited_for_until_the_last() -> None:
    cases = ("none", "reasoning_first", "reasoning_only", "tool_calls", "crlf", "comments")
    with running_double(engine=EngineSettings(slots=8, step_s=0.3)) as server:
        took = send(server.url, prompts(*[f"[[fault:{case}]] [[tag:{case}]]" for case in cases]))
        truths = [server.row(case) for case in cases]

    for row, truth in enumerate(truths):
        first_ns = int(took.run.records.first_ns[row]) + took.started_ns
        assert truth.first_ns <= first_ns < truth.last_ns, "reasoning and tool calls are content"


def test_several_tokens_in_a_chunk_are_several_tokens_in_one_read(answered: Answered) -> None:
    assert answered.value("reads", "tokens_per_chunk:4") <= 2
    assert answered.value("output_tokens", "tokens_per_chunk:4") == _TOKENS


def test_a_whole_answer_in_one_read_has_no_gap(answered: Answered) -> None:
    assert answered.value("reads", "chunks_per_read:99") == 1
    assert answered.value("gap_max_ns", "chunks_per_read:99") == -1


def test_the_longest_gap_lies_within_the_answer(answered: Answered) -> None:
    for case in _GOOD:
        span_ns = answered.value("last_ns", case) - answered.value("first_ns", case)

        assert answered.value("gap_max_ns", case) <= span_ns


def test_refused_ones_have_no_times_of_tokens(answered: Answered) -> None:
    for case in ("too_many", "unavailable", "fails"):
        assert answered.value("first_ns", case) == -1
        assert answered.value("end_ns", case) > 0


def test_what_is_refused_is_a_miss_and_is_not_sent_again() -> None:
    with running_double() as server:
        took = send(server.url, prompts("[[fault:too_many]]", "[[fault:unavailable]]", "well"))
        asked = len(server.double.log)

    assert took.statuses == [ResponseStatus.REFUSED, ResponseStatus.REFUSED, ResponseStatus.OK]
    assert asked == 3, "what Retry-After asks for would hide that the server was too slow"
    assert (took.run.records.end_ns >= 0).all()


_LATE = Limits(connect_s=20, first_s=1.0, between_s=1.5, total_s=30)


def test_each_phase_has_its_time_limit() -> None:
    with running_double() as server:
        took = send(server.url, prompts("[[fault:silent]]", "[[fault:stalls]]", "well"), limits=_LATE)

    assert took.statuses == [ResponseStatus.TIMEOUT, ResponseStatus.TIMEOUT, ResponseStatus.OK]
    silent_s, stalled_s = ((took.run.records.end_ns[row] - took.run.records.sent_ns[row]) / 1e9 for row in (0, 1))
    assert silent_s >= 1.0
    assert stalled_s >= 1.5


def test_the_time_limit_of_the_whole_holds_while_tokens_still_come() -> None:
    limits = Limits(connect_s=20, first_s=30, between_s=30, total_s=0.5)
    with running_double() as server:
        took = send(server.url, prompts("slow", max_tokens=1000), limits=limits)

    assert took.statuses == [ResponseStatus.TIMEOUT]
    assert int(took.run.records.first_ns[0]) > 0, "it had begun"


def test_what_still_runs_at_the_end_of_the_drain_is_in_flight() -> None:
    with running_double() as server:
        took = send(server.url, prompts("slow", "quick", max_tokens=None), drain_s=0.05)
        begun = server.double.log

    assert took.statuses == [ResponseStatus.IN_FLIGHT] * 2
    assert list(took.run.records.end_ns) == [-1, -1]
    assert len(begun) == 2


def test_an_idle_connection_that_the_server_closes_costs_no_request() -> None:
    with running_double() as server:
        took = send(server.url, prompts(*["[[fault:closes_idle]]"] * 30), spacing_s=0.002)

    assert took.statuses == [ResponseStatus.OK] * 30


@pytest.mark.parametrize("spoken", [Chat(streams=False), Responses(streams=False)], ids=["chat", "responses"])
def test_answers_that_are_not_streamed_come_in_one_read_at_their_end(spoken: Spoken) -> None:
    texts = ["plain", "[[fault:error_event]]", "[[fault:no_finish]]", "[[fault:cut]]", "[[fault:broken_json]]"]
    with running_double() as server:
        took = send(server.url, prompts(*texts, "[[fault:empty]]", "[[fault:split:1]]"), spoken=spoken)

    assert took.statuses == [
        ResponseStatus.OK,
        ResponseStatus.ERROR_EVENT,
        ResponseStatus.CUT_OFF,
        ResponseStatus.CUT_OFF,
        ResponseStatus.MALFORMED,
        ResponseStatus.MALFORMED,
        ResponseStatus.OK,
    ]
    records = took.run.records
    assert int(records.first_ns[0]) == int(records.last_ns[0]) == int(records.end_ns[0])
    assert (int(records.reads[0]), int(records.gap_max_ns[0]), int(records.output_tokens[0])) == (1, -1, 4)


def test_completions_and_embeddings_are_read_too() -> None:
    with running_double() as server:
        streamed = send(server.url, prompts("a", "[[fault:cut]]"), spoken=Completions())
        vectors = send(
            server.url,
            [RequestLine(id="1", kind="input", content="a text"), RequestLine(id="2", kind="input", content="b")],
            spoken=Embeddings(),
        )

    assert streamed.statuses == [ResponseStatus.OK, ResponseStatus.CUT_OFF]
    assert vectors.statuses == [ResponseStatus.OK] * 2


def _model_of(content: bytes) -> str | None:
    return "found" if b'"double"' in content else None


def test_a_plain_endpoint_is_asked_with_the_body_as_written_and_read_by_the_users_reader() -> None:
    body = {"prompt": "a", "max_tokens": 2}
    with running_double() as server:
        lines = [RequestLine(id="1", kind="body", content=body)]
        took = send(f"{server.url}/completions", lines, spoken=Plain(reader=_model_of))

    assert took.statuses == [ResponseStatus.OK]


def test_the_text_that_is_graded_is_the_content_alone() -> None:
    seen: dict[str, str] = {}

    def keep(request: RequestLine, answer: str) -> float:
        seen[request.content] = answer
        return 1.0

    cases = ["[[fault:reasoning_first]]", "[[fault:line_separators]]", "[[fault:tool_calls]]", "[[fault:split:3]]"]
    with running_double() as server:
        took = send(server.url, prompts(*cases), checks={"kept": Check(scorer=keep)})

    assert list(took.run.records.grades["kept"]) == [Grade.GOOD] * 4
    assert [seen[case] for case in cases] == [
        "w2 w3 ",
        "".join(f"w{number} \u2028\u2029\x85" for number in range(4)),
        '[{"name":"look","arguments":"w1 w2 w3 "}]',
        "w0 w1 w2 w3 ",
    ]


def test_a_server_that_knows_no_unknown_fields_is_asked_without_them() -> None:
    with running_double(fields=FIELDS) as server:
        took = send(server.url, prompts("a"))

    assert took.statuses == [ResponseStatus.OK], "neither ignore_eos nor anything else of one engine is sent"


def test_a_server_that_rejects_what_the_user_sends_is_a_miss_with_its_status() -> None:
    body = {"prompt": "a", "ignore_eos": True}
    with running_double(fields=FIELDS) as server:
        took = send(server.url, [RequestLine(id="1", kind="body", content=body)], spoken=Completions())

    assert took.statuses == [ResponseStatus.HTTP_ERROR]
    assert list(took.problems) == ["HTTP 422"]


def test_times_never_go_backwards_along_a_request(answered: Answered) -> None:
    columns: Mapping[str, list[int]] = {
        name: getattr(answered.took.run.records, name).tolist()
        for name in ("scheduled_ns", "sent_ns", "first_ns", "last_ns", "end_ns")
    }
    for row in range(len(_CASES)):
        known = [column[row] for column in columns.values() if column[row] >= 0]

        assert all(earlier <= later for earlier, later in pairwise(known))
