"""Pages of metrics, read at a gentle beat beside a probe by threads of the process that sends no load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar

from gpuyield.collect.http import HttpClient, Patience
from gpuyield.errors import SourceError
from gpuyield.model.measure import SECOND_NS

WATCH_PATIENCE = Patience(connect_s=2, read_s=2, total_s=3, attempts=1)
_MOST_FAILURES = 3
_LET_GO_S = 0.2
_Reading = TypeVar("_Reading")


@dataclass(slots=True)
class Pages:
    """The pages of one place: when each was read, on the monotonic clock, and what it said. `why`: the last failure."""

    place: str
    bodies: list[tuple[int, bytes]] = field(default_factory=list)
    why: str = ""

    def parsed(self, started_ns: int, read: Callable[[str, int], _Reading | None]) -> list[_Reading]:
        """What a reader makes of them, each at its time since `started_ns`; those it understands."""
        found = (read(body.decode("utf-8", "replace"), at_ns - started_ns) for at_ns, body in self.bodies)
        return [one for one in found if one is not None]


class Reader:
    """Reads one page again and again until it is left; a context manager. Three failures in a row end it."""

    def __init__(self, client: HttpClient, path: str, place: str, beat_s: float) -> None:
        self.pages = Pages(place)
        self._client = client
        self._path = path
        self._beat_s = beat_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True, name=f"gpuyield-{place}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, err: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        # Whoever stops everything does not wait for a page.
        self._thread.join(timeout=_LET_GO_S if err is not None else WATCH_PATIENCE.total_s)

    def _read(self) -> None:
        failures = 0
        while failures < _MOST_FAILURES and not self._over.is_set():
            asked_ns = time.monotonic_ns()
            failures = 0 if self._one(asked_ns) else failures + 1
            self._over.wait(max(0.1, self._beat_s - (time.monotonic_ns() - asked_ns) / SECOND_NS))

    def _one(self, asked_ns: int) -> bool:
        try:
            answer = self._client.get(self._path)
        except SourceError as err:
            self.pages.why = f"{self.pages.place} did not answer during the probe: {err.mistakes[0].what}"
            return False
        if answer.status != 200:
            self.pages.why = f"{self.pages.place} answered {answer.status} during the probe"
            return False
        self.pages.bodies.append(((asked_ns + time.monotonic_ns()) // 2, answer.body))
        return True
