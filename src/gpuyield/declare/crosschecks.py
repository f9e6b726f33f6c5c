"""Mistakes that only show when several keys are seen together.

Each check reads the plain tree by itself and takes nothing for granted, so that every mistake is said even where
other keys are wrong too.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, tzinfo

from gpuyield.declare.deadlines import check_milestone, parse_deadline
from gpuyield.declare.objectives import LATENCIES
from gpuyield.declare.tree import Path, Plain, Tree, plain_list, plain_mapping, shown
from gpuyield.declare.values import did_you_mean, parse_latency_us, parse_number, parse_time
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import Milestone

Found = Iterator[tuple[Path, str, str]]
"""Mistakes as path, what and fix."""

_SECRET = re.compile(r"\$\{|\$\(|\{\{")
_ALWAYS_MS = (-(1 << 62), 1 << 62)


def cross_check(tree: Tree, root: Plain, *, zone: tzinfo, known_flavors: Collection[str] | None) -> list[Mistake]:
    """All mistakes between keys of this document."""
    given = plain_mapping(root)
    found = itertools.chain(
        _endpoints(given),
        _currencies(given),
        _price_overlaps(given, zone),
        _milestones(given),
        _demanded_services(given),
        _services(given),
        _batch(given),
        _inventory(given),
    )
    mistakes = [Mistake(what=what, where=tree.where(path), fix=fix) for path, what, fix in found]
    mistakes += [
        Mistake(what=what, where=tree.where_key(path) if path[-2] == "flavors" else tree.where(path), fix=fix)
        for path, what, fix in _flavors(given, known_flavors)
    ]
    return mistakes + [
        Mistake(
            what="nothing is substituted in this file.",
            where=f"{tree.file}:{node.line}:{node.column}",
            fix="Write the value itself; a secret goes into a file that token_file or headers_file names.",
        )
        for node, text in tree.scalars()
        if _SECRET.search(text)
    ]


def _rows(given: Mapping[str, Plain], key: str) -> Iterator[tuple[Path, dict[str, Plain]]]:
    for at, row in enumerate(plain_list(given.get(key))):
        if isinstance(row, dict):
            yield (key, at), row


def _endpoints(given: Mapping[str, Plain]) -> Found:
    sources = plain_mapping(given.get("sources"))
    for name, example in (("prometheus", "http://127.0.0.1:9090"), ("opencost", "http://127.0.0.1:9003")):
        endpoint = sources.get(name)
        if not isinstance(endpoint, dict):
            continue
        given_ways = [way for way in ("url", "service") if endpoint.get(way) is not None]
        if not given_ways:
            yield ("sources", name), f"{name} has neither url nor service.", f'Write {name}: {{url: "{example}"}}.'
        if len(given_ways) == 2:
            yield ("sources", name, "service"), f"{name} has both url and service.", "Keep one of them."


def _currencies(given: Mapping[str, Plain]) -> Found:
    if given.get("currency") is not None:
        return
    for key in ("prices", "purchase"):
        for path, row in _rows(given, key):
            if row.get("currency") is None:
                yield path, "a price without a currency.", "Add currency: EUR at the top of the file."
                return


def _price_overlaps(given: Mapping[str, Plain], zone: tzinfo) -> Found:
    spans: dict[tuple[str, str], list[tuple[int, int, Path]]] = {}
    for path, row in _rows(given, "prices"):
        span = _price_span(row, zone)
        if span is None:
            continue
        if span[0] >= span[1]:
            yield (*path, "to"), "the price ends before it starts.", "Swap from and to."
            continue
        key = (str(row.get("flavor")), str(row.get("basis") or "list"))
        spans.setdefault(key, []).append((*span, path))
    for (flavor, basis), rows in spans.items():
        rows.sort(key=lambda one: one[:2])
        end_ms, first = rows[0][1], rows[0][2]
        for from_ms, to_ms, path in rows[1:]:
            if from_ms < end_ms:
                number = int(first[1]) + 1
                yield (
                    path,
                    f"this {basis} price of {shown(flavor)} overlaps with price {number} of the list.",
                    "End the earlier one (to: ...) where this one starts.",
                )
            if to_ms > end_ms:
                end_ms, first = to_ms, path


def _price_span(row: dict[str, Plain], zone: tzinfo) -> tuple[int, int] | None:
    ends = []
    for key, default in zip(("from", "to"), _ALWAYS_MS, strict=True):
        text = row.get(key)
        if text is None:
            ends.append(default)
            continue
        try:
            ends.append(parse_time(str(text), label=key, zone=zone))
        except DeclarationError:
            return None
    return ends[0], ends[1]


def _milestones(given: Mapping[str, Plain]) -> Found:
    declared = dict.fromkeys(plain_mapping(given.get("milestones")), 0)
    for path, row in _rows(given, "batch"):
        for key in ("deadline", "due"):
            text = row.get(key)
            if not isinstance(text, str):
                continue
            try:
                wanted = parse_deadline(text, label=key, zone=UTC)
                if isinstance(wanted, Milestone):
                    check_milestone(wanted.name, declared)
            except DeclarationError as err:
                if "is not declared" in err.mistakes[0].what:
                    yield (*path, key), err.mistakes[0].what, err.mistakes[0].fix


def _demanded_services(given: Mapping[str, Plain]) -> Found:
    names = [str(row.get("name")) for _, row in _rows(given, "services")]
    for path, row in _rows(given, "demand"):
        name = row.get("service")
        if isinstance(name, str) and name not in names:
            fix = did_you_mean(name, names) if names else "Declare it under services."
            yield (*path, "service"), f'service "{shown(name)}" is not declared.', fix
    yield from _twice(given, "demand", "service")


def _flavors(given: Mapping[str, Plain], known: Collection[str] | None) -> Found:
    places: list[tuple[Path, str]] = []
    for key in ("inventory", "prices", "purchase"):
        for path, row in _rows(given, key):
            if isinstance(row.get("flavor"), str):
                places.append(((*path, "flavor"), str(row["flavor"])))
    for path, row in _rows(given, "batch"):
        places += [((*path, "flavors", name), name) for name in plain_mapping(row.get("flavors"))]
    spelled: dict[str, str] = {}
    for path, name in places:
        first = spelled.setdefault(name.lower(), name)
        if first != name:
            yield (
                path,
                f'flavor "{shown(name)}" is "{shown(first)}" elsewhere in this file.',
                f'Write "{shown(first)}".',
            )
    if known is None:
        return
    inventory = {str(row.get("flavor")) for _, row in _rows(given, "inventory")}
    for path, name in places:
        if name not in inventory and name not in known:
            fix = did_you_mean(name, sorted({*known, *inventory}))
            yield path, f'flavor "{shown(name)}" is reported by no node and is not in inventory.', fix


def _services(given: Mapping[str, Plain]) -> Found:
    yield from _twice(given, "services", "name")
    for path, row in _rows(given, "services"):
        yield from _selector((*path, "selector"), row.get("selector"))
        names: list[str] = []
        for at, objective in enumerate(plain_list(row.get("objectives"))):
            if not isinstance(objective, dict):
                continue
            here = (*path, "objectives", at)
            yield from _objective(here, objective)
            name = str(
                objective.get("name")
                or objective.get("displayName")
                or objective.get("metric")
                or objective.get("check")
            )
            if name in names:
                yield here, f'objective "{shown(name)}" is there twice.', "Give each a name of its own."
            names.append(name)


def _objective(path: Path, row: dict[str, Plain]) -> Found:
    metric, check = row.get("metric"), row.get("check")
    if (metric is None) == (check is None):
        what = "an objective without metric or check." if metric is None else "an objective with metric and check."
        yield path, what, "Give one of them: metric: ttft, or check: NAME."
    for ours, theirs in (("share", "target"), ("name", "displayName")):
        if row.get(ours) is not None and row.get(theirs) is not None:
            yield (*path, theirs), f"{ours} and {theirs} say the same.", "Keep one of them."
    if row.get("share") is None and row.get("target") is None:
        yield path, "the objective has no share.", "Add share: 0.95."
    limits = [key for key in ("at_most", "at_least", "value") if row.get(key) is not None]
    if len(limits) > 1:
        yield (*path, limits[1]), f"{limits[0]} and {limits[1]} are both given.", "Keep one limit."
    if (row.get("op") is None) != (row.get("value") is None):
        yield path, "op and value belong together.", "Write op: lte, value: 800ms; or at_most: 800ms."
    if metric is not None and check is None:
        yield from _metric_limit(path, row, str(metric))
    elif check is not None and metric is None:
        yield from _check_limit(path, row)


def _metric_limit(path: Path, row: dict[str, Plain], metric: str) -> Found:
    limits = [key for key in ("at_most", "at_least", "value") if row.get(key) is not None]
    if metric == "error":
        if limits:
            yield (*path, limits[0]), "error takes no limit.", "share alone says how many must be answered."
        return
    if metric not in LATENCIES:
        return
    if not limits:
        yield path, f"{metric} has no limit.", "Add at_most: 800ms."
    if "at_least" in limits or str(row.get("op") or "lte") not in ("lte", "lt"):
        key = "at_least" if "at_least" in limits else "op"
        yield (*path, key), f"{metric} is better when small.", "Write at_most: 800ms."
    for key in ("at_most", "value"):
        text = row.get(key)
        if isinstance(text, str):
            try:
                parse_latency_us(text, label=key)
            except DeclarationError as err:
                yield (*path, key), err.mistakes[0].what, err.mistakes[0].fix


def _check_limit(path: Path, row: dict[str, Plain]) -> Found:
    if row.get("op") in ("lt", "gt"):
        yield (*path, "op"), f"op {row['op']} on a score.", "Write lte or gte."
    for key in ("at_most", "value"):
        text = row.get(key)
        if isinstance(text, str):
            try:
                parse_number(text, label=key)
            except DeclarationError as err:
                yield (*path, key), err.mistakes[0].what, err.mistakes[0].fix


def _batch(given: Mapping[str, Plain]) -> Found:
    yield from _twice(given, "batch", "name")
    for path, row in _rows(given, "batch"):
        yield from _selector((*path, "selector"), row.get("selector"))
        if row.get("duration") is not None and row.get("flavors") is not None:
            yield (*path, "duration"), "duration and flavors are both given.", "Keep flavors, or duration for any."


def _inventory(given: Mapping[str, Plain]) -> Found:
    yield from _twice(given, "inventory", "flavor")
    for path, row in _rows(given, "inventory"):
        try:
            gpus, nodes = (parse_number(str(row.get(key)), label=key) for key in ("gpus", "nodes"))
        except DeclarationError:
            continue
        if nodes > gpus:
            yield (*path, "nodes"), f"{nodes} nodes for {gpus} GPUs.", "gpus is the total of all nodes."


def _selector(path: Path, selector: Plain) -> Found:
    keys = {"namespace", "labels", "queue"}
    if isinstance(selector, dict) and set(selector) <= keys and not any(selector.values()):
        yield path, "the selector is empty and would match everything.", "Name a namespace, labels or a queue."


def _twice(given: Mapping[str, Plain], key: str, field: str) -> Found:
    seen: list[str] = []
    for path, row in _rows(given, key):
        name = row.get(field)
        if isinstance(name, str):
            if name in seen:
                yield (*path, field), f'{field} "{shown(name)}" is there twice in {key}.', "Keep one, or rename it."
            seen.append(name)
