"""Write time series as files that real servers take in: OpenMetrics text, and VictoriaMetrics' JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import numpy as np

from gpuyield.demo.exposition import Series, Times, Values


def write_openmetrics(series: Iterable[Series], out: BinaryIO) -> int:
    """Write the series, which come sorted by name, for `promtool tsdb create-blocks-from`; returns the samples."""
    count = 0
    for one in series:
        head = f"{one.labels['__name__']}{{{_label_text(one)}}} "
        lines = zip(number_texts(one.values), second_texts(one.times_ms), strict=True)
        out.write("".join([f"{head}{value} {at}\n" for value, at in lines]).encode())
        count += len(one.times_ms)
    out.write(b"# EOF\n")
    return count


def victoria_lines(series: Iterable[Series]) -> Iterator[bytes]:
    """One JSON line per series, for `/api/v1/import`."""
    for one in series:
        line = {"metric": dict(one.labels), "values": one.values.tolist(), "timestamps": one.times_ms.tolist()}
        yield json.dumps(line, separators=(",", ":")).encode() + b"\n"


def number_texts(values: Values) -> list[str]:
    """Each value as Prometheus prints it; there are few distinct ones."""
    distinct, which = np.unique(values, return_inverse=True)
    texts = [_number(float(value)) for value in distinct]
    return [texts[at] for at in which.tolist()]


def second_texts(times_ms: Times) -> list[str]:
    """Each time in seconds, with milliseconds only where there are any."""
    whole, rest = np.divmod(times_ms, 1000)
    if not rest.any():
        return [str(at) for at in whole.tolist()]
    return [f"{at}.{ms:03d}" if ms else str(at) for at, ms in zip(whole.tolist(), rest.tolist(), strict=True)]


def _number(value: float) -> str:
    if np.isnan(value):
        return "NaN"
    if np.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)


def _label_text(one: Series) -> str:
    pairs = (f'{key}="{_escaped(value)}"' for key, value in sorted(one.labels.items()) if key != "__name__")
    return ",".join(pairs)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
