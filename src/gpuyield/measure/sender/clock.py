"""How far the wall clock may be off, as the system that keeps it in step believes."""

from __future__ import annotations

import ctypes
import sys

_UNSYNCHRONISED = 0x40
_ERROR = 5


class _Timex(ctypes.Structure):
    """The beginning of struct timex; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("room", ctypes.c_long * 40),
    )


def clock_error_s() -> float | None:
    """The largest error of the wall clock; None where nothing keeps it in step, or the system does not tell.

    Source: adjtimex(2), `maxerror`, in microseconds.
    """
    if sys.platform != "linux":
        return None
    told = _Timex()
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.byref(told))
    except (OSError, AttributeError):
        return None
    if state in (-1, _ERROR) or told.status & _UNSYNCHRONISED:
        return None
    return float(told.maxerror) / 1e6
