"""One connection to the double: HTTP/1.1 requests, one at a time, each answered at once or by the model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from time import monotonic_ns
from typing import cast

from gpuyield.demo.answering import Answering, asked_of
from gpuyield.demo.answers import error, plain, whole
from gpuyield.demo.gpu_page import gpu_text
from gpuyield.demo.language_model import LanguageModel
from gpuyield.demo.server_metrics import metrics_text
from gpuyield.demo.spoken import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES

_PATHS = (CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS)
_LARGEST_BODY = 64 * 2**20
_LARGEST_HEAD = 64 * 2**10


class Visitor(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(
        self, model: LanguageModel, *, came: Callable[[Visitor], None], went: Callable[[Visitor], None]
    ) -> None:
        self._model = model
        self._came = came
        self._went = went
        self._held = bytearray()
        self._transport: asyncio.Transport | None = None
        self._answering: Answering | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody came."""
        # A stream's protocol gets a stream's transport, but asyncio does not say so in its types.
        self._transport = cast("asyncio.Transport", transport)
        self._came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """They went; what they asked for is not written any more."""
        self._went(self)
        self._transport = None
        if self._answering is not None:
            self._answering.give_up()
            self._answering = None

    def data_received(self, data: bytes) -> None:
        """Answer what is asked, one after the other."""
        self._held += data
        if self._answering is None:
            self._take()

    def write(self, data: bytes) -> None:
        """Send bytes now."""
        if self._transport is not None:
            self._transport.write(data)

    def drop(self) -> None:
        """Close at once, as a crash would."""
        if self._transport is not None:
            self._transport.abort()

    def answered(self, *, closes: bool) -> None:
        """The answer ended: close, or take what was asked meanwhile."""
        self._answering = None
        if closes:
            if self._transport is not None:
                self._transport.close()
        elif self._held:
            self._take()

    def _take(self) -> None:
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            if len(self._held) > _LARGEST_HEAD:
                self.drop()
            return
        head = bytes(self._held[:end])
        length = _length(head)
        if not 0 <= length <= _LARGEST_BODY:
            self.write(error(413, "the body is too large"))
            self.answered(closes=True)
            return
        if len(self._held) < end + 4 + length:
            return
        body = bytes(self._held[end + 4 : end + 4 + length])
        del self._held[: end + 4 + length]
        shown = _header(head, b"authorization")
        if shown:
            self._model.authorizations.add(shown.decode("latin-1"))
        method, _, rest = head.partition(b" ")
        self._answer(method.decode("latin-1"), rest.split(b" ", 1)[0].decode("latin-1"), body)

    def _answer(self, method: str, path: str, body: bytes) -> None:
        model = self._model
        if method == "GET" and path == "/v1/models":
            listed = [{"id": model.settings.model, "object": "model", "owned_by": "gpuyield"}]
            self.write(whole({"object": "list", "data": listed}))
        elif method == "GET" and path == "/version":
            self.write(whole({"version": model.settings.version}))
        elif method == "GET" and path == "/metrics":
            text = metrics_text(
                model.counted,
                model.engine,
                model.settings.engine,
                model=model.settings.model,
                started_s=model.started_s,
            )
            self.write(plain(text.encode(), "text/plain; version=0.0.4; charset=utf-8"))
        elif method == "GET" and path == "/gpu-metrics":
            text = gpu_text(model.log, monotonic_ns(), pod=model.settings.pod)
            self.write(plain(text.encode(), "text/plain; version=0.0.4; charset=utf-8"))
        elif method == "POST" and path in _PATHS:
            self._ask(path, body)
            return
        else:
            self.write(error(404, f"{path[:80]} is not served here"))
        self.answered(closes=False)

    def _ask(self, path: str, body: bytes) -> None:
        arrived_ns = monotonic_ns()
        try:
            fields = json.loads(body)
            if not isinstance(fields, dict):
                raise ValueError("no object")
        except ValueError:
            self.write(error(400, "the body is not JSON"))
            self.answered(closes=False)
            return
        known = self._model.settings.fields
        strange = [] if known is None else sorted(set(fields) - known)
        if strange:
            self.write(error(422, f"unknown field {strange[0]}"))
            self.answered(closes=False)
            return
        asked = asked_of(path, fields, body, self._model)
        self._answering = Answering(self, self._model, asked, body, arrived_ns)
        self._answering.start()


def _length(head: bytes) -> int:
    value = _header(head, b"content-length") or b"0"
    return int(value) if value.isdigit() else -1


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return b""
