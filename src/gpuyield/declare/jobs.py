"""Job files: rows -> jobs to be planned (contracts, section 3), every mistake at once.

A duration that is finer than a millisecond is rounded up, a deadline down: a plan is never let off by rounding.
Planning takes one of the quantiles that a job gives, the 70th percentile unless told otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import tzinfo
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import partial

from gpuyield.declare.deadlines import check_milestone, deadline_ms, parse_deadline
from gpuyield.declare.job_links import ReadJob, mistakes_between
from gpuyield.declare.plain_jobs import PlainJobs, anywhere
from gpuyield.declare.reader import RowReader, kind_of, say_unknown_keys
from gpuyield.declare.row import Row
from gpuyield.declare.rows import Rows
from gpuyield.declare.tree import Plain, in_order, shown
from gpuyield.declare.values import did_you_mean, parse_count, parse_number, parse_text
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import Deadline, Milestone
from gpuyield.model.duration import FamilyDuration, between
from gpuyield.model.job import PlanJob, Shape

JOB_KEYS = (
    "id",
    "gpus",
    "demand",
    "duration_s",
    "durations",
    "quantiles",
    "release",
    "deadline",
    "due",
    "weight",
    "after",
    "preemptible",
    "moldable",
    "queue",
    "team",
    "family",
    "started_at",
    "pinned_start",
)
PLANNING_QUANTILE = "p70"
QUANTILES = ("p50", "p70", "p90")
_LONGEST_S = 100 * 366 * 86_400
_MOST_MISTAKES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerms:
    """What the texts of a job file refer to."""

    origin_ms: int
    zone: tzinfo
    milestones: Mapping[str, int]
    gpu_resources: Sequence[str]
    """What a job may run on that names no flavor: `gpu`, or every `gpu/...` that capacity has."""
    known_ids: Collection[str] = ()
    """Jobs of elsewhere that `after` may name, and that an `id` may not repeat."""
    queues: Collection[str] = ()
    """The queues that have quotas; where there are any, a job may name no other."""
    quantile: str = PLANNING_QUANTILE
    """Which of its quantiles a job is planned with."""
    history: Callable[[str], FamilyDuration | None] | None = None
    """How long jobs of a family ran, for jobs that state no run time; None: nothing is known of any."""


def parse_jobs(found: Rows, terms: JobTerms) -> tuple[PlanJob, ...]:
    """The jobs of these rows, in their order.

    Raises:
        DeclarationError: Anything is wrong; all mistakes at once (the first thousand are listed).
    """
    mistakes = list(found.mistakes)
    unknown: dict[str, tuple[RowReader, int]] = {}
    jobs: list[ReadJob] = []
    plain = PlainJobs(tuple(terms.gpu_resources))
    for row in found.rows:
        job = None if terms.queues else plain.read(row.fields)
        if job is not None:
            jobs.append(ReadJob(row=row, name=job.id, after=(), job=job))
            continue
        reader = RowReader(row, mistakes)
        for key in reader.unknown_keys(JOB_KEYS):
            first, count = unknown.get(key, (reader, 0))
            unknown[key] = (first, count + 1)
        jobs.append(_read(reader, row, terms))
    say_unknown_keys(unknown, JOB_KEYS)
    mistakes += mistakes_between(jobs, terms.known_ids)
    if mistakes:
        raise DeclarationError.of(_first(in_order(mistakes)))
    return tuple(one.job for one in jobs if one.job is not None)


def _first(mistakes: list[Mistake]) -> list[Mistake]:
    if len(mistakes) <= _MOST_MISTAKES:
        return mistakes
    more = len(mistakes) - _MOST_MISTAKES
    return [*mistakes[:_MOST_MISTAKES], Mistake(what=f"{more:,} more mistakes.", fix="Fix these first.")]


def _read(reader: RowReader, row: Row, terms: JobTerms) -> ReadJob:
    name = reader.text("id", _text, wanted="a unique name")
    if not reader.has("id"):
        reader.say((), "a job without id.", "Give each job a unique id.")
    after = _after(reader)
    return ReadJob(row=row, name=name, after=after, job=_job(reader, name, after, terms))


def _job(reader: RowReader, name: str | None, after: tuple[str, ...], terms: JobTerms) -> PlanJob | None:
    usual = _usual(reader, terms)
    shapes = _shapes(reader, terms, usual)
    release = _time(reader, "release", terms, created_ms=terms.origin_ms)
    created_ms = terms.origin_ms if release is None else release
    times = {
        key: _time(reader, key, terms, created_ms=created_ms)
        for key in ("deadline", "due", "started_at", "pinned_start")
    }
    if times["started_at"] is not None and times["pinned_start"] is not None:
        reader.say(("pinned_start",), "started_at and pinned_start are both given.", "Keep started_at: it runs.")
    for key in ("deadline", "due"):
        at_ms = times[key]
        if at_ms is not None and release is not None and at_ms < release:
            reader.say((key,), f"{key} is before release.", f"Move {key} after release, or release before it.")
    weight = reader.text("weight", partial(_number, 0), wanted="a number from 0 on")
    restart_ms = _restart(reader)
    queue, team, family = (reader.text(key, _text, wanted="a name") for key in ("queue", "team", "family"))
    if queue is not None and terms.queues and queue not in terms.queues:
        fix = did_you_mean(queue, terms.queues)
        reader.say(("queue",), f'queue "{shown(queue)}" has no quotas in the capacity file.', fix)
    if name is None or not shapes:
        return None
    from_origin = {key: None if at is None else at - terms.origin_ms for key, at in times.items()}
    return PlanJob(
        id=name,
        shapes=shapes,
        release_ms=created_ms - terms.origin_ms,
        deadline_ms=from_origin["deadline"],
        due_ms=from_origin["due"],
        weight=Decimal(1) if weight is None else weight,
        after=after,
        restart_ms=restart_ms,
        started_ms=from_origin["started_at"],
        pinned_ms=from_origin["pinned_start"],
        queue=queue,
        team=team,
        family=family,
        spread_ms=usual.spread_ms if usual is not None else _spread(reader),
    )


def _usual(reader: RowReader, terms: JobTerms) -> FamilyDuration | None:
    """How long the family of a job runs that states no run time; None where it does, or nothing is known."""
    if terms.history is None or any(reader.has(key) for key in ("duration_s", "durations", "quantiles", "moldable")):
        return None
    family = reader.raw("family")
    return terms.history(family) if isinstance(family, str) else None


def _shapes(reader: RowReader, terms: JobTerms, usual: FamilyDuration | None) -> tuple[Shape, ...]:
    ways = [key for key in ("gpus", "demand", "moldable") if reader.has(key)]
    if len(ways) != 1:
        what = f"{' and '.join(ways)} are given together." if ways else "neither gpus, demand nor moldable is given."
        reader.say((ways[1],) if ways else (), what, "Give exactly one of gpus, demand and moldable.")
    lengths = [key for key in ("duration_s", "durations", "quantiles") if reader.has(key)]
    if "moldable" in ways:
        if lengths:
            reader.say(
                (lengths[0],), f"{lengths[0]} beside moldable.", "Each shape of moldable has its own duration_s."
            )
        return _moldable(reader, terms)
    if len(lengths) != 1 and usual is None:
        what = f"{' and '.join(lengths)} are given together." if lengths else "the run time is missing."
        reader.say((lengths[1],) if lengths else (), what, "Give exactly one of duration_s, durations and quantiles.")
    gpus = reader.text("gpus", _gpus, wanted="a whole number from 1 on")
    demand = reader.mapping("demand", _amount, wanted="{resource: amount}")
    by_flavor = reader.mapping("durations", _duration, wanted="{flavor: seconds}")
    duration_ms = reader.text("duration_s", _duration, wanted="a number of seconds")
    if reader.has("quantiles"):
        duration_ms = _quantile(reader, terms.quantile)
    if usual is not None:
        duration_ms = usual.planned_ms
    if len(ways) != 1 or (len(lengths) != 1 and usual is None):
        return ()
    if by_flavor is not None:
        if demand is not None:
            reader.say(("durations",), "durations beside demand.", "Give duration_s; demand names the resources.")
        return tuple(
            Shape(flavor=flavor, demand={f"gpu/{flavor}": gpus}, duration_ms=length_ms)
            for flavor, length_ms in by_flavor.items()
            if gpus is not None
        )
    if duration_ms is None:
        return ()
    if demand:
        return (Shape(demand=demand, duration_ms=duration_ms),)
    return anywhere(gpus, duration_ms, tuple(terms.gpu_resources)) if gpus is not None else ()


def _moldable(reader: RowReader, terms: JobTerms) -> tuple[Shape, ...]:
    shapes: list[Shape] = []
    listed = reader.listed("moldable", wanted="[{gpus: 2, duration_s: 3600}]")
    if isinstance(reader.raw("moldable"), list) and not listed:
        reader.say(("moldable",), "moldable is an empty list.", "Write [{gpus: 2, duration_s: 3600}].")
    for at, value in enumerate(listed):
        path = ("moldable", at)
        if not isinstance(value, dict) or set(value) != {"gpus", "duration_s"}:
            reader.say(path, f"a shape is {_keys(value)}.", "Write {gpus: 2, duration_s: 3600}.")
            continue
        gpus = reader.parsed((*path, "gpus"), value["gpus"], _gpus, wanted="a whole number from 1 on")
        duration_ms = reader.parsed((*path, "duration_s"), value["duration_s"], _duration, wanted="seconds")
        if gpus is not None and duration_ms is not None:
            shapes += anywhere(gpus, duration_ms, tuple(terms.gpu_resources))
    return tuple(shapes)


def _keys(value: Plain) -> str:
    return f"{{{', '.join(shown(key) for key in value)}}}" if isinstance(value, dict) else kind_of(value)


def _quantile(reader: RowReader, planned: str) -> int | None:
    given = reader.mapping("quantiles", _duration, wanted="{p50: s, p70: s, p90: s}") or {}
    for key in given:
        if key not in QUANTILES:
            reader.say(("quantiles", key), f'unknown quantile "{shown(key)}".', did_you_mean(key, QUANTILES))
    lengths = [given[key] for key in QUANTILES if key in given]
    if lengths != sorted(lengths):
        reader.say(("quantiles",), "the quantiles do not rise.", "Order them: p50 <= p70 <= p90.")
    raw = reader.raw("quantiles")
    if isinstance(raw, dict) and raw.get(planned) is None:
        reader.say(("quantiles",), f"{planned} is missing, which plans are made with.", f"Add {planned}: seconds.")
    return given.get(planned)


def _spread(reader: RowReader) -> tuple[int, ...]:
    """The spread through the quantiles that a job gives, where they can be read and rise."""
    given = reader.raw("quantiles")
    if not isinstance(given, dict):
        return ()
    known: dict[float, int] = {}
    for key in QUANTILES:
        with suppress(DeclarationError):
            if isinstance(given.get(key), str):
                known[int(key.removeprefix("p")) / 100] = _duration(str(given[key]), key)
    return between(known) if len(known) > 1 and list(known.values()) == sorted(known.values()) else ()


def _time(reader: RowReader, key: str, terms: JobTerms, *, created_ms: int) -> int | None:
    """Epoch ms of a time field; deadlines round down, starts up."""
    rounding = ROUND_FLOOR if key in ("deadline", "due") else ROUND_CEILING

    def parse(text: str, label: str) -> Deadline:
        found = parse_deadline(text, label=label, zone=terms.zone, origin_ms=terms.origin_ms, rounding=rounding)
        if isinstance(found, Milestone):
            check_milestone(found.name, terms.milestones)
        return found

    found = reader.text(key, parse, wanted="a time, or seconds from the origin")
    return None if found is None else deadline_ms(found, created_ms=created_ms, milestones=terms.milestones)


def _after(reader: RowReader) -> tuple[str, ...]:
    value = reader.raw("after")
    if isinstance(value, str):
        return tuple(name for part in value.replace(";", ",").split(",") if (name := part.strip()))
    names = (
        reader.parsed(("after", at), one, _text, wanted="the id of a job")
        for at, one in enumerate(reader.listed("after", wanted="a list of ids"))
    )
    return tuple(dict.fromkeys(name for name in names if name is not None))


def _restart(reader: RowReader) -> int | None:
    value = reader.raw("preemptible")
    if value is None or value is False:
        return None
    if value is True:
        reader.say(("preemptible",), "preemptible is true.", "Write what a restart costs in seconds: 180.")
        return None
    return reader.parsed(("preemptible",), value, partial(_seconds, 0), wanted="a number of seconds")


def _text(text: str, label: str) -> str:
    return parse_text(text, label=label)


def _gpus(text: str, label: str) -> int:
    of_parts = "Parts of GPUs are planned as a resource of their own: demand: {slice: 3}."
    return parse_count(text, label=label, at_least=1, of_parts=of_parts)


def _amount(text: str, label: str) -> int:
    return parse_count(text, label=label, at_least=1)


def _number(at_least: int, text: str, label: str) -> Decimal:
    return parse_number(text, label=label, at_least=at_least)


def _seconds(at_least: int, text: str, label: str) -> int:
    number = parse_number(text, label=label, at_least=at_least, at_most=_LONGEST_S)
    return int((number * 1000).to_integral_value(ROUND_CEILING))


def _duration(text: str, label: str) -> int:
    number = parse_number(text, label=label, above=0, at_most=_LONGEST_S)
    return int((number * 1000).to_integral_value(ROUND_CEILING))
