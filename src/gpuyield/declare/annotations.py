"""What a Job promises by annotations (or labels) of its own: `gpuyield.dev/deadline` and its siblings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import TypeVar

from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.declare.tree import shown
from gpuyield.declare.values import did_you_mean, parse_length, parse_number, parse_text
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import NamespaceLimit
from gpuyield.model.marks import PREFIX

T = TypeVar("T")

KEYS = ("deadline", "due", "earliest-start", "expected-duration", "weight", "after", "preemptible", "outcome")
_OTHERS = ("managed", "plan", "queue", "parked", "parked-because", "planned-start")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPromise:
    """What one Job promises; times in epoch ms, None where it says nothing. `outcome` names a check."""

    deadline_ms: int | None = None
    due_ms: int | None = None
    earliest_start_ms: int | None = None
    expected_duration_ms: int | None = None
    weight: Decimal = Decimal(1)
    after: tuple[str, ...] = ()
    restart_ms: int | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What the annotations of a job are read against; `limit` None: its namespace has none, so weight 1 at most.

    `gpus` is how many the job asks for at once (None: not known).
    """

    created_ms: int
    zone: tzinfo
    milestones: Mapping[str, int]
    limit: NamespaceLimit | None = None
    gpus: int | None = None


def read_promise(
    annotations: Mapping[str, str], labels: Mapping[str, str], settings: JobSettings, *, job: str
) -> JobPromise:
    """What a job promises; an annotation wins over a label of the same name.

    `job` is `namespace/name`, for messages.

    Raises:
        DeclarationError: Any of them is wrong or claims more than `limits` grants; all mistakes at once.
    """
    given = {
        key.removeprefix(PREFIX): value
        for key, value in {**labels, **annotations}.items()
        if key.startswith(PREFIX) and key.removeprefix(PREFIX) not in _OTHERS
    }
    reading = _Reading(given, job=job)
    reading.say_unknown()
    start_ms = reading.value("earliest-start", lambda text: _instant(text, "earliest-start", settings))
    weight = reading.value("weight", lambda text: _weight(text, settings))
    promise = JobPromise(
        deadline_ms=reading.value("deadline", lambda text: _instant(text, "deadline", settings)),
        due_ms=reading.value("due", lambda text: _instant(text, "due", settings)),
        earliest_start_ms=start_ms,
        expected_duration_ms=reading.value("expected-duration", lambda text: parse_length(text, label="duration")),
        weight=Decimal(1) if weight is None else weight,
        after=reading.value("after", _after) or (),
        restart_ms=reading.value("preemptible", _restart),
        outcome=reading.value("outcome", lambda text: parse_text(text, label="outcome")),
    )
    if start_ms is not None and promise.deadline_ms is not None and promise.deadline_ms < start_ms:
        reading.say("deadline", "deadline is before earliest-start.", "Move one of them.")
    if given and (what := too_many_gpus(settings.limit, settings.gpus)):
        reading.say(next(iter(given)), what, _FEWER)
    if reading.mistakes:
        raise DeclarationError.of(sorted(reading.mistakes, key=lambda one: one.where))
    return promise


def too_many_gpus(limit: NamespaceLimit | None, gpus: int | None) -> str:
    """Why a job with so many GPUs at once may claim nothing by annotation; empty where it may."""
    most = limit.max_gpus if limit else None
    if most is None or gpus is None or gpus <= most:
        return ""
    return f"the job asks for {gpus:,} {'GPU' if gpus == 1 else 'GPUs'}, and its namespace may claim {most:,}."


_FEWER = "Ask for fewer, declare the job under batch, or raise limits.NAMESPACE.max_gpus."


class _Reading:
    def __init__(self, given: Mapping[str, str], *, job: str) -> None:
        self._given = given
        self._job = job
        self.mistakes: list[Mistake] = []

    def say(self, key: str, what: str, fix: str) -> None:
        self.mistakes.append(Mistake(what=what, where=f"{self._job}: {PREFIX}{shown(key)}", fix=fix))

    def say_unknown(self) -> None:
        for key in self._given:
            if key not in KEYS:
                self.say(key, "no such annotation.", did_you_mean(key, KEYS))

    def value(self, key: str, parse: Callable[[str], T]) -> T | None:
        text = self._given.get(key)
        if text is None:
            return None
        try:
            return parse(text)
        except DeclarationError as err:
            self.say(key, err.mistakes[0].what, err.mistakes[0].fix)
            return None


def _instant(text: str, label: str, settings: JobSettings) -> int:
    found = parse_deadline(text, label=label, zone=settings.zone)
    return deadline_ms(found, created_ms=settings.created_ms, milestones=settings.milestones)


def _weight(text: str, settings: JobSettings) -> Decimal:
    weight = parse_number(text, label="weight", at_least=0)
    most = settings.limit.max_weight if settings.limit else Decimal(1)
    if most is not None and weight > most:
        raise DeclarationError(
            f"weight {text} is above {most}, which is the namespace's limit.",
            fix=f"Write {most} or less, or raise limits.NAMESPACE.max_weight.",
        )
    return weight


def _after(text: str) -> tuple[str, ...]:
    """Jobs of the same namespace; another team's job can be waited for by nobody else."""
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    elsewhere = next((name for name in names if "/" in name), None)
    if elsewhere is not None:
        raise DeclarationError(
            f'"{shown(elsewhere)}" is no name of a job in this namespace.',
            fix="Name jobs of its own namespace, without it: prepare, train-1.",
        )
    return names


def _restart(text: str) -> int | None:
    if text in ("false", "no"):
        return None
    return parse_length(text, label="preemptible", zero=True)
