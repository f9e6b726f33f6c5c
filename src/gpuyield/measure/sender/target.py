"""Where requests go, and the bytes of a request. Secrets are in the headers and are never shown."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from gpuyield.errors import DeclarationError, SourceError

_USER_AGENT = "gpuyield"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A service's base URL, taken apart. `headers` may hold keys: they are left out of its repr."""

    tls: bool
    host: str
    port: int
    base: str
    ca_file: Path | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def url(self) -> str:
        """The base URL, without secrets."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{name}:{self.port}{self.base}"

    def request(self, path: str, body: bytes | None) -> bytes:
        """The bytes of a request: a POST of a JSON body, or a GET without one."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        default = 443 if self.tls else 80
        lines = [
            f"{'GET' if body is None else 'POST'} {self.base}{path or ('' if self.base else '/')} HTTP/1.1",
            f"Host: {name}" + (f":{self.port}" if self.port != default else ""),
            f"User-Agent: {_USER_AGENT}",
            "Accept: */*",
            "Accept-Encoding: identity",
        ]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [f"{key}: {value}" for key, value in self.headers]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")

    def tls_context(self) -> ssl.SSLContext | None:
        """What TLS trusts; None for plain HTTP.

        Raises:
            SourceError: The file of certificates cannot be read.
        """
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cafile=None if self.ca_file is None else str(self.ca_file))
        except OSError as err:
            raise SourceError(
                f"the certificates cannot be read: {err.strerror or err}.",
                where=str(self.ca_file),
                fix="Give a PEM file with the certificate of its authority.",
            ) from err


def parse_target(url: str, *, headers: tuple[tuple[str, str], ...] = (), ca_file: Path | None = None) -> Target:
    """The target of a URL.

    Raises:
        DeclarationError: It is no address of a web server, or a header cannot be sent.
    """
    try:
        split = urlsplit(url.strip())
        port = split.port
    except ValueError:
        split, port = urlsplit(""), None
    if split.scheme not in ("http", "https") or not split.hostname or port == 0 or not split.path.isascii():
        raise DeclarationError(
            "this is no URL of a web server.", where="--url", fix='Write "http://HOST:PORT/v1" or "https://HOST/v1".'
        )
    if split.username or split.password:
        raise DeclarationError(
            "the URL holds a password.", where="--url", fix="Give keys in a file or in the environment only."
        )
    if any(not f"{key}{value}".isprintable() or not f"{key}{value}".isascii() for key, value in headers):
        raise DeclarationError(
            "a header holds what HTTP cannot send.", where="the file of headers", fix="Write printable ASCII."
        )
    tls = split.scheme == "https"
    return Target(
        tls=tls,
        host=split.hostname,
        port=port or (443 if tls else 80),
        base=split.path.rstrip("/"),
        ca_file=ca_file,
        headers=headers,
    )
