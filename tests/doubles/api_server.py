"""A Kubernetes API server as a look with read verbs needs it: lists, Kueue, the service proxy."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import yaml

from doubles.answers import Asked, Said

_PROXIED = re.compile(r"/api/v1/namespaces/([^/]+)/services/([^/]+)/proxy(/.*)")
TOKEN = "t0ken"


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeService:
    """A service; `behind` is the URL of what answers there ("" for nothing)."""

    place: str
    behind: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)

    @property
    def item(self) -> dict[str, object]:
        namespace, _, rest = self.place.partition("/")
        name, _, port = rest.partition(":")
        return {
            "metadata": {"name": name, "namespace": namespace, "labels": dict(self.labels)},
            "spec": {"ports": [{"name": "http", "port": int(port)}], "selector": dict(self.selector)},
        }


def api_server(
    services: Sequence[MadeService] = (),
    *,
    queues: Sequence[str] | None = None,
    forbidden: Sequence[str] = (),
    page: int = 500,
) -> Callable[[Asked], Said]:
    """Answers for these services; `queues` None means no Kueue, `forbidden` are plurals that may not be listed."""
    behind = {one.place: one.behind for one in services}

    def listed(items: Sequence[dict[str, object]], asked: Asked) -> Said:
        start = int(asked.fields.get("continue", "0"))
        more = str(start + page) if start + page < len(items) else ""
        return _json({"items": items[start : start + page], "metadata": {"continue": more}})

    def answer(asked: Asked) -> Said:
        if asked.headers.get("Authorization") != f"Bearer {TOKEN}":
            return _json({"message": "Unauthorized"}, 401)
        proxied = _PROXIED.fullmatch(asked.path)
        plural = asked.path.rpartition("/")[2]
        if asked.method != "GET" or plural in forbidden:
            return _json({"message": f"{plural} is forbidden"}, 403)
        if proxied:
            return forwarded(behind.get(f"{proxied[1]}/{proxied[2]}", ""), proxied[3], asked.fields)
        if asked.path == "/api/v1/services":
            return listed([one.item for one in services], asked)
        if asked.path == "/apis/kueue.x-k8s.io" and queues is not None:
            return _json({"preferredVersion": {"version": "v1beta2"}})
        if asked.path == "/apis/kueue.x-k8s.io/v1beta2/clusterqueues" and queues is not None:
            return listed([{"metadata": {"name": name}} for name in queues], asked)
        return _json({"message": "not found"}, 404)

    return answer


def kubeconfig(folder: Path, server: str, context: str = "prod-gpu") -> Path:
    """A kubeconfig file with one context for this server."""
    file = folder / "kubeconfig"
    document = {
        "current-context": context,
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


def forwarded(url: str, path: str, fields: Mapping[str, str]) -> Said:
    """What the server at a URL answers; 503 where there is none."""
    if not url:
        return _json({"message": "no endpoints available for service"}, 503)
    try:
        with urllib.request.urlopen(f"{url}{path}?{urlencode(fields)}", timeout=20) as answer:
            return Said(status=answer.status, body=answer.read(), content_type=answer.headers["Content-Type"])
    except urllib.error.HTTPError as err:
        with err:
            return Said(status=err.code, body=err.read())


def _json(document: Mapping[str, object], status: int = 200) -> Said:
    return Said(status=status, body=json.dumps(document).encode())
