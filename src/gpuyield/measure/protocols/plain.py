"""Any HTTP endpoint: the body as the user wrote it, the answer good by its status or by the reader's word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuyield.measure.protocols.framing import Response
from gpuyield.measure.protocols.protocol import cannot_ask, encoded
from gpuyield.measure.protocols.reading import Reading, is_whole, opened
from gpuyield.measure.requests import RequestLine
from gpuyield.model.measure import ResponseStatus

Reader = Callable[[bytes], str | None]
"""The text of an answer's content, None when the answer is no good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """A plain endpoint at the service's URL. `reader` is an importable function, named on the command line."""

    reader: Reader | None = None
    streams: bool = False
    path: str = ""

    def body(self, line: RequestLine, *, model: str) -> bytes:
        """The body as it stands in the file; the model is not mentioned."""
        if line.kind != "body":
            raise cannot_ask(line, "a plain endpoint", "body")
        return encoded(line.content)

    def read(self, response: Response, *, keep_text: bool) -> Reading:
        """What a response says."""
        body, reading = opened(response)
        if body is None or not is_whole(body, reading):
            return reading
        if self.reader is None:
            reading.text = body.content.decode("utf-8", "replace") if keep_text else ""
            return reading.at_once()
        try:
            text = self.reader(body.content)
        except Exception as err:
            return reading.fail(ResponseStatus.MALFORMED, f"the reader raised {type(err).__name__}")
        if text is None:
            return reading.fail(ResponseStatus.MALFORMED, "the reader found no answer in it")
        reading.text = text if keep_text else ""
        return reading.at_once()
