"""The Kubernetes API as the controller uses it: a small Protocol, and its one implementation over HTTP.

Objects are JSON dictionaries; kinds are named once. Server-side apply, watches with bookmarks, and the status
subresource are all that is needed, and each is one request.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import httpx2
import msgspec

from gpuyield.collect.endpoint import ssl_context
from gpuyield.collect.kubeconfig import endpoint_of, find_cluster
from gpuyield.collect.kueue.shapes import Object, plural_of
from gpuyield.collect.probe import Forbidden
from gpuyield.errors import SourceError

_PAGE = "500"
_MOST_SAID = 256
_ASK_S, _CONNECT_S = 15.0, 5.0
WATCH_S = 240
"""A watch is opened anew after so long; bookmarks come once a minute."""
_SILENT_S = 120.0


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object: `group` is "" for the core, `plural` its name in paths."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    def path(self, name: str | None = None, namespace: str | None = None, sub: str | None = None) -> str:
        """The path of one object, or of all."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return root + place + "".join(f"/{part}" for part in (self.plural, name, sub) if part)


_KUEUE = ("kueue.x-k8s.io", "v1beta2")
WORKLOAD = Kind(*_KUEUE, "workloads", "Workload")
CLUSTER_QUEUE = Kind(*_KUEUE, "clusterqueues", "ClusterQueue", namespaced=False)
LOCAL_QUEUE = Kind(*_KUEUE, "localqueues", "LocalQueue")
COHORT = Kind(*_KUEUE, "cohorts", "Cohort", namespaced=False)
RESOURCE_FLAVOR = Kind(*_KUEUE, "resourceflavors", "ResourceFlavor", namespaced=False)
ADMISSION_CHECK = Kind(*_KUEUE, "admissionchecks", "AdmissionCheck", namespaced=False)
JOB = Kind("batch", "v1", "jobs", "Job")
CRON_JOB = Kind("batch", "v1", "cronjobs", "CronJob")
NODE = Kind("", "v1", "nodes", "Node", namespaced=False)
POD = Kind("", "v1", "pods", "Pod")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
EVENT = Kind("", "v1", "events", "Event")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")


def kind_of(api_version: str, name: str) -> Kind:
    """The kind of an object as its owner reference names it."""
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, plural_of(name), name)


class NotFound(SourceError):
    """There is no such object, or no such kind."""


class AlreadyExists(SourceError):
    """An object of that name is there."""


class Conflict(SourceError):
    """The object has changed since the version that was named."""


class Gone(SourceError):
    """The version to watch from is too old: list again."""


class Invalid(SourceError):
    """Refused for what it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """All objects of a kind, and the version to watch from."""

    items: list[Object]
    resource_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """ADDED, MODIFIED, DELETED or BOOKMARK; of a bookmark only the version counts."""

    type: str
    object: Object


def whole(one: Object) -> Object:
    """All of an object."""
    return one


class ClusterApi(Protocol):
    """What is asked of a cluster. Every method raises SourceError, of the kinds above where they fit."""

    def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        keep: Callable[[Object], Object] = whole,
    ) -> Listed:
        """All objects, whatever the pages, each as `keep` leaves it: the rest goes with its page."""

    def watch(self, kind: Kind, *, since: str, namespace: str | None = None) -> Iterator[Change]:
        """Changes since a version, until the server ends it. Raises Gone."""

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """One object. Raises NotFound."""

    def create(self, kind: Kind, body: Object) -> Object:
        """Make an object. Raises AlreadyExists."""

    def apply(
        self,
        kind: Kind,
        body: Object,
        *,
        manager: str,
        force: bool = True,
        status: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply; with a resourceVersion in the body Conflict where that is stale."""

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        *,
        operations: Sequence[Object] | None = None,
        merge: Object | None = None,
    ) -> Object:
        """A JSON patch, whose tests fail as Invalid, or a merge patch."""

    def delete(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        """Delete an object. Raises NotFound."""


class HttpApi:
    """One cluster over HTTP, by a kubeconfig or as a pod; the pod's token is read again when it is refused."""

    def __init__(self, context: str | None, environment: Mapping[str, str], home: Path) -> None:
        self._way = (context, environment, home)
        self._lock = threading.Lock()
        self._client, self.name = self._connect()

    def list(
        self,
        kind: Kind,
        *,
        namespace: str | None = None,
        labels: str | None = None,
        keep: Callable[[Object], Object] = whole,
    ) -> Listed:
        """All objects, whatever the pages, each as `keep` leaves it: the rest goes with its page."""
        query = {"limit": _PAGE, **({"labelSelector": labels} if labels else {})}
        found: list[Object] = []
        while True:
            page = self._ask("GET", kind.path(None, namespace), query=query)
            found += map(keep, page.get("items") or [])
            meta = page.get("metadata") or {}
            if not meta.get("continue"):
                return Listed(items=found, resource_version=str(meta.get("resourceVersion", "")))
            query["continue"] = str(meta["continue"])

    def watch(self, kind: Kind, *, since: str, namespace: str | None = None) -> Iterator[Change]:
        """Changes since a version, until the server ends it."""
        query = {
            "watch": "true",
            "resourceVersion": since,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
        }
        path = kind.path(None, namespace)
        timeout = httpx2.Timeout(_SILENT_S, connect=_CONNECT_S)
        try:
            with self._client.stream("GET", path, params=query, timeout=timeout) as answer:
                if answer.is_error:
                    answer.read()
                    raise _refusal(answer, f"watch {kind.plural}")
                for line in answer.iter_lines():
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        said = event["object"]
                        raise _error(int(said.get("code", 500)), str(said.get("message", "")), f"watch {kind.plural}")
                    yield Change(type=event["type"], object=event["object"])
        except (httpx2.HTTPError, msgspec.MsgspecError) as err:
            raise _unreachable(self.name, err) from err

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        """One object."""
        return self._ask("GET", kind.path(name, namespace))

    def create(self, kind: Kind, body: Object) -> Object:
        """Make an object."""
        return self._ask("POST", kind.path(None, body["metadata"].get("namespace")), body=body)

    def apply(
        self,
        kind: Kind,
        body: Object,
        *,
        manager: str,
        force: bool = True,
        status: bool = False,
        dry_run: bool = False,
    ) -> Object:
        """Server-side apply."""
        meta = body["metadata"]
        path = kind.path(meta["name"], meta.get("namespace"), "status" if status else None)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return self._ask(
            "PATCH",
            path,
            body=body,
            content="application/apply-patch+yaml",
            query={**query, **({"dryRun": "All"} if dry_run else {})},
        )

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        *,
        operations: Sequence[Object] | None = None,
        merge: Object | None = None,
    ) -> Object:
        """A JSON patch or a merge patch."""
        path = kind.path(name, namespace)
        if operations is not None:
            return self._ask("PATCH", path, body=list(operations), content="application/json-patch+json")
        return self._ask("PATCH", path, body=merge or {}, content="application/merge-patch+json")

    def delete(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        """Delete an object."""
        self._ask("DELETE", kind.path(name, namespace))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        content: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        data = None if body is None else json.dumps(body)
        for last in (False, True):
            client = self._client
            try:
                answer = client.request(method, path, content=data, headers={"content-type": content}, params=query)
            except httpx2.HTTPError as err:
                raise _unreachable(self.name, err) from err
            if answer.status_code == 401 and not last:
                self._connect_again(client)
                continue
            break
        if answer.is_error:
            raise _refusal(answer, f"{method} {path}")
        try:
            found: Object = msgspec.json.decode(answer.content)
        except msgspec.MsgspecError as err:
            raise _unreachable(self.name, err) from err
        return found

    def _connect_again(self, refused: httpx2.Client) -> None:
        with self._lock:
            if self._client is refused:
                self._client, self.name = self._connect()

    def _connect(self) -> tuple[httpx2.Client, str]:
        context, environment, home = self._way
        cluster = find_cluster(context, environment=environment, home=home)
        where = endpoint_of(cluster)
        client = httpx2.Client(
            base_url=where.base_url,
            verify=ssl_context(where),
            timeout=httpx2.Timeout(_ASK_S, connect=_CONNECT_S),
            limits=httpx2.Limits(max_connections=64, max_keepalive_connections=32),
            trust_env=False,
            headers={"Accept": "application/json", "User-Agent": "gpuyield", **dict(where.secrets.headers)},
        )
        return client, cluster.name


def connect(context: str | None) -> HttpApi:
    """The cluster of a context, else of the current one, else of the pod that we run in.

    Raises:
        DeclarationError: No way to the cluster.
    """
    return HttpApi(context, os.environ, Path.home())


def _refusal(answer: httpx2.Response, asked: str) -> SourceError:
    try:
        status = msgspec.json.decode(answer.content)
    except msgspec.MsgspecError:
        status = {}
    said = str(status.get("message") or answer.text[:_MOST_SAID])
    if answer.status_code == 409 and status.get("reason") == "AlreadyExists":
        return AlreadyExists(f"{said}.", where=asked)
    return _error(answer.status_code, said, asked)


def _error(code: int, said: str, asked: str) -> SourceError:
    kinds: dict[int, type[SourceError]] = {403: Forbidden, 404: NotFound, 409: Conflict, 410: Gone, 422: Invalid}
    return kinds.get(code, SourceError)(f"{said[:1024]} ({code}).", where=asked)


def _unreachable(name: str, err: Exception) -> SourceError:
    said = str(err)[:_MOST_SAID] or type(err).__name__
    return SourceError(f"the API server cannot be reached: {said}.", where=f"context {name}")
