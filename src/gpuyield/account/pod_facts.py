"""What kube-state-metrics tells of each pod: requests, phases, printed times, owners and labels."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from gpuyield.account.facts import Fact, Run, RunsByKind, Timeline, timelines
from gpuyield.ledger.tables import RunKind
from gpuyield.units import Window, merge_windows

PRINTED_TIMES = (
    RunKind.POD_CREATED,
    RunKind.POD_SCHEDULED,
    RunKind.POD_STARTED,
    RunKind.POD_COMPLETED,
    RunKind.CONTAINER_STARTED,
    RunKind.CONTAINER_TERMINATED,
)
"""The times that kube-state-metrics prints of a pod."""


class PodFacts:
    """The facts of all pods, by pod."""

    def __init__(self, runs: RunsByKind, gap_limit_ms: int) -> None:
        self.requests = self._lines(runs, RunKind.POD_REQUEST, gap_limit_ms, by=("container", "resource"))
        self.init_requests = self._lines(runs, RunKind.POD_INIT_REQUEST, gap_limit_ms, by=("container", "resource"))
        self.phases = self._lines(runs, RunKind.POD_PHASE, gap_limit_ms, by=("detail",))
        self.sidecars = {(run.pod_key, run.container): run.value >= 1 for run in runs.get(RunKind.POD_SIDECAR, ())}
        self.times = {kind: _times(runs.get(kind, ())) for kind in PRINTED_TIMES}
        self.completion_shown_ms = self._shown_ms(runs.get(RunKind.POD_COMPLETED, ()))
        self.owners = {run.pod_key: (run.detail, run.text) for run in runs.get(RunKind.POD_OWNER, ())}
        self.job_owners = {(run.namespace, run.pod): (run.detail, run.text) for run in runs.get(RunKind.JOB_OWNER, ())}
        self.suspended = _suspensions(runs, gap_limit_ms)
        self.labels: dict[str, dict[str, str]] = defaultdict(dict)
        for run in runs.get(RunKind.POD_LABEL, ()):
            self.labels[run.pod_key][label_key(run.detail)] = run.text
        self.nodes: dict[str, str] = {}
        self.names: dict[str, tuple[str, str, str]] = {}
        for kind in (RunKind.POD_REQUEST, RunKind.POD_INIT_REQUEST):
            for run in runs.get(kind, ()):
                self.names[run.pod_key] = (run.namespace, run.pod, run.uid)
                if run.node:
                    self.nodes[run.pod_key] = run.node

    @staticmethod
    def _lines(
        runs: RunsByKind, kind: RunKind, gap_limit_ms: int, *, by: Sequence[str]
    ) -> dict[str, dict[tuple[str, ...], Timeline]]:
        groups: dict[tuple[str, tuple[str, ...]], list[Run]] = defaultdict(list)
        for run in runs.get(kind, ()):
            # What a request changes to is the node; no other pod fact has one.
            told = replace(run, text=run.node) if "resource" in by else run
            groups[run.pod_key, tuple(str(getattr(run, name)) for name in by)].append(told)
        found: dict[str, dict[tuple[str, ...], Timeline]] = defaultdict(dict)
        for (pod, rest), line in timelines(groups, gap_limit_ms).items():
            found[pod][rest] = line
        return found

    def _shown_ms(self, completions: Sequence[Run]) -> dict[str, int]:
        """When the latest time of completion of each pod was first printed."""
        shown: dict[str, int] = {}
        for run in completions:
            latest_ms = self.last(RunKind.POD_COMPLETED, run.pod_key)
            if latest_ms is not None and latest_ms <= run.value < latest_ms + 1:
                shown[run.pod_key] = min(run.from_ms, shown.get(run.pod_key, run.from_ms))
        return shown

    def first(self, kind: RunKind, pod: str) -> int | None:
        """The earliest time of a kind that is printed of a pod."""
        found = self.times[kind].get(pod)
        return found[0] if found else None

    def last(self, kind: RunKind, pod: str) -> int | None:
        """The latest time of a kind that is printed of a pod."""
        found = self.times[kind].get(pod)
        return found[1] if found else None

    def of_phases(self, pod: str, *phases: str) -> list[Fact]:
        """When a pod was in one of these phases."""
        lines = self.phases.get(pod, {})
        return [fact for (phase,), line in lines.items() if phase in phases for fact in line.facts if fact.value >= 1]

    def requested(self, pod: str) -> list[Fact]:
        """When a pod's requests were listed; the text of a fact is the node, "" until it is placed."""
        lines = (*self.requests.get(pod, {}).values(), *self.init_requests.get(pod, {}).values())
        return [fact for line in lines for fact in line.facts]

    def resources(self, pod: str) -> set[str]:
        """The resources that a pod asks for."""
        return {rest[1] for lines in (self.requests, self.init_requests) for rest in lines.get(pod, {})}


def label_key(key: str) -> str:
    """A label's key as exporters print it: `gpuyield.dev/team` and `label_gpuyield_dev_team` are the same."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", key).removeprefix("label_")


def may_be_true(printed: Run) -> bool:
    """Whether a time is printed that may be true.

    None can be later than the sample that prints it, by more than an interval (a scrape takes its time, and clocks
    differ a little).
    """
    return 0 < printed.value <= printed.from_ms + printed.interval_ms


def _suspensions(runs: RunsByKind, gap_limit_ms: int) -> dict[tuple[str, str], list[Window]]:
    """When each Job was suspended."""
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs.get(RunKind.JOB_SUSPENDED, ()):
        groups[run.namespace, run.pod].append(run)
    return {
        job: merge_windows(fact.window for fact in line.facts if fact.value >= 1)
        for job, line in timelines(groups, gap_limit_ms).items()
    }


def _times(runs: Sequence[Run]) -> dict[str, tuple[int, int]]:
    """The earliest and the latest of the times that are printed of each pod, of those that may be true."""
    found: dict[str, tuple[int, int]] = {}
    for run in runs:
        if may_be_true(run):
            at_ms = int(run.value)
            low, high = found.get(run.pod_key, (at_ms, at_ms))
            found[run.pod_key] = (min(low, at_ms), max(high, at_ms))
    return found
