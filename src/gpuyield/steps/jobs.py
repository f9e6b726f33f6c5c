"""Batch jobs as the ledger shows them: who asked for what, when it ran, and what its team promised."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gpuyield.account import Accounting
from gpuyield.account.facts import RunsByKind, runs_by_kind
from gpuyield.account.holders import most_at_once
from gpuyield.account.pods import Holding, Waiting
from gpuyield.declare.deadlines import deadline_ms, parse_deadline
from gpuyield.errors import DeclarationError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, RunKind
from gpuyield.model.cells import Owner
from gpuyield.model.declaration import BatchFamily, Deadline, Declaration
from gpuyield.model.evidence import Gap
from gpuyield.units import Window, parse_zone

_KINDS = (RunKind.JOB_CREATED, RunKind.JOB_COMPLETED, RunKind.JOB_LABEL, RunKind.JOB_SUSPENDED)
_DEADLINE, _DUE = "gpuyield.dev/deadline", "gpuyield.dev/due"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJob:
    """A batch job with GPUs that was seen. Times in epoch ms, None: not (yet) seen.

    `gpus` is the most it held (or asked for) at once; `run_ms` how long it ran, waiting left out; `flavors` where
    it ran. `deadline_ms` and `due_ms` are what its family or annotations promise.
    """

    namespace: str
    name: str
    owner: Owner
    family: str | None
    gpus: int
    created_ms: int
    started_ms: int | None
    ended_ms: int | None
    run_ms: int | None
    flavors: tuple[str, ...]
    deadline_ms: int | None = None
    due_ms: int | None = None

    @property
    def id(self) -> str:
        """Unique: namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedJobs:
    """All jobs, in order of their creation, and what could not be read of their annotations."""

    jobs: tuple[ObservedJob, ...]
    gaps: tuple[Gap, ...] = ()

    def by_id(self) -> dict[tuple[str, str], ObservedJob]:
        """By namespace and name."""
        return {(one.namespace, one.name): one for one in self.jobs}


def observed_jobs(ledger: Ledger, accounting: Accounting, declaration: Declaration) -> ObservedJobs:
    """The batch jobs whose pods held or awaited GPUs around the window."""
    window = accounting.window
    days = [day for day in ledger.days(RUNS) if day in set(window.days())]
    kinds = ", ".join(f"'{kind}'" for kind in _KINDS)
    runs = runs_by_kind(ledger.read(RUNS, days=days, where=f"kind in ({kinds})"))
    held: dict[tuple[str, str], list[Holding]] = defaultdict(list)
    for one in accounting.pods.holdings:
        if one.job is not None:
            held[one.namespace, one.job].append(one)
    waited: dict[tuple[str, str], list[Waiting]] = defaultdict(list)
    for wait in accounting.pods.waiting:
        if wait.job is not None:
            waited[wait.owner.namespace, wait.job].append(wait)
    created = _first(runs, RunKind.JOB_CREATED)
    completed = _first(runs, RunKind.JOB_COMPLETED)
    labels = _labels(runs)
    jobs, gaps = [], []
    for key in sorted({*held, *waited}):
        found = _job(key, held.get(key, []), waited.get(key, []), accounting, created.get(key), completed.get(key))
        promised, problems = _promised(found, labels.get(key, {}), declaration)
        jobs.append(promised)
        gaps += problems
    return ObservedJobs(jobs=tuple(sorted(jobs, key=lambda one: (one.created_ms, one.id))), gaps=tuple(gaps))


def _first(runs: RunsByKind, kind: RunKind) -> dict[tuple[str, str], int]:
    return {(run.namespace, run.pod): round(run.value) for run in runs.get(kind, ())}


def _labels(runs: RunsByKind) -> dict[tuple[str, str], dict[str, str]]:
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for run in runs.get(RunKind.JOB_LABEL, ()):
        found[run.namespace, run.pod][run.detail] = run.text
    return found


def _job(
    key: tuple[str, str],
    held: list[Holding],
    waited: list[Waiting],
    accounting: Accounting,
    created_ms: int | None,
    completed_ms: int | None,
) -> ObservedJob:
    namespace, name = key
    owner = (held or waited)[0].owner
    spans = [Window(one.from_ms, one.to_ms) for one in held for _ in range(one.devices)]
    earliest = min([*(one.from_ms for one in held), *(one.from_ms for one in waited)])
    starts = [one.running_ms if one.running_ms is not None else one.from_ms for one in held]
    ends = [one.to_ms for one in held]
    open_end = bool(held) and max(ends) >= accounting.window.to_ms
    ended = completed_ms if completed_ms is not None else (max(ends) if held and not open_end else None)
    flavors = {
        state.flavor
        for one in held
        if (state := accounting.nodes.at(one.node, one.from_ms)) is not None and state.flavor is not None
    }
    return ObservedJob(
        namespace=namespace,
        name=name,
        owner=owner,
        family=None,
        gpus=max(most_at_once(spans), sum({one.pod_key: one.devices for one in waited}.values()) if not held else 0),
        created_ms=created_ms if created_ms is not None else earliest,
        started_ms=min(starts) if starts else None,
        ended_ms=ended,
        run_ms=ended - max(starts) if starts and ended is not None and ended > max(starts) else None,
        flavors=tuple(sorted(flavors)),
    )


def _promised(job: ObservedJob, labels: Mapping[str, str], declaration: Declaration) -> tuple[ObservedJob, list[Gap]]:
    family = family_of(job.namespace, job.name, job.owner.workload, labels, declaration.batch)
    gaps: list[Gap] = []
    deadline: Deadline | None = family.deadline if family else None
    due: Deadline | None = family.due if family else None
    zone = parse_zone(declaration.reporting_zone)
    for annotation, label in ((_DEADLINE, "deadline"), (_DUE, "due")):
        text = _annotation(labels, annotation)
        if text is None:
            continue
        try:
            parsed = parse_deadline(text, label=label, zone=zone)
        except DeclarationError as err:
            gaps.append(Gap(reason=f"annotation {annotation}: {err.mistakes[0]}", where=job.id))
            continue
        deadline, due = (parsed, due) if label == "deadline" else (deadline, parsed)
    bound, cost = (_instant(one, job, declaration, gaps) for one in (deadline, due))
    return (
        ObservedJob(
            namespace=job.namespace,
            name=job.name,
            owner=job.owner,
            family=family.name if family else None,
            gpus=job.gpus,
            created_ms=job.created_ms,
            started_ms=job.started_ms,
            ended_ms=job.ended_ms,
            run_ms=job.run_ms,
            flavors=job.flavors,
            deadline_ms=bound,
            due_ms=cost,
        ),
        gaps,
    )


def _annotation(labels: Mapping[str, str], key: str) -> str | None:
    flat = "".join(letter if letter.isalnum() else "_" for letter in key)
    return labels.get(key) or labels.get(flat)


def _instant(written: Deadline | None, job: ObservedJob, declaration: Declaration, gaps: list[Gap]) -> int | None:
    if written is None:
        return None
    try:
        return deadline_ms(written, created_ms=job.created_ms, milestones=declaration.milestones)
    except DeclarationError as err:
        gaps.append(Gap(reason=str(err.mistakes[0]), where=job.id))
        return None


def family_of(
    namespace: str, name: str, workload: str, labels: Mapping[str, str], families: Iterable[BatchFamily]
) -> BatchFamily | None:
    """The declared family of a job: its namespace matches, and its labels, else its name, say so."""
    inside = [one for one in families if one.selector.namespace in (None, namespace)]
    labelled = [
        one
        for one in inside
        if one.selector.labels and all(_annotation(labels, key) == text for key, text in one.selector.labels.items())
    ]
    if labelled:
        return labelled[0]
    named = [one for one in inside if name == one.name or name.startswith(f"{one.name}-") or workload == one.name]
    if named:
        return max(named, key=lambda one: len(one.name))
    bare = [one for one in inside if not one.selector.labels and one.selector.namespace == namespace]
    return bare[0] if len(bare) == 1 and len(inside) == 1 else None
