"""The jobs of a plan document: every job once, each with a status that its run or its absence bears out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any  # JSON has no narrower type than this.

from .alone import Alone, is_impossible
from .frame import Frame
from .problem import Job, Problem
from .report import Findings, Refused
from .runs import Run, check_run, has_room, left_by, match_shape, read_segments
from .steps import Steps
from .values import choice, items, number, record, seconds_ms, text
from .values import field as needed

JOB_STATUSES = ("planned", "late", "dropped", "impossible")


@dataclass(slots=True, kw_only=True)
class PlanJobs:
    """What the document says of the jobs; `given_up` are those without a run."""

    runs: dict[str, Run] = field(default_factory=dict)
    given_up: dict[str, str] = field(default_factory=dict)


def read_jobs(document: dict[str, Any], problem: Problem, frame: Frame, alone: Alone, findings: Findings) -> PlanJobs:
    """Check `jobs`; `frame` and `alone` are of the problem with the capacity that holds for the plan."""
    found = PlanJobs()
    reader = _Reader(problem=problem, frame=frame, alone=alone, jobs=found)
    before = len(findings.refused)
    entries = items(needed(document, "jobs", "the document"), "jobs")
    seen: set[str] = set()
    for at, entry in enumerate(entries):
        where = f"jobs[{at}]"
        try:
            listed = record(entry, where)
            name = text(needed(listed, "id", where), f"{where}.id")
            where = f"jobs[{name[:60]}]"
            if name in seen:
                raise Refused("It is listed twice.")
            seen.add(name)
            if name not in problem.jobs:
                raise Refused("The inputs have no such job.")
            reader.read(listed, problem.jobs[name])
        except Refused as err:
            findings.refuse(where, str(err))
    for name in problem.jobs:
        if name not in seen:
            findings.refuse("jobs", f'"{name[:60]}" of the inputs is missing.')
    if len(findings.refused) == before:
        findings.vouch(f"jobs: each of {len(problem.jobs)} once, with its status and times")
    return found


def check_dropped(jobs: PlanJobs, problem: Problem, capacity: Mapping[str, Steps]) -> None:
    """Only a hard deadline is given up; a job without one goes only with one that it waits for, or for want of room."""
    unbound = [
        job
        for job in (problem.jobs[name] for name, status in jobs.given_up.items() if status == "dropped")
        if job.deadline_ms is None and not any(one in jobs.given_up for one in job.after)
    ]
    free = left_by(jobs.runs.values(), capacity) if unbound else {}
    for job in unbound:
        if has_room(job, jobs.runs, free):
            raise Refused(f'"{job.id[:60]}" has no hard deadline, is dropped, and there is room for it.')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    problem: Problem
    frame: Frame
    alone: Alone
    jobs: PlanJobs

    def read(self, listed: dict[str, Any], job: Job) -> None:
        status = choice(needed(listed, "status", "It"), "status", JOB_STATUSES)
        self._check_times(listed, job)
        segments = read_segments(self.problem, needed(listed, "segments", "It"), "segments")
        if status in ("dropped", "impossible"):
            self._read_given_up(listed, job, status, segments)
            return
        if not segments:
            raise Refused(f"It is {status} and has no segments.")
        gpus, flavor = needed(listed, "gpus", "It"), needed(listed, "flavor", "It")
        run = Run(job=job, shape=match_shape(job, flavor, gpus, segments), segments=segments)
        check_run(run)
        late_ms = max(0, run.end_ms - job.due_ms) if job.due_ms is not None else 0
        if seconds_ms(needed(listed, "late_s", "It"), "late_s") != late_ms:
            raise Refused(f"late_s is not {late_ms / 1000:g}.")
        if (status == "late") != (late_ms > 0):
            raise Refused(f"It is {status} and ends {late_ms / 1000:g} s after its due time.")
        self._check_slack(listed, run)
        self.jobs.runs[job.id] = run

    def _check_times(self, listed: dict[str, Any], job: Job) -> None:
        for name, limit in (("deadline", job.deadline_ms), ("due", job.due_ms)):
            if name not in listed and name == "due":
                continue
            value = needed(listed, name, "It")
            if (None if value is None else self.problem.moment(value, name)) != limit:
                raise Refused(f"{name} is not that of the inputs.")
        p_late = listed.get("p_late")
        if p_late is not None and not 0 <= number(p_late, "p_late") <= 1:
            raise Refused("p_late is no probability.")
        for name in ("why", "moved_because"):
            if listed.get(name) is not None:
                text(listed[name], name)

    def _check_slack(self, listed: dict[str, Any], run: Run) -> None:
        value = needed(listed, "slack_s", "It")
        limits = [run.job.deadline_ms] if run.job.deadline_ms is not None else [None, run.job.due_ms]
        right = {None if limit is None else limit - run.end_ms for limit in limits}
        if run.job.started_ms is not None and run.end_ms <= 0:
            right.add(None)  # It is over by its run time alone: nobody knows whether it still runs.
        if (None if value is None else seconds_ms(value, "slack_s")) not in right:
            raise Refused("slack_s is not the time from its end to its deadline.")

    def _read_given_up(
        self, listed: dict[str, Any], job: Job, status: str, segments: tuple[tuple[int, int], ...]
    ) -> None:
        if segments:
            raise Refused(f"It is {status} and has segments.")
        for name in ("flavor", "gpus", "slack_s", "late_s"):
            needed(listed, name, "It")
        if listed["slack_s"] is not None:
            raise Refused("slack_s is not null, and it does not run.")
        if listed["late_s"] not in (None, 0) or isinstance(listed["late_s"], bool):
            raise Refused("late_s is not null, and it does not run.")
        flavor, gpus = listed["flavor"], listed["gpus"]
        if flavor is not None and flavor not in [shape.flavor for shape in job.shapes]:
            raise Refused("It has no such flavor.")
        if gpus is not None and (type(gpus) is not int or gpus not in [shape.gpus for shape in job.shapes]):
            raise Refused("It has no shape of so many GPUs.")
        hopeless = is_impossible(self.alone, self.frame, job)
        if status == "impossible" and not hopeless:
            raise Refused("It is said to be impossible, and alone it meets its deadline.")
        if status == "dropped" and hopeless:
            raise Refused("It is said to be dropped, and it is impossible even alone.")
        self.jobs.given_up[job.id] = status
