"""Where a source is and how it lets us in: its address, and secrets that come from files.

Rules it keeps: a secret is never part of a message or a log line, is never sent over plain HTTP except to this
machine, and never to another host than the one it was meant for.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit, urlunsplit

from gpuyield.errors import DeclarationError, Mistake

_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*:\s*(.*)")
_REFUSED_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Headers that let us in, and a certificate of ours; never printed."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    client_certificate: str = field(default="", repr=False)
    """PEM of certificate and key."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to protect."""
        return not self.headers and not self.client_certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A source's address; `product` is its name in messages, `declared_at` the place where a person wrote it."""

    product: str
    base_url: str
    declared_at: str
    secrets: Secrets = field(default=Secrets(), repr=False)
    ca_pem: str = field(default="", repr=False)
    hint: str = ""
    """What to try when it is out of reach."""
    access: str = ""
    """What to try when it does not let us in."""

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return is_loopback(urlsplit(self.base_url).hostname or "")


def endpoint(
    *,
    product: str,
    url: str,
    declared_at: str,
    token_file: Path | None = None,
    ca_file: Path | None = None,
    headers_file: Path | None = None,
    secrets: Secrets | None = None,
    hint: str = "",
) -> Endpoint:
    """The endpoint of a URL, with what its files say on top of `secrets`.

    Raises:
        DeclarationError: No usable URL, a secret inside it, an unreadable file, or a secret that would travel
            over plain HTTP. All mistakes at once.
    """
    mistakes: list[Mistake] = []
    split = _checked_url(url, declared_at, mistakes)
    headers: list[tuple[str, str]] = []
    if token_file is not None:
        token = _read(token_file, f"{declared_at}.token_file", mistakes).strip()
        if token and not token.isprintable():
            mistakes.append(
                Mistake(
                    what=f"{token_file} holds more than one line, so it is no bearer token.",
                    where=f"{declared_at}.token_file",
                    fix="Keep the token alone in the file.",
                )
            )
        elif token:
            headers.append(("Authorization", f"Bearer {token}"))
    if headers_file is not None:
        headers.extend(_headers(headers_file, f"{declared_at}.headers_file", mistakes))
    ca_pem = "" if ca_file is None else _read(ca_file, f"{declared_at}.ca_file", mistakes)
    given = secrets or Secrets()
    named = {name.lower() for name, _ in headers}
    headers.extend(one for one in given.headers if one[0].lower() not in named)
    secrets = Secrets(headers=tuple(headers), client_certificate=given.client_certificate)
    if split is not None and not secrets.empty:
        _refuse_plain(split, declared_at, product, mistakes)
    if mistakes or split is None:
        raise DeclarationError.of(mistakes)
    return Endpoint(
        product=product,
        base_url=urlunsplit(split).rstrip("/"),
        declared_at=declared_at,
        secrets=secrets,
        ca_pem=ca_pem,
        hint=hint,
    )


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine."""
    if host.lower().rstrip(".") == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_place(one: str, other: str) -> bool:
    """Whether secrets meant for one URL may go to the other: same host and port, and never from TLS to plain.

    A step from port 80 to TLS on port 443 of the same host counts as the same place.
    """
    first, second = urlsplit(one), urlsplit(other)
    if (first.hostname or "") != (second.hostname or ""):
        return False
    if second.scheme == "http" and not is_loopback(second.hostname or ""):
        return False
    ports = (_port(first), _port(second))
    return ports[0] == ports[1] or ports == (80, 443)


def ssl_context(where: Endpoint) -> ssl.SSLContext:
    """How to trust the source: the machine's certificates, or only those of its CA file.

    Raises:
        DeclarationError: The CA file or our certificate is not PEM.
    """
    try:
        context = ssl.create_default_context(cadata=where.ca_pem or None)
    except (ssl.SSLError, ValueError) as err:
        raise DeclarationError(
            "the CA file is not a PEM certificate.",
            where=f"{where.declared_at}.ca_file",
            fix="Give it the certificate that signed the server's, beginning with -----BEGIN CERTIFICATE-----.",
        ) from err
    if where.secrets.client_certificate:
        _load_certificate(context, where)
    return context


def _load_certificate(context: ssl.SSLContext, where: Endpoint) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        pem = Path(folder) / "client.pem"
        pem.touch(mode=0o600)
        pem.write_text(where.secrets.client_certificate, encoding="ascii")
        try:
            context.load_cert_chain(pem)
        except (ssl.SSLError, OSError) as err:
            raise DeclarationError(
                "the client certificate and its key do not fit.",
                where=where.declared_at,
                fix="Renew the kubeconfig of this context.",
            ) from err


def _checked_url(url: str, declared_at: str, mistakes: list[Mistake]) -> SplitResult | None:
    try:
        split = urlsplit(url.strip())
        good = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:
        split, good = None, False
    if split is None or not good:
        mistakes.append(
            Mistake(
                what="this is not a URL of a server." if "@" in url else f'"{url[:256]}" is not a URL of a server.',
                where=declared_at,
                fix="Write http://127.0.0.1:9090, or https://HOST/PATH.",
            )
        )
        return None
    if "@" in split.netloc:
        mistakes.append(
            Mistake(
                what=f"the URL of {split.hostname} holds a user or a password.",
                where=declared_at,
                fix="Take it out, and put the line `Authorization: Basic ...` into a file named as headers_file.",
            )
        )
        return None
    if split.query or split.fragment:
        mistakes.append(
            Mistake(
                what=f"the URL of {split.hostname} goes on after its path.",
                where=declared_at,
                fix="Write only scheme, host, port and path; a token belongs into token_file.",
            )
        )
        return None
    return split


def _refuse_plain(split: SplitResult, declared_at: str, product: str, mistakes: list[Mistake]) -> None:
    if split.scheme == "http" and not is_loopback(split.hostname or ""):
        mistakes.append(
            Mistake(
                what=f"credentials for {product} would go to {split.hostname} over plain HTTP, readable on the way.",
                where=declared_at,
                fix="Write https://, or reach it through a port-forward on 127.0.0.1.",
            )
        )


def _headers(path: Path, where: str, mistakes: list[Mistake]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for number, line in enumerate(_read(path, where, mistakes).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        header = _HEADER.fullmatch(line.strip())
        if header is None or not header[2].isprintable() or not line.isascii():
            mistakes.append(
                Mistake(what="this line is not a header.", where=f"{path}:{number}", fix="Write Name: value.")
            )
        elif header[1].lower() in _REFUSED_HEADERS:
            mistakes.append(
                Mistake(what=f"{header[1]} is set by the connection.", where=f"{path}:{number}", fix="Take it out.")
            )
        else:
            found.append((header[1], header[2]))
    return found


def _read(path: Path, where: str, mistakes: list[Mistake]) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as err:
        mistakes.append(
            Mistake(
                what=f"cannot read {path} ({err.strerror or type(err).__name__}).",
                where=where,
                fix="Name a file that this user may read.",
            )
        )
    except UnicodeDecodeError:
        mistakes.append(Mistake(what=f"{path} is not text.", where=where, fix="Name a text file."))
    return ""


def _port(split: SplitResult) -> int:
    return split.port or (443 if split.scheme == "https" else 80)
