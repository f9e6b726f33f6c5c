"""Capacity files: what exists of each resource over time, nodes and quotas (contracts, section 3). JSON or YAML."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from functools import partial
from pathlib import Path

from gpuyield.declare.deadlines import seconds_to_ms
from gpuyield.declare.reader import RowReader, kind_of
from gpuyield.declare.row import Row
from gpuyield.declare.tree import Plain, in_order, shown
from gpuyield.declare.values import NUMBER, did_you_mean, parse_count, parse_text, parse_time
from gpuyield.declare.yaml_tree import read_tree
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.job import Amounts, Capacity, NodeGroup, QueueQuota, ResourceQuota, SourceFile

_KEYS = ("origin", "resources", "nodes", "quotas")
_STEPS = "[[from, amount], ...]"
_TAKEN = ("quota/", "cohort/", "lending/")
"""Names with these beginnings stand for quotas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFile:
    """A capacity file, with times in ms from `origin_ms`."""

    origin_ms: int
    capacity: Capacity
    nodes: tuple[NodeGroup, ...]
    quotas: tuple[QueueQuota, ...]
    source: SourceFile


@dataclass(frozen=True, slots=True)
class _Start:
    """What the times of steps are counted from."""

    origin_ms: int
    zone: tzinfo


def parse_capacity(data: bytes, *, file: Path, default_origin_ms: int, zone: tzinfo) -> CapacityFile:
    """The capacity in these bytes; its own `origin` wins over the default.

    Raises:
        DeclarationError: Anything in it is wrong; all mistakes at once.
    """
    most = max(200_000, len(data))
    tree = read_tree(
        data, file=str(file), max_bytes=64 << 20, max_nodes=most, when_empty='Write {"resources": {"gpu": [[0, 64]]}}.'
    )
    root = tree.root.plain()
    if not isinstance(root, dict):
        raise DeclarationError("the file is no mapping of keys.", where=tree.where(()), fix='Write {"resources": ...}.')
    mistakes: list[Mistake] = []
    reader = RowReader(Row(fields=root, where=tree.where), mistakes)
    mistakes += [
        Mistake(what=f'unknown key "{shown(key)}".', where=tree.where_key((key,)), fix=did_you_mean(key, _KEYS))
        for key in reader.unknown_keys(_KEYS)
    ]
    given_ms = reader.text("origin", partial(_time, zone), wanted="2026-12-01T06:00:00Z")
    origin_ms = default_origin_ms if given_ms is None else given_ms
    nodes = _nodes(reader)
    start = _Start(origin_ms, zone)
    steps = _resources(reader, start)
    if not reader.has("resources"):
        steps = _steps_of_nodes(nodes)
        if not reader.has("nodes"):
            reader.say((), "the file has no resources.", 'Add "resources": {"gpu/h100": [[0, 64]]}.')
    quotas = _quotas(reader, start)
    if mistakes:
        raise DeclarationError.of(in_order(mistakes))
    return CapacityFile(
        origin_ms=origin_ms,
        capacity=Capacity(steps=steps),
        nodes=nodes,
        quotas=quotas,
        source=SourceFile(path=str(file), sha256=hashlib.sha256(data).hexdigest(), rows=sum(map(len, steps.values()))),
    )


def _time(zone: tzinfo, text: str, label: str) -> int:
    return parse_time(text, label=label, zone=zone)


def _steps_of_nodes(nodes: tuple[NodeGroup, ...]) -> dict[str, tuple[tuple[int, int], ...]]:
    totals: dict[str, int] = {}
    for group in nodes:
        name = f"gpu/{group.flavor}"
        totals[name] = totals.get(name, 0) + group.gpus * group.count
    return {name: ((0, total),) for name, total in totals.items()}


def _resources(reader: RowReader, start: _Start) -> dict[str, tuple[tuple[int, int], ...]]:
    given = reader.raw("resources")
    if given is None:
        return {}
    if not isinstance(given, dict) or not given:
        reader.say(("resources",), f"resources is {kind_of(given)}.", 'Write {"gpu/h100": [[0, 64]]}.')
        return {}
    steps: dict[str, tuple[tuple[int, int], ...]] = {}
    for name, value in given.items():
        path = ("resources", name)
        if name.startswith(_TAKEN):
            reader.say(path, f"a resource is named {shown(name)}.", f"Name it without {name.split('/')[0]}/.")
        if isinstance(value, str):
            amount = reader.parsed(path, value, _amount, wanted=_STEPS)
            steps[name] = ((0, amount or 0),)
        elif isinstance(value, list) and value:
            steps[name] = _step_list(reader, path, value, start)
        else:
            reader.say(path, f"{name} is {kind_of(value)}.", f"Write {_STEPS}.")
    return steps


def _step_list(
    reader: RowReader, path: tuple[str | int, ...], value: list[Plain], start: _Start
) -> tuple[tuple[int, int], ...]:
    steps: list[tuple[int, int]] = []
    for at, pair in enumerate(value):
        here = (*path, at)
        if not isinstance(pair, list) or len(pair) != 2:
            reader.say(here, "a step is no pair.", "Write [from, amount].")
            continue
        from_ms = reader.parsed((*here, 0), pair[0], partial(_step_time, start), wanted="a time or seconds")
        amount = reader.parsed((*here, 1), pair[1], _amount, wanted="a whole number of GPUs")
        if from_ms is None or amount is None:
            continue
        if steps and from_ms <= steps[-1][0]:
            reader.say((*here, 0), "a step that does not come after the one before it.", "List steps in order of time.")
        steps.append((from_ms, amount))
    return tuple(steps)


def _step_time(start: _Start, text: str, _: str) -> int:
    """Milliseconds from the origin, of seconds or a time."""
    if len(text) <= 64 and re.fullmatch(NUMBER, text.strip(), re.ASCII):
        return seconds_to_ms(text.strip(), label="from")
    return parse_time(text, label="from", zone=start.zone) - start.origin_ms


def _amount(text: str, _: str) -> int:
    return parse_count(text, label="amount")


def _nodes(reader: RowReader) -> tuple[NodeGroup, ...]:
    groups = []
    for at, value in enumerate(reader.listed("nodes", wanted="[{flavor: h100, gpus: 8, count: 8}]")):
        path = ("nodes", at)
        if not isinstance(value, dict):
            reader.say(path, f"an entry is {kind_of(value)}.", "Write {flavor: h100, gpus: 8, count: 8}.")
            continue
        _say_unknown(reader, path, value, ("flavor", "gpus", "count"))
        flavor = reader.parsed((*path, "flavor"), value.get("flavor"), _text, wanted="a flavor")
        gpus = reader.parsed((*path, "gpus"), value.get("gpus"), _one_or_more, wanted="a whole number")
        count = reader.parsed((*path, "count"), value.get("count", "1"), _one_or_more, wanted="a whole number")
        if flavor is not None and gpus is not None and count is not None:
            groups.append(NodeGroup(flavor=flavor, gpus=gpus, count=count))
    return tuple(groups)


def _quotas(reader: RowReader, start: _Start) -> tuple[QueueQuota, ...]:
    given = reader.raw("quotas")
    if given is None:
        return ()
    if not isinstance(given, dict):
        reader.say(("quotas",), f"quotas is {kind_of(given)}.", "Write {QUEUE: {RESOURCE: {nominal: 8}}}.")
        return ()
    quotas = []
    for queue, value in given.items():
        path = ("quotas", queue)
        if not isinstance(value, dict):
            reader.say(path, f"{queue} is {kind_of(value)}.", "Write {RESOURCE: {nominal: 8}}.")
            continue
        cohort = value.get("cohort")
        name = None if cohort is None else reader.parsed((*path, "cohort"), cohort, _name, wanted="a name")
        reader.parsed(path, queue, _name, wanted="a name")
        resources = {
            resource: quota
            for resource, inner in value.items()
            if resource != "cohort" and (quota := _quota(reader, (*path, resource), inner, start)) is not None
        }
        if cohort is None:
            _say_lonely(reader, path, resources)
        quotas.append(QueueQuota(queue=queue, cohort=name, resources=resources))
    return tuple(quotas)


def _say_lonely(reader: RowReader, path: tuple[str | int, ...], resources: Mapping[str, ResourceQuota]) -> None:
    for resource, quota in resources.items():
        if quota.borrow:
            what = f"{resource} may be borrowed, and the queue is in no cohort."
            reader.say((*path, resource, "borrow"), what, "Add cohort: NAME to the queue, or remove borrow.")


def _quota(reader: RowReader, path: tuple[str | int, ...], value: Plain, start: _Start) -> ResourceQuota | None:
    if not isinstance(value, dict):
        reader.say(path, f"{path[-1]} is {kind_of(value)}.", "Write {nominal: 8, borrow: 8, lend: 4}.")
        return None
    _say_unknown(reader, path, value, ("nominal", "borrow", "lend"))
    amounts = {key: _amounts(reader, (*path, key), value.get(key), start) for key in ("nominal", "borrow", "lend")}
    nominal, lend = amounts["nominal"], amounts["lend"]
    if value.get("nominal") is None:
        reader.say(path, "the quota has no nominal.", "Add nominal: 8.")
    if isinstance(nominal, int) and isinstance(lend, int) and lend > nominal:
        reader.say((*path, "lend"), f"it lends {lend} of {nominal}.", "Lend no more than nominal.")
    return ResourceQuota(nominal=amounts["nominal"] or 0, borrow=amounts["borrow"], lend=amounts["lend"])


def _amounts(reader: RowReader, path: tuple[str | int, ...], value: Plain, start: _Start) -> Amounts | None:
    if isinstance(value, list) and value:
        return _step_list(reader, path, value, start)
    return None if value is None else reader.parsed(path, value, _count, wanted=f"a whole number, or {_STEPS}")


def _say_unknown(
    reader: RowReader, path: tuple[str | int, ...], value: Mapping[str, Plain], known: tuple[str, ...]
) -> None:
    for key in value:
        if key not in known:
            reader.say((*path, key), f'unknown key "{shown(key)}".', did_you_mean(key, known))


def _text(text: str, label: str) -> str:
    return parse_text(text, label=label)


def _name(text: str, label: str) -> str:
    name = parse_text(text, label=label)
    if "/" in name or "," in name:
        raise DeclarationError(f'"{shown(name)}" has a "/" or ",".', fix="Name queues and cohorts without.")
    return name


def _count(text: str, label: str) -> int:
    return parse_count(text, label=label)


def _one_or_more(text: str, label: str) -> int:
    return parse_count(text, label=label, at_least=1)
