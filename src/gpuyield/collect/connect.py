"""From what a declaration says of a source to a connection: by URL, or through the API server's service proxy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuyield.collect import endpoint as endpoints
from gpuyield.collect.endpoint import Endpoint
from gpuyield.collect.http import HttpClient, Patience
from gpuyield.collect.kubeconfig import find_cluster
from gpuyield.collect.opencost import OpenCost
from gpuyield.collect.prometheus import Prometheus
from gpuyield.errors import DeclarationError
from gpuyield.model import declaration

_SERVICE = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>(?:https:)?[a-z0-9-]+):(?P<port>[a-z0-9-]+)(?P<path>/.*)?")
_PROMETHEUS_HINT = (
    "Is a port-forward running? To read it through the API server, write sources.prometheus:"
    " {service: monitoring/prometheus-operated:9090}."
)
_OPENCOST_PATIENCE = Patience(read_s=300, total_s=600, attempts=3)
"""A slow store makes OpenCost take minutes, and it has no time-out of its own."""


def prometheus(
    declared: declaration.Endpoint,
    *,
    context: str | None,
    folder: Path,
    environment: Mapping[str, str],
    home: Path,
    patience: Patience | None = None,
) -> Prometheus:
    """A connection to the declared metrics store. `folder` is where relative paths of the declaration start.

    Raises:
        DeclarationError: What is declared cannot be used.
    """
    where = resolve(
        declared,
        product="Prometheus",
        declared_at="sources.prometheus",
        hint=_PROMETHEUS_HINT,
        context=context,
        folder=folder,
        environment=environment,
        home=home,
    )
    return Prometheus(HttpClient(where, patience=patience))


def opencost(
    declared: declaration.Endpoint,
    *,
    context: str | None,
    folder: Path,
    environment: Mapping[str, str],
    home: Path,
    patience: Patience | None = None,
) -> OpenCost:
    """A connection to the declared OpenCost.

    Raises:
        DeclarationError: What is declared cannot be used.
    """
    where = resolve(
        declared,
        product="OpenCost",
        declared_at="sources.opencost",
        hint="Is a port-forward running? Through the API server: sources.opencost: {service: opencost/opencost:9003}.",
        context=context,
        folder=folder,
        environment=environment,
        home=home,
    )
    return OpenCost(HttpClient(where, patience=patience or _OPENCOST_PATIENCE))


def resolve(
    declared: declaration.Endpoint,
    *,
    product: str,
    declared_at: str,
    hint: str,
    context: str | None,
    folder: Path,
    environment: Mapping[str, str],
    home: Path,
) -> Endpoint:
    """Address and secrets of a declared source."""
    token_file, ca_file, headers_file = (
        None if name is None else folder / name
        for name in (declared.token_file, declared.ca_file, declared.headers_file)
    )
    if declared.url is not None:
        return endpoints.endpoint(
            product=product,
            url=declared.url,
            declared_at=declared_at,
            token_file=token_file,
            ca_file=ca_file,
            headers_file=headers_file,
            hint=hint,
        )
    service = _SERVICE.fullmatch(declared.service or "")
    if service is None:
        raise DeclarationError(
            f'"{declared.service}" is not a service.',
            where=f"{declared_at}.service",
            fix="Write namespace/name:port, such as monitoring/prometheus-operated:9090, or a url: http://127.0.0.1:9090.",
        )
    cluster = find_cluster(context, environment=environment, home=home)
    namespace, path = service["namespace"], (service["path"] or "").rstrip("/")
    proxy = f"/api/v1/namespaces/{namespace}/services/{service['name']}:{service['port']}/proxy{path}"
    own = endpoints.endpoint(
        product=product,
        url=cluster.server + proxy,
        declared_at=declared_at,
        token_file=token_file,
        ca_file=ca_file,
        headers_file=headers_file,
        secrets=cluster.secrets,
        hint=f"That is the API server of context {cluster.name}. Does kubectl --context {cluster.name} version answer?",
    )
    return replace(
        own,
        ca_pem=own.ca_pem or cluster.ca_pem,
        access=f"Context {cluster.name} needs get on services/proxy in namespace {namespace}."
        " The read-only role is in deploy/.",
    )
