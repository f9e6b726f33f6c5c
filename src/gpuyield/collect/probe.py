"""Ask a cluster's API server, with read verbs only, what there is to read: services, and Kueue's queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar  # objects of the API as they are sent

import msgspec

from gpuyield.collect.http import Answer, HttpClient, Patience
from gpuyield.collect.kubeconfig import endpoint_of, find_cluster
from gpuyield.errors import SourceError
from gpuyield.model.evidence import Gap

PATIENCE = Patience(connect_s=3.0, read_s=10.0, total_s=30.0, attempts=2)
"""For looking around: what does not answer soon is passed over."""

_PAGE = "500"
_FRESH_STARTS = 3
_Item = TypeVar("_Item")
_Read = TypeVar("_Read")

KUEUE = "kueue.x-k8s.io"
"""The group of Kueue's API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSeen:
    """A service of the cluster; `ports` are numbers by name ("" where it has none)."""

    namespace: str
    name: str
    ports: tuple[tuple[str, int], ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class KueueSeen:
    """Kueue's version of its API, and its cluster queues by name (None: they may not be listed)."""

    version: str
    cluster_queues: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSeen:
    """What a context may read of its cluster."""

    context: str
    services: tuple[ServiceSeen, ...]
    kueue: KueueSeen | None
    gaps: tuple[Gap, ...] = ()


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Port(msgspec.Struct):
    port: int = 0
    name: str = ""


class _Spec(msgspec.Struct):
    ports: list[_Port] | None = None
    selector: dict[str, str] | None = None


class _Service(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _ListMeta(msgspec.Struct, rename={"further": "continue"}):
    further: str = ""


class _Page(msgspec.Struct, Generic[_Item]):
    items: list[_Item] | None = None
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct, rename={"preferred": "preferredVersion"}):
    preferred: _Version = msgspec.field(default_factory=_Version)
    versions: list[_Version] = msgspec.field(default_factory=list)


_SERVICES = msgspec.json.Decoder(_Page[_Service])
_QUEUES = msgspec.json.Decoder(_Page[_Named])
_GROUP = msgspec.json.Decoder(_Group)
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_OBJECTS = msgspec.json.Decoder(_Page[dict[str, Any]])


class Forbidden(SourceError):
    """The API server does not let this account do something, by its rights or by a policy."""


class ApiServer:
    """Reads lists of one cluster; `context` is its name in messages, `namespace` the one that it is for."""

    def __init__(self, context: str, http: HttpClient, *, namespace: str = "default") -> None:
        self.context = context
        self.http = http
        self.namespace = namespace

    def services(self) -> list[ServiceSeen]:
        """All services of all namespaces.

        Raises:
            SourceError: Out of reach, not allowed (`Forbidden`), or the list changes faster than it can be read.
        """
        return [_service(one) for one in self._all("/api/v1/services", "services", _SERVICES)]

    def kueue(self) -> str | None:
        """The preferred version of Kueue's API; None where it is not installed.

        Raises:
            SourceError: Out of reach, or not allowed.
        """
        found = self._group(KUEUE)
        return None if found is None else found.preferred.version

    def cluster_queues(self, version: str) -> tuple[str, ...]:
        """Names of Kueue's cluster queues.

        Raises:
            SourceError: Out of reach, not allowed (`Forbidden`), or the list changes faster than it can be read.
        """
        queues = self._all(f"/apis/{KUEUE}/{version}/clusterqueues", f"clusterqueues.{KUEUE}", _QUEUES)
        return tuple(sorted(one.metadata.name for one in queues))

    def versions(self, group: str) -> tuple[str, ...] | None:
        """The versions that are served of a group of the API; None where the group is not there.

        Raises:
            SourceError: Out of reach, or not allowed.
        """
        found = self._group(group)
        return None if found is None else tuple(one.version for one in found.versions)

    def objects(self, path: str, what: str, *, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """All objects of a list as they are sent, read in pages; a kind that the cluster does not have has none.

        Raises:
            SourceError: Out of reach, not allowed (`Forbidden`), or the list changes faster than it can be read.
        """
        return self._all(path, what, _OBJECTS, query or {}, may_lack=True)

    def object(self, path: str, what: str) -> dict[str, Any] | None:
        """One object as it is sent; None where there is none.

        Raises:
            SourceError: Out of reach, or not allowed (`Forbidden`).
        """
        answer = self.http.get(path)
        return None if answer.status == 404 else self._read(answer, what, _OBJECT)

    def _group(self, group: str) -> _Group | None:
        answer = self.http.get(f"/apis/{group}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise self.http.refuse(answer)
        return self.http.json_of(answer, _GROUP)

    def _all(
        self,
        path: str,
        what: str,
        decoder: msgspec.json.Decoder[_Page[_Item]],
        query: Mapping[str, str] = MappingProxyType({}),
        *,
        may_lack: bool = False,
    ) -> list[_Item]:
        """The items of a list, begun anew where it goes out of date; `may_lack`: where there is no such list, none."""
        for _ in range(_FRESH_STARTS):
            found = self._pages(path, what, decoder, query, may_lack=may_lack)
            if found is not None:
                return found
        raise SourceError(
            f"Context {self.context}: the list of {what} changes faster than it can be read.",
            where=path,
            fix="Try again; the API server keeps the state of a list for five minutes.",
        )

    def _pages(
        self,
        path: str,
        what: str,
        decoder: msgspec.json.Decoder[_Page[_Item]],
        query: Mapping[str, str],
        *,
        may_lack: bool,
    ) -> list[_Item] | None:
        """The items of all pages; None where the list went out of date between two of them."""
        found: list[_Item] = []
        further = ""
        while True:
            answer = self.http.get(path, {**query, "limit": _PAGE, **({"continue": further} if further else {})})
            if answer.status == 404 and may_lack and not further:
                return found
            if answer.status == 410 and further:
                return None
            page = self._read(answer, what, decoder)
            found += page.items or ()
            further = page.metadata.further
            if not further:
                return found

    def _read(self, answer: Answer, what: str, decoder: msgspec.json.Decoder[_Read]) -> _Read:
        if answer.status in (401, 403):
            raise Forbidden(
                f"Context {self.context} may not list {what} ({answer.status}).",
                fix="Missing: get, list, watch. The read-only role is in deploy/."
                if answer.status == 403
                else "Its token is not accepted; log in again, or fetch the kubeconfig again.",
            )
        if answer.status != 200:
            raise self.http.refuse(answer)
        return self.http.json_of(answer, decoder)


def api_server(context: str | None, *, environment: Mapping[str, str], home: Path) -> ApiServer:
    """A connection to the API server of a context, else of the current one, else of the pod we run in.

    Raises:
        DeclarationError: No such context, or a way in that is not ours.
    """
    cluster = find_cluster(context, environment=environment, home=home)
    return ApiServer(cluster.name, HttpClient(endpoint_of(cluster), patience=PATIENCE), namespace=cluster.namespace)


def probe(server: ApiServer) -> ClusterSeen:
    """What the context may see; Kueue's queues that it may not list are a gap.

    Raises:
        SourceError: The API server is out of reach, or services may not be listed (`Forbidden`).
    """
    services = tuple(server.services())
    gaps: list[Gap] = []
    kueue = None
    try:
        version = server.kueue()
        if version is not None:
            kueue = KueueSeen(version=version, cluster_queues=None)
            kueue = KueueSeen(version=version, cluster_queues=server.cluster_queues(version))
    except SourceError as err:
        gaps.append(Gap(reason=f"{err.mistakes[0].what} {err.mistakes[0].fix}".strip(), where="Kueue"))
    return ClusterSeen(context=server.context, services=services, kueue=kueue, gaps=tuple(gaps))


def _service(one: _Service) -> ServiceSeen:
    meta, spec = one.metadata, one.spec
    return ServiceSeen(
        namespace=meta.namespace,
        name=meta.name,
        ports=tuple((port.name, port.port) for port in spec.ports or ()),
        labels=meta.labels or {},
        selector=spec.selector or {},
    )
