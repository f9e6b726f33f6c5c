"""The protocols by name."""

from __future__ import annotations

from gpuyield.errors import DeclarationError
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.protocols.completions import Completions
from gpuyield.measure.protocols.embeddings import Embeddings
from gpuyield.measure.protocols.plain import Plain, Reader
from gpuyield.measure.protocols.protocol import Spoken
from gpuyield.measure.protocols.responses import Responses

PROTOCOLS = ("chat", "completions", "responses", "embeddings", "http")


def protocol_named(name: str, *, streams: bool = True, usage: bool = True, reader: Reader | None = None) -> Spoken:
    """The protocol of a name, streaming where it can unless told otherwise.

    Raises:
        DeclarationError: There is no such protocol.
    """
    match name:
        case "chat":
            return Chat(streams=streams, usage=usage)
        case "completions":
            return Completions(streams=streams, usage=usage)
        case "responses":
            return Responses(streams=streams)
        case "embeddings":
            return Embeddings()
        case "http":
            return Plain(reader=reader)
    raise DeclarationError(
        f'"{name[:40]}" is no protocol.', where="--protocol", fix=f"Write one of {', '.join(PROTOCOLS)}."
    )
