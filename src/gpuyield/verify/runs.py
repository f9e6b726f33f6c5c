"""Runs: what a document says about when each job runs, held against the job itself and against capacity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any  # JSON has no narrower type than this.

from .problem import Job, Problem, Shape
from .quotas import Quotas
from .report import Refused
from .steps import Steps, fitting_spans
from .values import field, items, record, text, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A job in one of its shapes in one or more segments `(start, end)`, ms from the origin."""

    job: Job
    shape: Shape
    segments: tuple[tuple[int, int], ...]

    @property
    def start_ms(self) -> int:
        """When it starts."""
        return self.segments[0][0]

    @property
    def end_ms(self) -> int:
        """When it ends."""
        return self.segments[-1][1]

    @property
    def is_on_time(self) -> bool:
        """It meets its deadline and its due time, where it has them."""
        return self.job.wanted_ms is None or self.end_ms <= self.job.wanted_ms


def read_segments(problem: Problem, value: Any, where: str) -> tuple[tuple[int, int], ...]:
    """Segments in order: not empty, not overlapping."""
    found: list[tuple[int, int]] = []
    for at, entry in enumerate(items(value, where)):
        pair = items(entry, f"{where}[{at}]")
        if len(pair) != 2:
            raise Refused(f"{where}[{at}] is not [start, end].")
        start, end = problem.moment(pair[0], f"{where}[{at}][0]"), problem.moment(pair[1], f"{where}[{at}][1]")
        if start >= end:
            raise Refused(f"{where}[{at}] is empty.")
        if found and start < found[-1][1]:
            raise Refused(f"{where} overlap or are out of order.")
        found.append((start, end))
    return tuple(found)


def match_shape(job: Job, flavor: Any, gpus: Any, segments: tuple[tuple[int, int], ...]) -> Shape:
    """The shape a run has: its flavor, its GPUs, and segments as long as it takes, pauses included."""
    length = sum(end - start for start, end in segments)
    if len(segments) > 1:
        if job.restart_ms is None:
            raise Refused("It is paused, and it is not preemptible.")
        length -= (len(segments) - 1) * job.restart_ms
    named = [shape for shape in job.shapes if shape.flavor == flavor and type(gpus) is int and shape.gpus == gpus]
    if not named:
        raise Refused("It has no shape of this flavor and number of GPUs.")
    fitting = [shape for shape in named if shape.duration_ms == length]
    if not fitting:
        takes = " or ".join(sorted({f"{shape.duration_ms / 1000:g}" for shape in named}))
        raise Refused(f"It runs for {length / 1000:g} s and takes {takes} s.")
    return min(fitting, key=lambda shape: sorted(shape.demand.items()))


def check_run(run: Run) -> None:
    """A run keeps its release or fixed start, and its hard deadline."""
    job = run.job
    if job.fixed_ms is not None:
        if run.start_ms != job.fixed_ms:
            word = "started" if job.started_ms is not None else "is pinned"
            raise Refused(f"It {word} at {job.fixed_ms} ms from the origin and is planned at {run.start_ms} ms.")
    elif run.start_ms < job.earliest_ms:
        raise Refused(f"It starts {(job.earliest_ms - run.start_ms) / 1000:g} s before its release.")
    if job.deadline_ms is not None and run.end_ms > job.deadline_ms:
        raise Refused(f"It ends {(run.end_ms - job.deadline_ms) / 1000:g} s after its hard deadline.")


def check_order(runs: Mapping[str, Run], problem: Problem) -> None:
    """Every run starts when all its predecessors have ended."""
    for name, run in runs.items():
        for one in problem.jobs[name].after:
            before = runs.get(one)
            if before is None:
                raise Refused(f'"{name[:60]}" runs, and "{one[:60]}", which it waits for, does not.')
            if run.start_ms < before.end_ms:
                raise Refused(f'"{name[:60]}" starts before "{one[:60]}" ends, which it waits for.')


def check_capacity(runs: Iterable[Run], capacity: Mapping[str, Steps]) -> None:
    """At every instant from the origin on, no resource is held beyond what exists."""
    for resource, changes in _changes(runs).items():
        steps = capacity.get(resource)
        times = sorted({0, *changes, *(() if steps is None else (at for at in steps.times if at > 0))})
        load = 0
        for at in times:
            load += changes.get(at, 0)
            there = 0 if steps is None else steps.at(at)
            if load > there:
                raise Refused(f"{load} of {resource} are held {at / 1000:g} s after the origin, and {there} exist.")


def check_quotas(runs: Iterable[Run], quotas: Quotas) -> None:
    """At every instant from the origin on, every queue and cohort keeps its quotas, by Kueue's own rule."""
    changes: dict[int, list[tuple[str, str, int]]] = {}
    for run in runs:
        if run.job.queue is None:
            continue
        for start, end in run.segments:
            for resource, amount in run.shape.named.items() if end > 0 else ():
                changes.setdefault(max(0, start), []).append((run.job.queue, resource, amount))
                changes.setdefault(end, []).append((run.job.queue, resource, -amount))
    held: dict[str, dict[str, int]] = {}
    for at in sorted({0, *changes, *(at for at in quotas.times() if at > 0)}):
        for queue, resource, amount in changes.get(at, ()):
            row = held.setdefault(resource, {})
            row[queue] = row.get(queue, 0) + amount
        for resource, row in held.items():
            quotas.check(resource, row, at)


def left_by(runs: Iterable[Run], capacity: Mapping[str, Steps]) -> dict[str, Steps]:
    """What runs leave of each resource, from the origin on."""
    changes = _changes(runs)
    return {resource: _free(steps, changes.get(resource, {})) for resource, steps in capacity.items()}


def has_room(job: Job, runs: Mapping[str, Run], free: dict[str, Steps]) -> bool:
    """Whether a job that does not run would fit, in one piece, in what the runs leave, behind its predecessors."""
    ready = max([job.earliest_ms, *(runs[one].end_ms for one in job.after if one in runs)])
    for shape in job.shapes:
        for low, high in fitting_spans(free, shape.demand).after(ready):
            start = max(low, ready)
            fixed = job.fixed_ms is not None and start > job.fixed_ms
            if not fixed and high - start >= shape.duration_ms:
                return True
    return False


def _free(steps: Steps, changes: Mapping[int, int]) -> Steps:
    found, load = [], 0
    for at in sorted({0, *changes, *(at for at in steps.times if at > 0)}):
        load += changes.get(at, 0)
        found.append((at, steps.at(at) - load))
    return Steps(found)


def peak(runs: Iterable[Run], resource: str) -> int:
    """The most of a resource that is held at once from the origin on."""
    changes = _changes(runs).get(resource, {})
    load = most = 0
    for at in sorted(changes):
        load += changes[at]
        most = max(most, load)
    return most


def _changes(runs: Iterable[Run]) -> dict[str, dict[int, int]]:
    """Per resource, by how much the load changes at an instant; what was before the origin counts at it."""
    found: dict[str, dict[int, int]] = {}
    for run in runs:
        for start, end in run.segments:
            if end <= 0:
                continue
            for resource, amount in run.shape.demand.items():
                changes = found.setdefault(resource, {})
                low = max(0, start)
                changes[low] = changes.get(low, 0) + amount
                changes[end] = changes.get(end, 0) - amount
    return found


def witnessed_runs(problem: Problem, planned: Mapping[str, Run], witness: Any, where: str) -> dict[str, Run]:
    """The runs of another plan: the document's, with those that the witness names replaced.

    An entry is a start (a run in one piece, in the planned shape, or the only one) or
    `{flavor, gpus, segments}`. Runs of jobs that the problem does not have are left out.
    """
    runs = {
        name: Run(job=problem.jobs[name], shape=run.shape, segments=run.segments)
        for name, run in planned.items()
        if name in problem.jobs
    }
    for name, entry in record(witness, where).items():
        at = f"{where}[{name[:60]}]"
        job = problem.jobs.get(name)
        if job is None:
            raise Refused(f"{at} is no job of this problem.")
        if isinstance(entry, dict):
            segments = read_segments(problem, field(entry, "segments", at), f"{at}.segments")
            if not segments:
                raise Refused(f"{at} has no segments.")
            gpus = whole(field(entry, "gpus", at), f"{at}.gpus")
            runs[name] = Run(
                job=job, shape=match_shape(job, field(entry, "flavor", at), gpus, segments), segments=segments
            )
            continue
        if name in planned:
            shape = planned[name].shape
        elif len(job.shapes) == 1:
            shape = job.shapes[0]
        else:
            raise Refused(f"{at} does not say which shape: write flavor, gpus and segments.")
        start = problem.moment(text(entry, at), at)
        runs[name] = Run(job=job, shape=shape, segments=((start, start + shape.duration_ms),))
    return runs


def replay(problem: Problem, runs: Mapping[str, Run]) -> None:
    """All jobs of the problem run, on its capacity, in their order, and meet their hard deadlines."""
    missing = next((name for name in problem.jobs if name not in runs), None)
    if missing is not None:
        raise Refused(f'It does not run "{missing[:60]}".')
    for name, run in runs.items():
        try:
            check_run(run)
        except Refused as err:
            raise Refused(f'"{name[:60]}": {err}') from err
    check_order(runs, problem)
    check_capacity(runs.values(), problem.capacity)
