"""Where the shards of a round meet: a folder that all of them see, for who is there, and for who stopped."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from gpuyield.errors import SourceError
from gpuyield.ledger.whole import write_whole
from gpuyield.steps.measure_round import ROUND_FILE, RoundFile, round_bytes
from gpuyield.steps.setting import wall_clock_ms

_STOP = "stop"
_LOOK_S = 0.02


class Meeting:
    """The folder of a round, as one of its shards sees it: who else is there, and whether anybody stopped."""

    def __init__(self, folder: Path, index: int, shards: int) -> None:
        self._folder = folder
        self._index = index
        self._shards = shards
        self.beat_ms = 0
        self.seen_ms: dict[int, int] = {}

    def come(self, file: RoundFile) -> None:
        """Say that this shard is here.

        Raises:
            SourceError: It is here already, or the folder cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._here(self._index).open("x"):
                pass
            if self._index == 0:
                write_whole(self._folder / ROUND_FILE, round_bytes(file))
        except FileExistsError as err:
            raise SourceError(
                f"shard {self._index} ran already: it sends nothing twice.",
                where=str(self._folder),
                fix="Run the probe again: gpuyield measure ... --in-cluster.",
            ) from err
        except OSError as err:
            raise SourceError(
                f"cannot be written: {err.strerror or err}.", where=str(self._folder), fix="See --claim."
            ) from err

    def wait(self, *, until_ms: int) -> None:
        """Wait until all are here and have seen each other.

        Raises:
            SourceError: Somebody is not here in time; nothing was sent.
        """
        missing = self._until(self._here, until_ms)
        if not missing:
            self.beat_ms = wall_clock_ms()
            with self._beat(self._index).open("x"):
                pass
            missing = self._until(self._beat, until_ms)
        if missing:
            named = ", ".join(map(str, missing[:20]))
            raise SourceError(
                f"shard {named} was not ready at the start, so that this one sends nothing.",
                where=str(self._folder),
                fix="Give the pods more time with --start-in, and see why that one did not start.",
            )

    @property
    def is_stopped(self) -> bool:
        """Whether any shard stopped."""
        return (self._folder / _STOP).exists()

    def stop(self) -> None:
        """Tell the others to stop: without this shard the probe is void."""
        with suppress(OSError):
            (self._folder / _STOP).touch()

    def _until(self, file: Callable[[int], Path], until_ms: int) -> list[int]:
        waiting = [one for one in range(self._shards) if one != self._index]
        while waiting and wall_clock_ms() < until_ms:
            with suppress(OSError):
                names = set(os.listdir(self._folder))
                now_ms = wall_clock_ms()
                self.seen_ms.update(
                    {
                        one: now_ms
                        for one in range(self._shards)
                        if self._beat(one).name in names and one not in self.seen_ms
                    }
                )
                waiting = [one for one in waiting if file(one).name not in names]
            if waiting:
                time.sleep(_LOOK_S)
        return waiting

    def _here(self, index: int) -> Path:
        return self._folder / f"shard-{index:05}.here"

    def _beat(self, index: int) -> Path:
        return self._folder / f"shard-{index:05}.beat"
