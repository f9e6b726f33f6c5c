"""A small HTTP server that answers what a test tells it to, well or badly, and remembers what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qs


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the server saw it."""

    method: str
    path: str
    fields: Mapping[str, str]
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer. `announced` is a false Content-Length; `hang` waits for the test's end instead of answering."""

    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    announced: int | None = None
    hang: bool = False
    drop: bool = False


@dataclass(slots=True)
class Conversation:
    """What was asked so far, and where."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def answering(answer: Callable[[Asked], Said] | Sequence[Said]) -> Iterator[Conversation]:
    """A server on 127.0.0.1 while the context lasts; a list is said in order, its last item for ever."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    conversation = Conversation(f"http://127.0.0.1:{server.server_port}")
    lock = threading.Lock()

    def choose(asked: Asked) -> Said:
        with lock:
            at = len(conversation.asked)
            conversation.asked.append(asked)
        return answer(asked) if callable(answer) else answer[min(at, len(answer) - 1)]

    server.RequestHandlerClass = type("Handler", (_Handler,), {"choose": staticmethod(choose), "talk": conversation})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield conversation
    finally:
        conversation.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    choose: ClassVar[Callable[[Asked], Said]]
    talk: ClassVar[Conversation]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._reply()

    def do_POST(self) -> None:
        self._reply()

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent."""

    def _reply(self) -> None:
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        fields = {name: values[-1] for name, values in parse_qs(f"{query}&{body}").items()}
        said = type(self).choose(
            Asked(method=self.command, path=path, fields=fields, headers=dict(self.headers.items()))
        )
        if said.hang:
            self.talk.over.wait(30)
        if said.hang or said.drop:
            self.close_connection = True
            return
        # A date of its own takes the place of the server's.
        (self.send_response_only if "Date" in said.headers else self.send_response)(said.status)
        self.send_header("Content-Type", said.content_type)
        self.send_header("Content-Length", str(len(said.body) if said.announced is None else said.announced))
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(said.body)
        self.close_connection = said.announced is not None
