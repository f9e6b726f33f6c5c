"""Whether the controller lives and is of use, and what it counted, over plain HTTP: /healthz, /readyz, /metrics."""

from __future__ import annotations

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from gpuyield.controller.metrics import Metrics
from gpuyield.errors import SourceError

Trouble = Callable[[], str]
"""What is wrong, as a sentence; "" where nothing is."""


class Health:
    """Serves three pages until it is closed; probes never wait for the loop.

    `not_alive` says why this process has to be restarted, `not_ready` why it is of no use now.
    """

    def __init__(self, bind: str, port: int, *, not_alive: Trouble, not_ready: Trouble, metrics: Metrics) -> None:
        pages: dict[str, Callable[[], tuple[int, str]]] = {
            "/healthz": lambda: _judged(not_alive()),
            "/readyz": lambda: _judged(not_ready()),
            "/metrics": lambda: (200, metrics.text()),
        }

        class Page(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page = pages.get(self.path.partition("?")[0])
                status, text = (404, "not found\n") if page is None else page()
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Probes are not worth a line."""

        try:
            self._server = ThreadingHTTPServer((bind, port), Page)
        except OSError as err:
            raise SourceError(
                f"cannot listen: {err.strerror or err}.",
                where=f"{bind}:{port}",
                fix="Choose another port with --port, or --port 0 for any.",
            ) from err
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        Thread(target=self._server.serve_forever, name="health", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _judged(trouble: str) -> tuple[int, str]:
    return (503, f"{trouble}\n") if trouble else (200, "ok\n")
