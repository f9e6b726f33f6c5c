"""What the sender needs to know of a protocol: where to ask, what to send, and how to read the answer."""

from __future__ import annotations

from typing import Any, Protocol  # JSON values

import msgspec

from gpuyield.errors import DeclarationError
from gpuyield.measure.protocols.framing import Response
from gpuyield.measure.protocols.reading import Reading
from gpuyield.measure.requests import RequestLine


class Spoken(Protocol):
    """A protocol. Its instances are sent to worker processes, so they are plain values."""

    @property
    def path(self) -> str:
        """What follows the service's URL."""
        ...

    @property
    def streams(self) -> bool:
        """Whether answers come token by token, so that times to a token exist."""
        ...

    def body(self, line: RequestLine, *, model: str) -> bytes:
        """The body to be sent for a request.

        Raises:
            DeclarationError: This protocol cannot ask that.
        """
        ...

    def read(self, response: Response, *, keep_text: bool) -> Reading:
        """What a response says. It never raises: what cannot be read is a miss."""
        ...


def encoded(fields: dict[str, Any]) -> bytes:
    """A JSON body without the fields that are None."""
    return msgspec.json.encode({key: value for key, value in fields.items() if value is not None})


def cannot_ask(line: RequestLine, protocol: str, instead: str) -> DeclarationError:
    """The error that a request does not fit the protocol."""
    return DeclarationError(
        f'request "{line.id}" has {line.kind}, which {protocol} does not take.', fix=f"Write {instead}."
    )
