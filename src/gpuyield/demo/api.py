"""A small Prometheus-compatible HTTP API on loopback that serves the time series of a scenario.

It answers what a collector asks: raw samples by range selectors (left-open, as Prometheus 3 reads them), instant
selectors, series, labels and build information. Expressions beyond a selector are refused.
"""

from __future__ import annotations

import json
import threading
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import numpy as np

from gpuyield.demo.exposition import Series
from gpuyield.demo.selector import Selector, SelectorError, parse_selector
from gpuyield.demo.writers import number_texts, second_texts
from gpuyield.units import parse_instant

VERSION = "3.0.0+gpuyield.demo"
_LOOK_BACK_MS = 300_000
_LARGEST_BODY = 4_000_000


class TimeSeriesStore:
    """Series by name, for selection."""

    def __init__(self, series: Iterable[Series]) -> None:
        self._by_name: dict[str, list[Series]] = {}
        for one in series:
            self._by_name.setdefault(one.labels["__name__"], []).append(one)

    def select(self, selector: Selector, from_ms: int, to_ms: int) -> Iterator[Series]:
        """The samples in the left-open span `(from_ms, to_ms]` of each series that is meant and has any."""
        names: Sequence[str] = [selector.name] if selector.name is not None else sorted(self._by_name)
        for name in names:
            for one in self._by_name.get(name, []):
                if not selector.accepts(one.labels):
                    continue
                low = int(np.searchsorted(one.times_ms, from_ms, side="right"))
                high = int(np.searchsorted(one.times_ms, to_ms, side="right"))
                if low < high:
                    yield Series(one.labels, one.times_ms[low:high], one.values[low:high])

    @property
    def last_ms(self) -> int:
        """The newest sample's time; 0 without one."""
        return max((int(one.times_ms[-1]) for group in self._by_name.values() for one in group), default=0)


class _BadRequest(Exception):
    """What the asker did wrong."""


@contextmanager
def serving(series: Iterable[Series], *, port: int = 0) -> Iterator[str]:
    """Serve the series on 127.0.0.1 (port 0: any free one) while the context lasts; gives the URL."""
    server = make_server(series, port=port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_server(series: Iterable[Series], *, port: int = 0) -> ThreadingHTTPServer:
    """The server, bound to loopback and not yet running: call `serve_forever`."""

    class Handler(_Handler):
        store = TimeSeriesStore(series)

    return _Server(("127.0.0.1", port), Handler)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 32


class _Handler(BaseHTTPRequestHandler):
    store: ClassVar[TimeSeriesStore]
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_version = "gpuyield-demo"

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self._answer(path, urllib.parse.parse_qs(query, keep_blank_values=True))

    def do_POST(self) -> None:
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        if length > _LARGEST_BODY:
            self.close_connection = True
            self._send_error(413, "bad_data", "the body is too large")
            return
        body = self.rfile.read(length).decode()
        asked = urllib.parse.parse_qs(query, keep_blank_values=True)
        for name, values in urllib.parse.parse_qs(body, keep_blank_values=True).items():
            asked.setdefault(name, []).extend(values)
        self._answer(path, asked)

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: stderr belongs to the command."""

    def _answer(self, path: str, asked: Mapping[str, list[str]]) -> None:
        try:
            body = self._body(path, asked)
        except (_BadRequest, SelectorError) as err:
            self._send_error(400, "bad_data", str(err))
            return
        if body is None:
            self._send_error(404, "not_found", f"{path} is not served here")
        elif path.startswith("/-/"):
            self._send(200, body, "text/plain; charset=utf-8")
        else:
            self._send(200, body, "application/json")

    def _body(self, path: str, asked: Mapping[str, list[str]]) -> list[bytes] | None:
        match path.removeprefix("/api/v1/").split("/"):
            case ["query"]:
                return query_answer(self.store, _one(asked, "query"), self._time(asked, "time"))
            case ["series"]:
                return _success([dict(one.labels) for one in self._matched(asked, required=True)])
            case ["labels"]:
                return _success(sorted({name for one in self._matched(asked) for name in one.labels}))
            case ["label", name, "values"]:
                return _success(sorted({one.labels[name] for one in self._matched(asked) if name in one.labels}))
            case ["status", "buildinfo"]:
                return _success({"version": VERSION, "revision": "", "branch": "", "goVersion": ""})
            case ["metadata"]:
                return _success({})
        if path in ("/-/ready", "/-/healthy"):
            return [b"The demo is ready.\n"]
        return None

    def _matched(self, asked: Mapping[str, list[str]], *, required: bool = False) -> Iterator[Series]:
        texts = asked.get("match[]", [])
        if required and not texts:
            raise _BadRequest("no match[] parameter provided")
        low, high = self._time(asked, "start", 0), self._time(asked, "end")
        for text in texts or ['{__name__=~".+"}']:
            yield from self.store.select(parse_selector(text), low - 1, high)

    def _time(self, asked: Mapping[str, list[str]], name: str, default_ms: int | None = None) -> int:
        if name not in asked:
            return self.store.last_ms if default_ms is None else default_ms
        return _instant_ms(asked[name][0], name)

    def _send(self, status: int, parts: Sequence[bytes], content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(sum(len(part) for part in parts)))
        self.end_headers()
        for part in parts:
            self.wfile.write(part)

    def _send_error(self, status: int, kind: str, message: str) -> None:
        body = json.dumps({"status": "error", "errorType": kind, "error": message}).encode()
        self._send(status, [body], "application/json")


def query_answer(store: TimeSeriesStore, query: str, at_ms: int) -> list[bytes]:
    """The body of an instant query, in parts: a matrix for a range selector, else a vector.

    Raises:
        SelectorError: The query is not a selector.
    """
    selector = parse_selector(query)
    span_ms = _LOOK_BACK_MS if selector.span_ms is None else selector.span_ms
    kind = "vector" if selector.span_ms is None else "matrix"
    parts = [f'{{"status":"success","data":{{"resultType":"{kind}","result":['.encode()]
    between = b""
    for one in store.select(selector, at_ms - span_ms, at_ms):
        labels = json.dumps(dict(one.labels), separators=(",", ":"))
        if kind == "vector":
            sample = f'"value":[{second_texts(_at(at_ms))[0]},"{number_texts(one.values[-1:])[0]}"]'
        else:
            pairs = zip(second_texts(one.times_ms), number_texts(one.values), strict=True)
            sample = f'"values":[{",".join([f"""[{at},"{value}"]""" for at, value in pairs])}]'
        parts.append(between + f'{{"metric":{labels},{sample}}}'.encode())
        between = b","
    parts.append(b"]}}")
    return parts


def _at(at_ms: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([at_ms], dtype=np.int64)


def _success(data: object) -> list[bytes]:
    return [json.dumps({"status": "success", "data": data}, separators=(",", ":")).encode()]


def _one(asked: Mapping[str, list[str]], name: str) -> str:
    if not asked.get(name):
        raise _BadRequest(f'invalid parameter "{name}": it is missing')
    return asked[name][0]


def _instant_ms(text: str, name: str) -> int:
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        return parse_instant(text)
    except Exception as err:
        raise _BadRequest(f'invalid parameter "{name}": cannot parse "{text[:80]}" to a valid timestamp') from err
