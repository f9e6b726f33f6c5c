"""A draft of `gpuyield.yaml` from what was seen: a filled form in which only business facts are missing.

The draft loads without mistakes as it is. What nobody but a person can know stands in it as a comment with an
example.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpuyield.units import format_duration

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_NOT_PLAIN = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenService:
    """A serving workload that was seen; `gpu_share` is its part of all GPU-hours that were held."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    model: str | None = None
    endpoint: str | None = None
    gpus: int | None = None
    engine: str | None = None
    gpu_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBatch:
    """A family of batch jobs that was seen; `durations_ms` is the typical run time by flavor."""

    name: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)
    queue: str | None = None
    gpus: int | None = None
    durations_ms: Mapping[str, int] = field(default_factory=dict)
    runs: int | None = None
    gpu_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a look around found; None where nothing was."""

    name: str = "cluster"
    zone: str = "UTC"
    prometheus_url: str | None = None
    prometheus_service: str | None = None
    opencost_url: str | None = None
    opencost_service: str | None = None
    context: str | None = None
    kueue: bool = False
    team_label: str | None = None
    gpus_by_flavor: Mapping[str, int] = field(default_factory=dict)
    namespaces: Sequence[str] = ()
    services: Sequence[SeenService] = ()
    batch: Sequence[SeenBatch] = ()


def draft_text(seen: Seen) -> str:
    """The text of a `gpuyield.yaml` that says what was seen and asks for what was not."""
    return "\n".join(_lines(seen)) + "\n"


def _lines(seen: Seen) -> Iterator[str]:
    yield "# Drafted by gpuyield init from what it saw. Lines that start with '# >' ask for facts only you know."
    yield "# Then: gpuyield check"
    yield "apiVersion: gpuyield.dev/v1alpha1"
    yield "kind: Cluster"
    yield f"metadata: {{name: {_quoted(seen.name)}}}"
    yield "# > Currency of prices and reports:"
    yield "# currency: EUR"
    yield f"reporting_zone: {_quoted(seen.zone)}  # of calendar months, 08:00 and pure dates"
    yield ""
    yield from _sources(seen)
    yield ""
    yield from _teams(seen)
    yield ""
    yield from _prices(seen)
    yield ""
    yield from _services(seen.services)
    yield ""
    yield from _batch(seen.batch)


def _sources(seen: Seen) -> Iterator[str]:
    yield "sources:"
    if seen.prometheus_url or seen.prometheus_service:
        yield f"  prometheus: {_endpoint(seen.prometheus_url, seen.prometheus_service)}"
    else:
        yield "  # > No Prometheus was found: put its address here, or {service: monitoring/prometheus-operated:9090}."
        yield '  prometheus: {url: "http://127.0.0.1:9090"}'
    if seen.opencost_url or seen.opencost_service:
        yield f"  opencost: {_endpoint(seen.opencost_url, seen.opencost_service)}"
    if seen.context:
        yield f"  kubernetes: {{context: {_quoted(seen.context)}}}"
    yield "  # > Files with outcomes or verdicts; without them busy time stays unjudged:"
    yield '  # outcomes: [{format: jsonl, path: "outcomes/*.jsonl"}]'


def _endpoint(url: str | None, service: str | None) -> str:
    return f"{{url: {json.dumps(url)}}}" if url else f"{{service: {_quoted(service or '')}}}"


def _teams(seen: Seen) -> Iterator[str]:
    if seen.team_label:
        yield f"teams: {{label: {_quoted(seen.team_label)}}}"
        return
    yield "# > Who owns what; without this a team is its namespace:"
    example = seen.namespaces[0] if seen.namespaces else "evals"
    yield f"# teams: {{label: team, namespaces: {{{_quoted(example)}: my-team}}}}"
    if seen.namespaces:
        yield f"# Namespaces with GPUs: {_comment(', '.join(seen.namespaces))}"


def _prices(seen: Seen) -> Iterator[str]:
    if seen.gpus_by_flavor:
        listed = ", ".join(f"{count} {flavor}" for flavor, count in seen.gpus_by_flavor.items())
        yield f"# GPUs that nodes report: {_comment(listed)}"
    yield "# > What a GPU-hour costs; without prices there are GPU-hours only, never a guess:"
    yield "# prices:"
    for flavor in list(seen.gpus_by_flavor) or ["h100"]:
        yield f"#   - {{flavor: {_quoted(flavor)}, gpu_hour: ..., basis: contracted, from: 2026-01-01}}"
    yield "# > How more could be bought:"
    yield "# purchase:"
    for flavor in list(seen.gpus_by_flavor)[:1] or ["h100"]:
        yield f"#   - {{flavor: {_quoted(flavor)}, kind: reserved_1y, price: ..., min: 8, lead_time: 6w}}"
    yield "# > Dates that many jobs share:"
    yield "# milestones: {rc-1.0: 2026-12-18T12:00:00Z}"


def _services(services: Sequence[SeenService]) -> Iterator[str]:
    if not services:
        yield "# No serving workload was seen."
        yield "services: []"
        return
    yield "services:"
    for name, service in zip(_unique(one.name for one in services), services, strict=True):
        held = [f"{service.gpus} GPU{'s' if service.gpus > 1 else ''}"] if service.gpus else []
        yield f"  - name: {_quoted(name)}{_remark([*held, *_share(service.gpu_share)])}"
        yield f"    selector: {_selector(service.namespace, service.labels, None)}"
        if service.endpoint:
            yield f"    endpoint: {json.dumps(service.endpoint)}"
        if service.model:
            yield f"    model: {_quoted(service.model)}"
        yield "    # > What it promises; without objectives its headroom is not known:"
        yield "    # objectives:"
        yield "    #   - {name: ttft, metric: ttft, at_most: 800ms, share: 0.95}"
        yield "    #   - {name: answered, metric: error, share: 0.999}"


def _batch(batch: Sequence[SeenBatch]) -> Iterator[str]:
    if not batch:
        yield "# No recurring batch job was seen."
        yield "batch: []"
        return
    yield "batch:"
    for name, one in zip(_unique(family.name for family in batch), batch, strict=True):
        often = [f"seen {one.runs} time{'s' if one.runs > 1 else ''}"] if one.runs else []
        yield f"  - name: {_quoted(name)}{_remark([*often, *_share(one.gpu_share)])}"
        yield f"    selector: {_selector(one.namespace, one.labels, one.queue)}"
        if one.gpus:
            yield f"    gpus: {one.gpus}"
        lengths = {flavor: length_ms for flavor, length_ms in one.durations_ms.items() if length_ms > 0}
        if lengths:
            listed = (f"{_quoted(name)}: {{duration: {format_duration(length)}}}" for name, length in lengths.items())
            yield f"    flavors: {{{', '.join(listed)}}}"
        yield "    # > Until when; without a deadline nobody can say whether its wait harmed:"
        yield '    # deadline: "06:00 Europe/Berlin"   # or within 8h, 2026-12-01T06:00:00Z, milestone:NAME'


def _share(share: float | None) -> list[str]:
    return [] if share is None else [f"{share:.0%} of GPU-hours"]


def _remark(parts: Sequence[str]) -> str:
    return f"  # {', '.join(parts)}" if parts else ""


def _selector(namespace: str, labels: Mapping[str, str], queue: str | None) -> str:
    parts = [f"namespace: {_quoted(namespace)}"]
    kept = {key: value for key, value in labels.items() if value}
    if queue:
        parts.append(f"queue: {_quoted(queue)}")
    if kept:
        parts.append("labels: {" + ", ".join(f"{_quoted(key)}: {_quoted(value)}" for key, value in kept.items()) + "}")
    return "{" + ", ".join(parts) + "}"


def _unique(names: Iterable[str]) -> list[str]:
    """The names, later twins with a number."""
    given: list[str] = []
    for name in names:
        number, unique = 2, name
        while unique in given:
            unique, number = f"{name}-{number}", number + 1
        given.append(unique)
    return given


def _quoted(text: str) -> str:
    """The text as a YAML scalar that reads back as itself everywhere."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return json.dumps(text, ensure_ascii=False)


def _comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
