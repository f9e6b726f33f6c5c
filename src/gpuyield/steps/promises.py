"""What teams promised for the batch jobs that the ledger shows: by annotation, else by their declared family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gpuyield.account import Observed
from gpuyield.account.facts import RunsByKind, runs_by_kind
from gpuyield.account.jobs import most_devices
from gpuyield.account.pods import Holding, Waiting
from gpuyield.declare.annotations import too_many_gpus
from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, RunKind
from gpuyield.model.cells import Owner
from gpuyield.model.declaration import BatchFamily, Deadline, Declaration
from gpuyield.model.evidence import Gap
from gpuyield.model.gpu import DeviceKind, device_kind
from gpuyield.steps.belonging import Labels
from gpuyield.units import DAY_MS, Window, parse_zone

_KINDS = (RunKind.JOB_CREATED, RunKind.JOB_COMPLETED, RunKind.JOB_LABEL)
_DEADLINE, _DUE = "gpuyield.dev/deadline", "gpuyield.dev/due"

JobKey = tuple[str, str]
"""Namespace and name of a job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised:
    """A job that held or awaited GPUs, when it was created, when it completed, and what its team wants of it.

    `deadline` and `due` are as they were written, `deadline_ms` and `due_ms` the instants that they mean for it.
    """

    workload: str
    team: str
    family: str | None
    deadline: Deadline | None
    due: Deadline | None
    created_ms: int
    completed_ms: int | None
    deadline_ms: int | None
    due_ms: int | None

    @property
    def limit_ms(self) -> int | None:
        """The deadline, else the due time."""
        return self.deadline_ms if self.deadline_ms is not None else self.due_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """All jobs by namespace and name, and what could not be read."""

    jobs: Mapping[JobKey, Promised]
    gaps: tuple[Gap, ...] = ()


def read_promises(seen: Observed, declaration: Declaration, pods: Labels) -> Promises:
    """The promises of all jobs that held or awaited GPUs around the window; `pods` are the labels of their pods."""
    first: dict[JobKey, int] = {}
    owners: dict[JobKey, Owner] = {}
    pod_of: dict[JobKey, str] = {}
    asked: dict[JobKey, list[Holding | Waiting]] = defaultdict(list)
    for holding in seen.pods.holdings:
        if holding.job is not None:
            _earlier(first, (holding.namespace, holding.job), holding.from_ms)
            owners[holding.namespace, holding.job] = holding.owner
            pod_of[holding.namespace, holding.job] = holding.pod
            if holding.kind is DeviceKind.WHOLE:
                asked[holding.namespace, holding.job].append(holding)
    for wait in seen.pods.waiting:
        if wait.job is not None:
            _earlier(first, (wait.owner.namespace, wait.job), wait.from_ms)
            owners[wait.owner.namespace, wait.job] = wait.owner
            if device_kind(wait.resource) is DeviceKind.WHOLE:
                asked[wait.owner.namespace, wait.job].append(wait)
    runs = _runs(seen.ledger, seen.window)
    created, completed, labels = _first(runs, RunKind.JOB_CREATED), _first(runs, RunKind.JOB_COMPLETED), _labels(runs)
    gaps: list[Gap] = []
    jobs = {}
    for key, seen_ms in sorted(first.items()):
        namespace, name = key
        # Labels of the same name are read on the job or its pods; the job's own count first.
        written = {**pods.of(namespace, pod_of.get(key, "")), **labels.get(key, {})}
        family = pods.family_of(namespace, pod_of.get(key, ""), owners[key].workload, name, declaration.batch)
        at_ms = created.get(key, seen_ms)
        deadline, due = _written(key, family, written, declaration, most_devices(asked[key]), gaps)
        jobs[key] = Promised(
            workload=owners[key].workload,
            team=owners[key].team,
            deadline=deadline,
            due=due,
            family=family.name if family else None,
            created_ms=at_ms,
            completed_ms=completed.get(key),
            deadline_ms=_instant(deadline, at_ms, declaration, gaps),
            due_ms=_instant(due, at_ms, declaration, gaps),
        )
    return Promises(jobs=jobs, gaps=tuple(dict.fromkeys(gaps)))


def _earlier(first: dict[JobKey, int], key: JobKey, at_ms: int) -> None:
    first[key] = min(first.get(key, at_ms), at_ms)


def _runs(ledger: Ledger, window: Window) -> RunsByKind:
    around = set(Window(window.from_ms - DAY_MS, window.to_ms).days())
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    days = [day for day in ledger.days(RUNS) if day in around]
    return runs_by_kind(ledger.read(RUNS, days=days, where=f"kind in ({kinds})"))


def _first(runs: RunsByKind, kind: RunKind) -> dict[JobKey, int]:
    return {(run.namespace, run.pod): round(run.value) for run in runs.get(kind, ())}


def _labels(runs: RunsByKind) -> dict[JobKey, dict[str, str]]:
    found: dict[JobKey, dict[str, str]] = defaultdict(dict)
    for run in runs.get(RunKind.JOB_LABEL, ()):
        found[run.namespace, run.pod][run.detail] = run.text
    return found


def _written(
    job: JobKey,
    family: BatchFamily | None,
    labels: Mapping[str, str],
    declaration: Declaration,
    gpus: int,
    gaps: list[Gap],
) -> tuple[Deadline | None, Deadline | None]:
    """Deadline and due time, by annotation where the namespace may claim so many GPUs, else by family."""
    found = {"deadline": family.deadline if family else None, "due": family.due if family else None}
    zone = parse_zone(declaration.reporting_zone)
    for annotation, label in ((_DEADLINE, "deadline"), (_DUE, "due")):
        text = _label(labels, annotation)
        if text is None:
            continue
        refused = too_many_gpus(declaration.limits.get(job[0]), gpus)
        try:
            if refused:
                raise DeclarationError(refused, fix=f"It claims nothing; see limits.{job[0]}.max_gpus.")
            found[label] = parse_deadline(text, label=label, zone=zone)
        except DeclarationError as err:
            gaps.append(Gap(reason=f"annotation {annotation}: {err.mistakes[0]}", where="/".join(job)))
    return found["deadline"], found["due"]


def _label(labels: Mapping[str, str], key: str) -> str | None:
    """A label's value under its key as written, or as exporters print it."""
    printed = "".join(letter if letter.isalnum() else "_" for letter in key)
    return labels.get(key) or labels.get(printed)


def _instant(written: Deadline | None, created_ms: int, declaration: Declaration, gaps: list[Gap]) -> int | None:
    if written is None:
        return None
    try:
        return deadline_ms(written, created_ms=created_ms, milestones=declaration.milestones)
    except DeclarationError as err:
        gaps.append(Gap(reason=str(err.mistakes[0]), where="milestones"))
        return None
