"""A model that judges, in a thread of the test's process: it says what a function makes of each prompt."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Said = Callable[[str], str | int]
"""What is replied to a prompt: a text, or the HTTP status of a refusal."""


@dataclass(slots=True)
class RunningJudge:
    """A judge at `url`, and what it was asked: when, on the monotonic clock, in what body, with which key."""

    url: str
    at_ns: list[int] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    authorizations: set[str | None] = field(default_factory=set)

    @property
    def prompts(self) -> list[str]:
        """The prompts, in the order in which they came."""
        return [str(one["messages"][0]["content"]) for one in self.bodies]


@contextmanager
def running_judge(said: Said) -> Iterator[RunningJudge]:
    """Keep a judge up."""
    judge = RunningJudge("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            judge.at_ns.append(time.monotonic_ns())
            judge.bodies.append(body)
            judge.authorizations.add(self.headers["Authorization"])
            reply = said(judge.prompts[-1]) if self.path == "/v1/chat/completions" else 404
            status = reply if isinstance(reply, int) else 200
            message = {"role": "assistant", "content": reply}
            answer = {
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 5},
            }
            data = json.dumps(answer if status == 200 else {"error": "no"}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said of it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        judge.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield judge
        finally:
            server.shutdown()
            thread.join(timeout=20)
