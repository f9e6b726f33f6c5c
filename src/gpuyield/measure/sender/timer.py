"""A timer for absolute instants of the monotonic clock, as exact as the system allows.

An event loop's own timers round to milliseconds; a timer file descriptor does not. Where there is none, the loop's
timer is used.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_ABSOLUTE = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timer:
    """Calls back on a loop at the instant it was last armed for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        self._handle: asyncio.TimerHandle | None = None
        self._descriptor = _new_descriptor()
        if self._descriptor is not None:
            loop.add_reader(self._descriptor, self._ring)

    def arm(self, at_ns: int) -> None:
        """Ring at an instant of `time.monotonic_ns`, at once when it is past."""
        if self._descriptor is not None:
            _set(self._descriptor, max(at_ns, 1))
            return
        self.disarm()
        delay_s = max(0, at_ns - time.monotonic_ns()) / 1e9
        self._handle = self._loop.call_later(delay_s, self._due)

    def disarm(self) -> None:
        """Do not ring."""
        if self._descriptor is not None:
            _set(self._descriptor, 0)
        elif self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        """Give the descriptor back."""
        self.disarm()
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _ring(self) -> None:
        if self._descriptor is None:
            return
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return
        self._due()


if sys.version_info >= (3, 13) and sys.platform == "linux":

    def _new_descriptor() -> int | None:
        return os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)

    def _set(descriptor: int, at_ns: int) -> None:
        os.timerfd_settime_ns(descriptor, flags=os.TFD_TIMER_ABSTIME, initial=at_ns)

elif sys.platform == "linux":
    _LIBC = ctypes.CDLL(None, use_errno=True)

    def _new_descriptor() -> int | None:
        try:
            descriptor = _LIBC.timerfd_create(ctypes.c_int(time.CLOCK_MONOTONIC), ctypes.c_int(_NONBLOCK_CLOEXEC))
        except AttributeError:
            return None
        return descriptor if descriptor >= 0 else None

    def _set(descriptor: int, at_ns: int) -> None:
        spec = _Itimerspec()
        spec.value.seconds, spec.value.nanoseconds = divmod(at_ns, 1_000_000_000)
        _LIBC.timerfd_settime(ctypes.c_int(descriptor), ctypes.c_int(_ABSOLUTE), ctypes.byref(spec), None)

else:

    def _new_descriptor() -> int | None:
        return None

    def _set(descriptor: int, at_ns: int) -> None:
        raise AssertionError("there is no descriptor")
