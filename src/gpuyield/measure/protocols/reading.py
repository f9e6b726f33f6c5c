"""What a response says once it has been read: how it ended, when content came, and how many tokens there were."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyield.measure.protocols.framing import Body, BrokenFraming, Ended, Response, read_body
from gpuyield.model.measure import NEVER_NS, ResponseStatus

UNKNOWN = -1


@dataclass(slots=True)
class Reading:
    """One response. Times are on the clock of its reads, `NEVER_NS` where something did not happen.

    `first_ns` and `last_ns` are the reads that brought the first and the last content; an answer that is not streamed
    comes in one, at its end. `end_ns` is the end of the answer. Token counts are the server's own, `UNKNOWN` without.
    `reads` counts the reads that brought content, `gap_max_ns` is the longest time between two of them. `problem`
    tells what is wrong without quoting the answer.
    """

    status: ResponseStatus
    end_ns: int = NEVER_NS
    first_ns: int = NEVER_NS
    last_ns: int = NEVER_NS
    reads: int = 0
    gap_max_ns: int = NEVER_NS
    output_tokens: int = UNKNOWN
    input_tokens: int = UNKNOWN
    reasoning_tokens: int = UNKNOWN
    http_status: int = 0
    text: str = ""
    problem: str = ""

    def fail(self, status: ResponseStatus, problem: str) -> Reading:
        """The same, failed."""
        self.status, self.problem = status, problem
        return self

    def at_once(self) -> Reading:
        """The same, with all of its content at its end: an answer that is not streamed."""
        self.first_ns = self.last_ns = self.end_ns
        self.reads = 1
        return self


def opened(response: Response) -> tuple[Body | None, Reading]:
    """The body of a response that began with 2xx, with a reading that is still OK; else None and what became of it."""
    try:
        body = read_body(response)
    except BrokenFraming as err:
        return None, _failed(response, ResponseStatus.MALFORMED, str(err))
    if body is None:
        return None, _failed(response, unfinished(response.ended), "it ended before its head was whole")
    head = body.head
    reading = Reading(ResponseStatus.OK, end_ns=response.times_ns[-1], http_status=head.status)
    if not 200 <= head.status < 300:
        status = ResponseStatus.REFUSED if head.status in (429, 503) else ResponseStatus.HTTP_ERROR
        return None, reading.fail(status, f"HTTP {head.status}")
    if head.content_encoding not in ("", "identity"):
        return None, reading.fail(ResponseStatus.MALFORMED, "it is compressed, which was not asked for")
    if body.whole:
        reading.end_ns = body.end_ns
    return body, reading


def is_whole(body: Body, reading: Reading) -> bool:
    """Whether all bytes of an answer came; if not the reading has failed."""
    if not body.whole:
        reading.fail(unfinished(body.ended), "the answer stopped before its end")
    return body.whole


def unfinished(ended: Ended) -> ResponseStatus:
    """The status of an answer that is not whole, by why reading stopped."""
    match ended:
        case Ended.LATE:
            return ResponseStatus.TIMEOUT
        case Ended.STOPPED:
            return ResponseStatus.IN_FLIGHT
        case Ended.TOO_LARGE:
            return ResponseStatus.MALFORMED
        case _:
            return ResponseStatus.CUT_OFF


def _failed(response: Response, status: ResponseStatus, problem: str) -> Reading:
    ended = status not in (ResponseStatus.IN_FLIGHT, ResponseStatus.TIMEOUT) and len(response.times_ns) > 0
    return Reading(status, end_ns=response.times_ns[-1] if ended else NEVER_NS, problem=problem)
