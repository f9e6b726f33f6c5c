"""Probes as JSON lines, one as soon as it ended: a search that was killed goes on behind the last whole line."""

from __future__ import annotations

import msgspec

from gpuyield.errors import SourceError
from gpuyield.model.measure import Probe


def probe_line(probe: Probe) -> bytes:
    """A probe as one line, its end included."""
    return msgspec.json.encode(probe) + b"\n"


def probes_of(data: bytes, *, where: str = "") -> list[Probe]:
    """The probes of such lines; a last line without its end was cut off by a crash and is left out.

    Raises:
        SourceError: A whole line is no probe.
    """
    found: list[Probe] = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            found.append(msgspec.json.decode(line, type=Probe))
        except msgspec.MsgspecError as err:
            raise SourceError(
                f"line {number} is no probe ({err}).",
                where=where,
                fix="Remove the file to measure from the start.",
            ) from err
    return found
