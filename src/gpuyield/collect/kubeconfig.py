"""How to reach a cluster's API server: a small reader of kubeconfig files and of a pod's own account.

It takes a server, its authority, and a token or client certificate. Programs that a kubeconfig wants to run
(`exec`, auth providers) are never run.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any  # a YAML document of no fixed shape

import yaml

from gpuyield.collect.endpoint import Endpoint, Secrets, endpoint
from gpuyield.errors import DeclarationError

ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DECLARED_AT = "sources.kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """An API server and how it lets us in; `name` is its context, for messages.

    `namespace` is the one that the context, or the pod's own account, is for.
    """

    name: str
    server: str
    namespace: str = "default"
    ca_pem: str = field(default="", repr=False)
    secrets: Secrets = field(default=Secrets(), repr=False)


def find_cluster(
    context: str | None,
    *,
    environment: Mapping[str, str],
    home: Path,
    account_folder: Path = ACCOUNT_FOLDER,
) -> Cluster:
    """The cluster of this context; without one, the pod's own inside a pod, else the current context.

    Raises:
        DeclarationError: No such context, an unreadable file, or a way in that needs a program to run.
    """
    listed = environment.get("KUBECONFIG", "")
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if context is None and not listed and host and (account_folder / "token").is_file():
        return _own_account(host, environment.get("KUBERNETES_SERVICE_PORT", "443"), account_folder)
    files = [Path(one) for one in listed.split(":") if one] or [home / ".kube" / "config"]
    present = [one for one in files if one.is_file()]
    if not present:
        raise DeclarationError(
            f"no kubeconfig at {', '.join(map(str, files))}.",
            where=_DECLARED_AT,
            fix="Set KUBECONFIG, or give Prometheus by its url.",
        )
    return _from_files(present, context)


def endpoint_of(cluster: Cluster) -> Endpoint:
    """Where requests to its API server go."""
    where = endpoint(
        product="the API server",
        url=cluster.server,
        declared_at=f"context {cluster.name}",
        secrets=cluster.secrets,
        hint=f"Does kubectl --context {cluster.name} version answer?",
    )
    return replace(where, ca_pem=cluster.ca_pem)


def _own_account(host: str, port: str, folder: Path) -> Cluster:
    address = f"[{host}]" if ":" in host else host
    authority = folder / "ca.crt"
    return Cluster(
        name="in-cluster",
        namespace=_own_namespace(folder),
        server=f"https://{address}:{port}",
        ca_pem=_text(authority, "the pod's own account") if authority.is_file() else "",
        secrets=_bearer(_text(folder / "token", "the pod's own account")),
    )


def _own_namespace(folder: Path) -> str:
    file = folder / "namespace"
    return _text(file, "the pod's own account").strip() if file.is_file() else "default"


def _from_files(files: Sequence[Path], context: str | None) -> Cluster:
    documents = [(one, _document(one)) for one in files]
    wanted = context or next((str(found) for _, one in documents if (found := one.get("current-context"))), "")
    if not wanted:
        raise DeclarationError(
            f"{files[0]} has no current context.",
            where=_DECLARED_AT,
            fix=f"Name one: kubernetes: {{context: ...}}{_contexts(documents)}.",
        )
    found = _named(documents, "contexts", "context", wanted)
    if found is None:
        raise DeclarationError(
            f'no context "{wanted}" in {", ".join(map(str, files))}.',
            where=f"{_DECLARED_AT}.context",
            fix=f"Name one that is there{_contexts(documents)}.",
        )
    _, its = found
    cluster = _named(documents, "clusters", "cluster", str(its.get("cluster", "")))
    user = _named(documents, "users", "user", str(its.get("user", "")))
    if cluster is None:
        raise DeclarationError(
            f'context "{wanted}" names a cluster that is not there.', where=str(found[0]), fix="Mend the kubeconfig."
        )
    file, facts = cluster
    _refuse(facts, "insecure-skip-tls-verify", file, wanted, "gives up checking the server's certificate")
    _refuse(facts, "proxy-url", file, wanted, "asks for a proxy")
    return Cluster(
        name=wanted,
        server=str(facts.get("server", "")).rstrip("/"),
        namespace=str(its.get("namespace") or "default"),
        ca_pem=_pem(facts, "certificate-authority", file),
        secrets=Secrets() if user is None else _user(user[1], user[0], wanted),
    )


def _user(facts: Mapping[str, Any], file: Path, context: str) -> Secrets:
    for key in ("exec", "auth-provider"):
        _refuse(facts, key, file, context, f"runs a program to log in ({_program(facts, key)})")
    token = str(facts.get("token") or "")
    if not token and facts.get("tokenFile"):
        token = _text(file.parent / str(facts["tokenFile"]), str(file))
    if token:
        return _bearer(token)
    if facts.get("username") and facts.get("password"):
        pair = base64.b64encode(f"{facts['username']}:{facts['password']}".encode()).decode()
        return Secrets(headers=(("Authorization", f"Basic {pair}"),))
    certificate, key_pem = _pem(facts, "client-certificate", file), _pem(facts, "client-key", file)
    return Secrets(client_certificate=f"{certificate.rstrip()}\n{key_pem}" if certificate and key_pem else "")


def _refuse(facts: Mapping[str, Any], key: str, file: Path, context: str, why: str) -> None:
    if facts.get(key):
        raise DeclarationError(
            f'context "{context}" {why}, which gpuyield does not do.',
            where=f"{file}: {key}",
            fix="Make a service account with the read-only role of deploy/ and use its token, or give Prometheus by"
            " its url through kubectl port-forward.",
        )


def _program(facts: Mapping[str, Any], key: str) -> str:
    said = facts.get(key)
    word = said.get("command") or said.get("name") if isinstance(said, dict) else ""
    return Path(str(word or key)).name[:64]


def _pem(facts: Mapping[str, Any], key: str, file: Path) -> str:
    packed = facts.get(f"{key}-data")
    if packed:
        try:
            return base64.b64decode(str(packed), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as err:
            raise DeclarationError(
                f"{key}-data is not base64 of a certificate.", where=str(file), fix="Fetch the kubeconfig again."
            ) from err
    path = facts.get(key)
    return _text(file.parent / str(path), str(file)) if path else ""


def _bearer(token: str) -> Secrets:
    return Secrets(headers=(("Authorization", f"Bearer {token.strip()}"),))


def _named(
    documents: Sequence[tuple[Path, Mapping[str, Any]]], section: str, key: str, name: str
) -> tuple[Path, Mapping[str, Any]] | None:
    """The first entry of this name; of several files the first that has it counts, as in kubectl."""
    for file, document in documents:
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key), dict):
                return file, entry[key]
    return None


def _contexts(documents: Sequence[tuple[Path, Mapping[str, Any]]]) -> str:
    names = [
        str(entry["name"])
        for _, document in documents
        for entry in document.get("contexts") or ()
        if isinstance(entry, dict) and "name" in entry
    ]
    return f" ({', '.join(names[:8])})" if names else ""


def _document(file: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(_text(file, _DECLARED_AT))
    except (yaml.YAMLError, RecursionError) as err:
        mark = getattr(err, "problem_mark", None)
        place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else str(file)
        raise DeclarationError("this kubeconfig is not YAML.", where=place, fix="Fetch the kubeconfig again.") from err
    if not isinstance(document, dict):
        raise DeclarationError("this is no kubeconfig.", where=str(file), fix="Fetch the kubeconfig again.")
    return document


def _text(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        reason = err.strerror if isinstance(err, OSError) else "not text"
        raise DeclarationError(f"cannot read {path} ({reason}).", where=where, fix="May this user read it?") from err
