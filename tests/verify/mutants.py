"""Mutants of decoded documents and inputs, and variations that stay true."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

from verify.brute import UNIT_MS, Inputs
from verify.documents import EPOCH, moment

Document = dict[str, Any]
Path = tuple[str | int, ...]
UNJUDGED = {
    "why",
    "explanation",
    "engine",
    "p_late",
    "moved_because",
    "seed",
    "proof",
    "queue",
    "team",
    "family",
    "sources",
}
WORDS = {
    "status": ["optimal", "feasible", "infeasible", "unknown", "planned", "late", "dropped", "impossible"],
    "stopped_because": ["proven", "budget", "time", "whim"],
    "reason": ["too-long", "too-wide", "no-flavor", "chain"],
    "kind": ["interval", "impossible", "search", "wide-gangs", "cut", "add-gpus", "drop", "move-deadline"],
    "closed": ["interval", "impossible", "weight"],
    "split": ["start", "shape", "on-time"],
    "objective": ["on-time", "fewest-gpus", "makespan"],
    "claim": ["objective.bound", "gpus.gpu.lower_bound", "gpus.gpu.needed"],
}


def mutant(document: Document, inputs: Inputs, rng: Random) -> tuple[Document, Inputs]:
    """One or two small changes somewhere in the document or, now and then, in its inputs."""
    document, inputs = copy.deepcopy(document), copy.deepcopy(inputs)
    for _ in range(rng.choice([1, 1, 1, 2])):
        target: Any = inputs if rng.random() < 0.25 else document
        found = list(paths(target, ()))
        if not found:
            continue
        # A search tree has many nodes: give the other claims the same chance.
        inside = [path for path in found if "branches" in path]
        outside = [path for path in found if "branches" not in path]
        path = rng.choice(inside if inside and rng.random() < 0.15 else outside)
        _change(target, path, rng, is_input=target is inputs)
    return document, inputs


def paths(value: Any, path: Path) -> Iterator[Path]:
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        if key not in UNJUDGED and key != "inputs_digest":
            yield from paths(child, (*path, key))


def _change(root: Any, path: Path, rng: Random, *, is_input: bool) -> None:
    holder = root
    for key in path[:-1]:
        holder = holder[key]
    key = path[-1]
    value = holder[key]
    if rng.random() < 0.04:
        holder[key] = rng.choice([None, True, math.nan, -1, "", [], {}, 10**40, 0.5, "x" * 5])
    elif rng.random() < 0.04 and isinstance(holder, dict):
        del holder[key]
    elif isinstance(value, bool) or value is None:
        holder[key] = rng.choice([True, 0, 1, UNIT_MS, moment({"origin_ms": 0}, UNIT_MS)])
    elif isinstance(value, int | float):
        holder[key] = _number(value, rng, in_units=is_input or abs(value) >= UNIT_MS)
    elif isinstance(value, str):
        holder[key] = _text(str(key), value, rng)
    elif isinstance(value, list):
        _list(value, rng)
    elif value:
        inner = rng.choice(sorted(value))
        if rng.random() < 0.5:
            del value[inner]
        else:
            other = rng.choice(sorted(value))
            value[inner], value[other] = value[other], value[inner]


def _number(value: float, rng: Random, *, in_units: bool) -> float:
    if in_units and abs(value) < 100:
        return value + rng.choice([-1, 1])
    if in_units:
        return value + rng.choice([-2, -1, 1, 2]) * UNIT_MS
    if isinstance(value, float):
        return rng.choice([value + 0.01, value - 0.01, value / 2, 1.0, 0.0, value + 1, 1 - value])
    return rng.choice([value + 1, value - 1, value + 3600, value - 3600, -value, 0, value * 2])


def _text(key: str, value: str, rng: Random) -> str:
    if key in WORDS:
        return rng.choice(WORDS[key])
    if value.endswith("Z") and "T" in value:
        when = datetime.fromisoformat(value[:-1]) + timedelta(seconds=rng.choice([-7200, -3600, -1, 1, 60, 3600, 7200]))
        return f"{when.isoformat(timespec='milliseconds')}Z"
    if value.replace(".", "").isdigit():
        return rng.choice(["0", "1", "2", "5", "0.25", "-1", "1e5", "x"])
    return rng.choice(["a", "b", "c", "d", "gpu", "gpu/a", "gpu/b", "gpuyield/plan/v2", value + "x"])


def _list(value: list[Any], rng: Random) -> None:
    if not value:
        value.append(rng.choice(["a", "b", 0, {"kind": "drop", "jobs": ["a"]}]))
        return
    at = rng.randrange(len(value))
    how = rng.choice(["drop", "twice", "swap"])
    if how == "drop":
        del value[at]
    elif how == "twice":
        value.insert(at, copy.deepcopy(value[at]))
    else:
        other = rng.randrange(len(value))
        value[at], value[other] = value[other], value[at]


def variation(document: Document, inputs: Inputs, rng: Random) -> tuple[Document, Inputs] | None:
    """The same truth said in another way; None where this kind of change does not apply."""
    document, inputs = copy.deepcopy(document), copy.deepcopy(inputs)
    change: Callable[[Document, Inputs, Random], bool] = rng.choice(_VARIATIONS)
    return (document, inputs) if change(document, inputs, rng) else None


def _other_words(document: Document, inputs: Inputs, rng: Random) -> bool:
    document["explanation"] = ["another sentence", "and one more"]
    for job in document["jobs"]:
        job["why"] = rng.choice(["because", "", "why not: \u00e9"])
    return True


def _more_fields(document: Document, inputs: Inputs, rng: Random) -> bool:
    document["note"] = {"anything": [1, 2.5, None]}
    rng.choice(document["jobs"])["colour"] = "blue"
    inputs["comment"] = "what we knew"
    return True


def _other_order(document: Document, inputs: Inputs, rng: Random) -> bool:
    rng.shuffle(document["jobs"])
    rng.shuffle(inputs["jobs"])
    certificate = document["certificate"]
    if certificate is not None and "jobs" in certificate:
        rng.shuffle(certificate["jobs"])
    return True


def _fewer_claims(document: Document, inputs: Inputs, rng: Random) -> bool:
    document["relaxations"] = []
    document["proof"] = None
    for name, entry in document["gpus"].items():
        if inputs["objective"] != "fewest-gpus":
            entry.update(needed=None, lower_bound=None)
            document["bounds"] = [one for one in document["bounds"] if one["claim"] != f"gpus.{name}.lower_bound"]
    return True


def _only_feasible(document: Document, inputs: Inputs, rng: Random) -> bool:
    if document["status"] != "optimal":
        return False
    document.update(status="feasible", stopped_because="budget")
    return True


def _no_witness(document: Document, inputs: Inputs, rng: Random) -> bool:
    document["witness"] = None
    for relaxation in document["relaxations"]:
        relaxation["witness"] = None
    return True


def _slid(document: Document, inputs: Inputs, rng: Random) -> bool:
    """A job moved inside its slack; whether capacity lets it is for the truth to say."""
    by_id = {job["id"]: job for job in inputs["jobs"]}
    movable = [job for job in document["jobs"] if len(job["segments"]) == 1 and job["slack_s"]]
    if not movable or inputs["objective"] != "on-time":
        return False
    job = rng.choice(movable)
    step_ms = rng.choice([UNIT_MS, UNIT_MS // 2, 1000, 1, -UNIT_MS, -1000])
    origin = inputs["origin_ms"]
    (low, high), source = job["segments"][0], by_id[job["id"]]
    ends = [
        round((datetime.fromisoformat(text[:-1]) - EPOCH).total_seconds() * 1000) - origin + step_ms
        for text in (low, high)
    ]
    job["segments"] = [[moment(inputs, at) for at in ends]]
    slack_ms = source["deadline_ms"] - ends[1]
    job["slack_s"] = slack_ms // 1000 if slack_ms % 1000 == 0 else slack_ms / 1000
    return bool(source["due_ms"] is None)


def _renamed(document: Document, inputs: Inputs, rng: Random) -> bool:
    names = {job["id"]: f"team/{job['id']} \u00fc" for job in inputs["jobs"]}
    for holder in (document, inputs):
        _rename(holder, names)
    return True


def _rename(value: Any, names: dict[str, str]) -> None:
    if isinstance(value, list):
        for at, child in enumerate(value):
            if isinstance(child, str):
                value[at] = names.get(child, child)
            else:
                _rename(child, names)
    elif isinstance(value, dict):
        for key in list(value):
            child = value[key]
            if isinstance(child, str) and key in ("id", "first", "second"):
                value[key] = names.get(child, child)
            else:
                _rename(child, names)
            if key in names:
                value[names[key]] = value.pop(key)


def _later_origin(document: Document, inputs: Inputs, rng: Random) -> bool:
    by = timedelta(milliseconds=rng.choice([86_400_000, 250, -3_600_000]))
    inputs["origin_ms"] += round(by.total_seconds() * 1000)

    def shift(value: Any) -> Any:
        if isinstance(value, str) and value.endswith("Z") and "T" in value:
            return f"{(datetime.fromisoformat(value[:-1]) + by).isoformat(timespec='milliseconds')}Z"
        if isinstance(value, list):
            return [shift(child) for child in value]
        return {key: shift(child) for key, child in value.items()} if isinstance(value, dict) else value

    document.update(shift(document))
    return True


def _looser_bound(document: Document, inputs: Inputs, rng: Random) -> bool:
    objective = document["objective"]
    if objective["name"] != "on-time" or objective["bound"] is None or document["status"] == "optimal":
        return False
    document["bounds"] = [one for one in document["bounds"] if one["claim"] != "objective.bound"]
    objective.update(bound=1.0, gap=1.0 - objective["value"])
    return True


def _weaker_interval(document: Document, inputs: Inputs, rng: Random) -> bool:
    """One forced part claimed a little smaller, the sum adapted, while it still proves something."""
    certificate = document["certificate"]
    if certificate is None or certificate["kind"] != "interval":
        return False
    part = rng.choice(certificate["jobs"])
    part["forced_gpu_ms"] -= 1
    certificate["required_gpu_ms"] -= 1
    lacking = certificate["required_gpu_ms"] - certificate["capacity_gpu_ms"]
    certificate["extra_gpus"] = -(-lacking // (certificate["to_ms"] - certificate["from_ms"]))
    return bool(lacking > 0)


_VARIATIONS: list[Callable[[Document, Inputs, Random], bool]] = [
    _other_words,
    _more_fields,
    _other_order,
    _fewer_claims,
    _only_feasible,
    _no_witness,
    _slid,
    _slid,
    _slid,
    _renamed,
    _later_origin,
    _looser_bound,
    _weaker_interval,
]
