"""The objects of a cluster over HTTP, as an API server serves them."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any  # Objects of the API server are JSON.
from urllib.parse import parse_qsl, urlsplit

import msgspec

from doubles.cluster.objects import ApiObjects
from gpuyield.collect import kubernetes
from gpuyield.collect.kubernetes import AlreadyExists, Conflict, Gone, Invalid, Kind, NotFound, kind_of
from gpuyield.collect.kueue.shapes import Object
from gpuyield.errors import SourceError

NAMESPACE = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
_KINDS = {one.plural: one for one in vars(kubernetes).values() if isinstance(one, Kind)} | {"namespaces": NAMESPACE}
_CODES: Mapping[type[SourceError], tuple[int, str]] = {
    AlreadyExists: (409, "AlreadyExists"),
    Conflict: (409, "Conflict"),
    NotFound: (404, "NotFound"),
    Gone: (410, "Expired"),
    Invalid: (422, "Invalid"),
}


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request: of which kind, one object or all, and which part of it."""

    kind: Kind
    namespace: str | None
    name: str | None
    part: str | None
    query: Mapping[str, str]


@contextmanager
def serving_objects(objects: ApiObjects, folder: Path, *, port: int = 0) -> Iterator[Path]:
    """Serve them on loopback; the kubeconfig that leads there."""
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"objects": objects, "pages": _Pages(objects)}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    kubeconfig = folder / "kubeconfig"
    cluster = {"server": f"http://127.0.0.1:{server.server_port}"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "double",
        "clusters": [{"name": "double", "cluster": cluster}],
        "users": [{"name": "double", "user": {}}],
        "contexts": [{"name": "double", "context": {"cluster": "double", "user": "double"}}],
    }
    kubeconfig.write_text(json.dumps(config))
    try:
        yield kubeconfig
    finally:
        objects.break_watches()
        server.shutdown()
        server.server_close()
        thread.join()


class _Pages:
    """Lists in pages where they are asked for, all of one list as of one version."""

    def __init__(self, objects: ApiObjects) -> None:
        self._objects = objects
        self._lists: dict[str, tuple[list[Object], str]] = {}
        self._numbers = count(1)

    def page(self, asked: _Asked) -> Object:
        """The first page of a list, or one that goes on; raises Gone where what it goes on from is forgotten."""
        token, _, begins = asked.query.get("continue", "").partition(":")
        if not token:
            token = str(next(self._numbers))
            found, version = self._objects.all(asked.kind, asked.namespace, asked.query.get("labelSelector"))
        elif token in self._lists:
            found, version = self._lists.pop(token)
        else:
            raise Gone("the list that this goes on from is too old (410).")
        begin = int(begins or 0)
        limit = int(asked.query.get("limit") or 0) or len(found) or 1
        more = {"continue": f"{token}:{begin + limit}"} if begin + limit < len(found) else {}
        if more:
            self._lists[token] = found, version
        return {
            "kind": f"{asked.kind.kind}List",
            "metadata": {"resourceVersion": version, **more},
            "items": found[begin : begin + limit],
        }


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients are killed in the middle of a request, which some tests are about; all else is told."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """One connection; a subclass has the objects."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    objects: ApiObjects
    pages: _Pages

    def do_GET(self) -> None:
        """Read one, all, or follow."""
        asked = self._asked()
        if asked is None:
            return
        if asked.query.get("watch") == "true":
            self._watch(asked)
        elif asked.name is None:
            self._answer(lambda: self.pages.page(asked))
        else:
            name = asked.name
            self._answer(lambda: self.objects.get(asked.kind, name, asked.namespace))

    def do_POST(self) -> None:
        """Create."""
        asked, body = self._asked(), self._body()
        if asked is not None:
            dry_run = asked.query.get("dryRun") == "All"
            self._answer(lambda: self.objects.create(asked.kind, body, dry_run=dry_run), code=201)

    def do_PATCH(self) -> None:
        """Apply, or one of the two patches."""
        asked, body = self._asked(), self._body()
        if asked is not None:
            content = self.headers.get("content-type", "")
            self._answer(lambda: _patch(self.objects, asked, content, body))

    def do_DELETE(self) -> None:
        """Delete."""
        asked, _ = self._asked(), self._body()
        if asked is not None and asked.name is not None:
            name = asked.name
            self._answer(lambda: _delete(self.objects, asked, name))

    def _asked(self) -> _Asked | None:
        found = _read_path(self.path)
        if found is None:
            self._say(404, _status(404, "NotFound", f"{self.path} is not served here"))
        return found

    def _body(self) -> Any:
        length = int(self.headers.get("content-length") or 0)
        data = self.rfile.read(length)
        if len(data) < length:
            raise ConnectionResetError("the client is gone")
        return json.loads(data or b"null")

    def _answer(self, act: Callable[[], Object], *, code: int = 200) -> None:
        try:
            found = act()
        except SourceError as err:
            number, reason = _CODES.get(type(err), (500, "InternalError"))
            self._say(number, _status(number, reason, err.mistakes[0].what))
            return
        self._say(code, found)

    def _say(self, code: int, body: Object) -> None:
        data = msgspec.json.encode(body)
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _watch(self, asked: _Asked) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seconds = float(asked.query.get("timeoutSeconds", "60"))
        changes = self.objects.watch(
            asked.kind, since=asked.query["resourceVersion"], namespace=asked.namespace, seconds=seconds
        )
        try:
            for change in changes:
                if change.type == "BOOKMARK" and asked.query.get("allowWatchBookmarks") != "true":
                    continue
                self._chunk({"type": change.type, "object": _whole(asked.kind, change.object)})
            self.wfile.write(b"0\r\n\r\n")
        except Gone:
            self._chunk({"type": "ERROR", "object": _status(410, "Expired", "too old resource version")})
            self.wfile.write(b"0\r\n\r\n")
        except (SourceError, OSError):
            # Broken in the middle: no last chunk.
            self.close_connection = True

    def _chunk(self, event: Object) -> None:
        line = msgspec.json.encode(event) + b"\n"
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _delete(objects: ApiObjects, asked: _Asked, name: str) -> Object:
    objects.delete(asked.kind, name, asked.namespace)
    return {"kind": "Status", "status": "Success"}


def _patch(objects: ApiObjects, asked: _Asked, content: str, body: Any) -> Object:
    dry_run, status = asked.query.get("dryRun") == "All", asked.part == "status"
    if content.startswith("application/apply-patch"):
        manager = asked.query["fieldManager"]
        return objects.apply(asked.kind, body, manager=manager, status=status, dry_run=dry_run)
    name, namespace = asked.name or "", asked.namespace
    if content.startswith("application/json-patch"):
        return objects.patch(asked.kind, name, namespace, operations=body, status=status, dry_run=dry_run)
    return objects.patch(asked.kind, name, namespace, merge=body, status=status, dry_run=dry_run)


def _read_path(path: str) -> _Asked | None:
    parts = urlsplit(path)
    words = [word for word in parts.path.split("/") if word]
    rest = words[2:] if words[:1] == ["api"] else words[3:] if words[:1] == ["apis"] else []
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    if not rest:
        return None
    kind = _KINDS.get(rest[0]) or kind_of("/".join(words[1:3]), rest[0].removesuffix("s"))
    name, part = [*rest[1:], None, None][:2]
    return _Asked(kind=kind, namespace=namespace, name=name, part=part, query=dict(parse_qsl(parts.query)))


def _whole(kind: Kind, one: Object) -> Object:
    """Objects of a watch name their kind; those of a list do not."""
    return {"apiVersion": f"{kind.group}/{kind.version}" if kind.group else kind.version, "kind": kind.kind, **one}


def _status(code: int, reason: str, message: str) -> Object:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
