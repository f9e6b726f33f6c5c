"""Where requests go, and the bytes of a request. Secrets are in the headers and are never shown."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from gpuyield.errors import DeclarationError

_USER_AGENT = "gpuyield"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A service's base URL, taken apart. `headers` may hold keys: they are left out of its repr."""

    tls: bool
    host: str
    port: int
    base: str
    ca_pem: str = field(default="", repr=False)
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
        """What TLS trusts: the machine's authorities, or only those given; None for plain HTTP.

        Raises:
            DeclarationError: What is given is no certificate.
        """
        if not self.tls:
            return None
        try:
            return ssl.create_default_context(cadata=self.ca_pem or None)
        except (ssl.SSLError, ValueError) as err:
            raise DeclarationError(
                "the CA file is not a PEM certificate.",
                where="--ca-file",
                fix="Give it the certificate that signed the server's, beginning with -----BEGIN CERTIFICATE-----.",
            ) from err


def parse_target(url: str, *, headers: tuple[tuple[str, str], ...] = (), ca_pem: str = "") -> Target:
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
        ca_pem=ca_pem,
        headers=headers,
    )
