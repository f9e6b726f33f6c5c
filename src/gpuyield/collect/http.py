"""One HTTP client for every source: time-outs, retries, redirects, and errors a person can act on.

A request ends in an `Answer` of any status, or in a `SourceError`. What a status means is the caller's matter;
`refuse` and `json_of` turn a bad one into an error with the server's own words.
"""

from __future__ import annotations

import logging
import random
import ssl
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
import msgspec

from gpuyield.collect.endpoint import Endpoint, same_place, ssl_context
from gpuyield.errors import SourceError

log = logging.getLogger(__name__)

_CUT = 256
_FORM = "application/x-www-form-urlencoded"
_REDIRECTS = 5
_RETRIED = frozenset({429, 500, 502, 503, 504})
_UNKNOWN_NAME = ("Name or", "resol", "nodename", "getaddr")
_Decoded = TypeVar("_Decoded")


class AnswerTooLarge(SourceError):
    """More bytes than the limit: ask for less at once."""


class AnswerTooLate(SourceError):
    """No whole answer within the time: ask for less at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait and how often to try."""

    connect_s: float = 5.0
    read_s: float = 60.0
    total_s: float = 300.0
    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a server said."""

    status: int
    body: bytes
    content_type: str
    headers: Mapping[str, str]
    url: str


class HttpClient:
    """Talks to one endpoint; safe to use from several threads."""

    def __init__(
        self,
        where: Endpoint,
        *,
        patience: Patience | None = None,
        max_bytes: int = 64 * 2**20,
        seed: int = 0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.where = where
        self._patience = patience or Patience()
        self._max_bytes = max_bytes
        self._chance = random.Random(seed)
        self._pause = pause
        self._client = httpx2.Client(
            verify=ssl_context(where),
            timeout=httpx2.Timeout(self._patience.read_s, connect=self._patience.connect_s),
            follow_redirects=False,
            trust_env=False,
            proxy=_proxy_for(where),
            headers={
                "Accept": "application/json",
                "Accept-Encoding": "identity" if where.is_loopback else "gzip",
                "User-Agent": "gpuyield",
            },
        )

        self._closing = weakref.finalize(self, self._client.close)

    def close(self) -> None:
        """Give the connections back; it happens by itself when nobody holds the client any more."""
        self._closing()

    def get(self, path: str, query: Mapping[str, str] | list[tuple[str, str]] | None = None) -> Answer:
        """The answer to a GET of a path below the endpoint's URL."""
        encoded = f"?{urlencode(query)}" if query else ""
        return self._ask("GET", self.where.base_url + path + encoded, None)

    def post(self, path: str, form: Mapping[str, str] | list[tuple[str, str]]) -> Answer:
        """The answer to a POST of a form."""
        return self._ask("POST", self.where.base_url + path, _Content(_FORM, urlencode(form).encode()))

    def post_json(self, path: str, body: bytes) -> Answer:
        """The answer to a POST of JSON."""
        return self._ask("POST", self.where.base_url + path, _Content("application/json", body))

    def excerpt(self, answer: Answer) -> str:
        """The beginning of a body in one printable line, at most 256 characters, without our secrets."""
        line = _excerpt(answer)
        for _, value in self.where.secrets.headers:
            for secret in {value, value.rpartition(" ")[2]}:
                line = line.replace(secret, "...") if len(secret) > 3 else line
        return line

    def refuse(self, answer: Answer, *, asked: str = "") -> SourceError:
        """The error that tells what a server refused, in its own words."""
        where = asked or _short_url(answer.url)
        product = self.where.product
        said = self.excerpt(answer)
        reason = f"{product} at {self.where.base_url} answered {answer.status}"
        match answer.status:
            case 401 | 403:
                return SourceError(
                    f"{reason}: it does not let us in{f' ({said})' if said else ''}.",
                    where=where,
                    fix=self.where.access
                    or f"Give a token or header that may read: {self.where.declared_at}.token_file or headers_file.",
                )
            case 404:
                return SourceError(
                    f"{reason}: there is no {urlsplit(answer.url).path}.",
                    where=where,
                    fix=f"Check {self.where.declared_at}: its URL may need a path prefix, or points to something else.",
                )
            case 429:
                return SourceError(
                    f"{reason}: too many requests, after {self._patience.attempts} tries.",
                    where=where,
                    fix="Try again later, or raise the limit for this user.",
                )
            case status if 300 <= status < 400:
                return SourceError(
                    f"{reason}: it sends us elsewhere, most often to a login page.",
                    where=where,
                    fix=f"Write the address behind the login at {self.where.declared_at}, with a token_file.",
                )
            case _:
                return SourceError(
                    f"{reason}{f': {said}' if said else ' without a word'}.",
                    where=where,
                    fix="See the server's log." if answer.status >= 500 else "gpuyield doctor asks each source alone.",
                )

    def json_of(self, answer: Answer, decoder: msgspec.json.Decoder[_Decoded], *, asked: str = "") -> _Decoded:
        """The decoded body.

        Raises:
            SourceError: Empty, HTML, cut off, or not of the expected shape.
        """
        product, where = f"{self.where.product} at {self.where.base_url}", asked or _short_url(answer.url)
        body = answer.body
        if not body.strip():
            raise SourceError(
                f"{product} answered {answer.status} with an empty body.",
                where=where,
                fix="Something between us cuts it off, or the server failed while writing; see its log.",
            )
        if body.lstrip()[:1] == b"<":
            raise SourceError(
                f"{product} answered with a web page instead of JSON: {self.excerpt(answer)}",
                where=where,
                fix=f"A login page or a proxy answers there. Write the API's own address at {self.where.declared_at}.",
            )
        try:
            return decoder.decode(body)
        except msgspec.ValidationError as err:
            raise SourceError(
                f"{product} answered JSON of another shape: {str(err)[:_CUT]}.",
                where=where,
                fix=f"Is it really {self.where.product}? Check {self.where.declared_at}.",
            ) from err
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
            cut = "truncated" in str(err)
            raise SourceError(
                f"{product} answered JSON that is cut off after {len(body):,} bytes."
                if cut
                else f"{product} answered something that is not JSON ({answer.content_type or 'no type'}):"
                f" {self.excerpt(answer)}",
                where=where,
                fix="A proxy's size or time limit is a usual reason; raise it, or read the server directly."
                if cut
                else f"Check {self.where.declared_at}.",
            ) from err

    def _ask(self, method: str, url: str, body: _Content | None) -> Answer:
        patience = self._patience
        for attempt in range(1, patience.attempts + 1):
            last = attempt == patience.attempts
            try:
                answer = self._follow(method, url, body)
            except (AnswerTooLarge, AnswerTooLate):
                raise
            except _Unreachable as err:
                if last or not err.passing:
                    raise err.as_error(self.where) from err.__cause__
                self._wait(attempt, None)
                continue
            if answer.status not in _RETRIED or last or _is_final(answer):
                return answer
            self._wait(attempt, answer.headers.get("retry-after"))
        raise AssertionError("the last attempt returns or raises")

    def _follow(self, method: str, url: str, body: _Content | None) -> Answer:
        start = url
        for _ in range(_REDIRECTS + 1):
            answer = self._once(method, url, body, trusted=same_place(start, url))
            target = answer.headers.get("location", "")
            if answer.status not in (301, 302, 303, 307, 308) or not target:
                return answer
            following = _joined(url, target)
            if following is None:
                return answer
            if not self.where.secrets.empty and not same_place(start, following):
                # The secrets stay here, and without them the other host can only show its login.
                return answer
            url = following
        return answer

    def _once(self, method: str, url: str, body: _Content | None, *, trusted: bool) -> Answer:
        headers = dict(self.where.secrets.headers) if trusted else {}
        if body is not None:
            headers["Content-Type"] = body.kind
        give_up_at = time.monotonic() + self._patience.total_s
        chunks: list[bytes] = []
        size = 0
        try:
            with self._client.stream(method, url, content=body.data if body else None, headers=headers) as response:
                for chunk in response.iter_bytes(1 << 20):
                    chunks.append(chunk)
                    size += len(chunk)
                    if size > self._max_bytes:
                        raise AnswerTooLarge(
                            f"{self.where.product} at {self.where.base_url} sent more than {self._max_bytes:,} bytes.",
                            where=_short_url(url),
                            fix="Ask for a shorter window.",
                        )
                    if time.monotonic() > give_up_at:
                        raise self._late(url)
                return Answer(
                    status=response.status_code,
                    body=b"".join(chunks),
                    content_type=response.headers.get("content-type", ""),
                    headers={name.lower(): value for name, value in response.headers.items()},
                    url=url,
                )
        except (httpx2.ConnectTimeout, httpx2.PoolTimeout) as err:
            raise _Unreachable("no answer to the connection", passing=True) from err
        except httpx2.TimeoutException as err:
            raise self._late(url) from err
        except (httpx2.TransportError, httpx2.DecodingError, httpx2.InvalidURL, ssl.SSLError, ValueError) as err:
            raise _unreachable(err) from err

    def _late(self, url: str) -> AnswerTooLate:
        return AnswerTooLate(
            f"{self.where.product} at {self.where.base_url} gave no whole answer within {self._patience.read_s:g} s.",
            where=_short_url(url),
            fix="Is it overloaded? Try a shorter window, or again later.",
        )

    def _wait(self, attempt: int, retry_after: str | None) -> None:
        asked = _retry_after_s(retry_after)
        backed_off = self._patience.first_pause_s * 2 ** (attempt - 1) * (0.5 + self._chance.random())
        pause_s = min(max(asked, backed_off), self._patience.longest_pause_s)
        log.info("%s: trying again in %.1f s", self.where.product, pause_s)
        self._pause(pause_s)


@dataclass(frozen=True, slots=True)
class _Content:
    """What is posted."""

    kind: str
    data: bytes


class _Unreachable(Exception):
    """No answer came; `passing` when trying again may help."""

    def __init__(self, reason: str, *, passing: bool, fix: str = "") -> None:
        super().__init__(reason)
        self.reason, self.passing, self.fix = reason, passing, fix

    def as_error(self, where: Endpoint) -> SourceError:
        return SourceError(
            f"Cannot reach {where.product} at {where.base_url} ({self.reason}).",
            where=where.declared_at,
            fix=self.fix or where.hint or "Is it running, and is its address right?",
        )


def _joined(url: str, target: str) -> str | None:
    """Where a redirect leads; None where that is no address of a web server."""
    try:
        following = urljoin(url, target)
        split = urlsplit(following)
        usable = split.scheme in ("http", "https") and bool(split.hostname) and split.port != 0
    except ValueError:
        return None
    return following if usable else None


def _excerpt(answer: Answer) -> str:
    text = answer.body[: 8 * _CUT].decode("utf-8", "replace")
    try:
        fields: Any = msgspec.json.decode(answer.body)
        if isinstance(fields, dict):
            text = str(fields.get("error") or fields.get("message") or text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    line = " ".join("".join(one if one.isprintable() else " " for one in text).split())
    return line if len(line) <= _CUT else line[: _CUT - 3] + "..."


def _is_final(answer: Answer) -> bool:
    """Whether trying again is no use: the query itself took too long."""
    return answer.status == 503 and b'"errorType":"timeout"' in answer.body[:4096].replace(b" ", b"")


def _unreachable(err: Exception) -> _Unreachable:
    text = str(err)
    causes: list[BaseException] = []
    current: BaseException | None = err
    while current is not None and len(causes) < 8:
        causes.append(current)
        current = current.__cause__ or current.__context__
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in text:
            return _Unreachable(
                "its certificate is not trusted",
                passing=False,
                fix="Give the certificate of its authority as ca_file.",
            )
        if isinstance(cause, ConnectionRefusedError) or "refused" in text:
            return _Unreachable("connection refused", passing=True)
        if isinstance(cause, ssl.SSLError):
            return _Unreachable("it does not speak TLS there", passing=False, fix="Write http:// instead of https://?")
    if isinstance(err, httpx2.ConnectError) and any(
        word in text for word in ("Name or", "resol", "nodename", "getaddr")
    ):
        return _Unreachable("its name is not known", passing=True)
    if isinstance(err, httpx2.DecodingError):
        return _Unreachable("its answer is compressed wrongly", passing=False)
    if isinstance(err, (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError)):
        return _Unreachable("its address cannot be used", passing=False)
    if isinstance(err, (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)):
        return _Unreachable("the connection broke before the answer was whole", passing=True)
    return _Unreachable((text or type(err).__name__)[:_CUT], passing=True)


def _retry_after_s(header: str | None) -> float:
    if not header:
        return 0.0
    if header.isascii() and header.strip().isdigit():
        return float(header.strip())
    try:
        wait = parsedate_to_datetime(header) - datetime.now(UTC)
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, wait.total_seconds())


def _proxy_for(where: Endpoint) -> str | None:
    if where.is_loopback:
        return None
    split = urlsplit(where.base_url)
    if proxy_bypass(split.netloc):
        return None
    return getproxies().get(split.scheme)


def _short_url(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc}{split.path}"
