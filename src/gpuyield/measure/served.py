"""What a server says of itself: engine, version, model, settings, and when it started. No I/O here.

It is read before and after each probe: what was held fixed is part of a measurement, and a change makes a probe
invalid, and all after it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any  # JSON values

from gpuyield.measure.engines import ENGINES
from gpuyield.model.exposition import samples_of

_INFO = re.compile(r"_info$")
_NO_SETTINGS = ("python_", "process_", "target_", "vllm:lora_requests_")
"""Info metrics of something else, or of what runs just now."""
_LONGEST = 200
_MOST_SETTINGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server's own words; None and empty where it says nothing. `settings` are labels of its info metrics."""

    engine: str | None = None
    version: str | None = None
    models: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    started: str | None = None
    """When its process started, as it says; for comparing only."""

    @property
    def digest(self) -> str:
        """`sha256:` of what must not change."""
        fixed = [self.engine, self.version, sorted(self.models), sorted(self.settings.items())]
        return f"sha256:{hashlib.sha256(json.dumps(fixed, separators=(',', ':')).encode()).hexdigest()}"


def read_served(*, models: bytes | None, version: bytes | None, metrics: str | None) -> Served:
    """What `/v1/models`, `/version` and `/metrics` say, each None when it did not answer."""
    samples = samples_of(metrics or "")
    names = {name for name, _, _ in samples}
    engine = next((engine for prefix, engine in ENGINES.items() if any(one.startswith(prefix) for one in names)), None)
    settings: dict[str, str] = {}
    for name, labels, _ in samples:
        if _INFO.search(name) and not name.startswith(_NO_SETTINGS):
            settings.update({f"{name}.{key}": value[:_LONGEST] for key, value in labels.items()})
    started = next((value for name, _, value in samples if name == "process_start_time_seconds"), None)
    return Served(
        engine=engine,
        version=_version(version),
        models=_models(models),
        settings=dict(sorted(settings.items())[:_MOST_SETTINGS]),
        started=started,
    )


def difference(before: Served, after: Served, *, when: str = "during the probe") -> str:
    """What changed, in a sentence; empty when nothing did. What is no longer said counts as a change."""
    if before.started != after.started and before.started is not None:
        return f"The server was restarted {when}." if after.started else "The server no longer answers."
    changes = [
        f"{name} was {_shown(one)} and is {_shown(other)}"
        for name, one, other in (
            ("the engine", before.engine, after.engine),
            ("its version", before.version, after.version),
            ("the models", ", ".join(before.models), ", ".join(after.models)),
        )
        if one != other
    ]
    changes += [
        f"{key} was {_shown(before.settings.get(key))} and is {_shown(after.settings.get(key))}"
        for key in sorted({*before.settings, *after.settings})
        if before.settings.get(key) != after.settings.get(key)
    ]
    return f"The service changed {when}: {'; '.join(changes[:3])}." if changes else ""


def _version(body: bytes | None) -> str | None:
    said = _object(body).get("version")
    return said[:_LONGEST] if isinstance(said, str) else None


def _models(body: bytes | None) -> tuple[str, ...]:
    listed = _object(body).get("data")
    rows = listed if isinstance(listed, list) else []
    return tuple(row["id"][:_LONGEST] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str))


def _object(body: bytes | None) -> dict[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _shown(value: str | None) -> str:
    if not value:
        return "not said"
    return value if len(value) <= 60 else value[:57] + "..."
