"""Why work waited in a window."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from gpuyield.account import observed_jobs
from gpuyield.decide.live.queue import live_queue_document
from gpuyield.decide.live.waiting import waiting_now
from gpuyield.decide.queue import explain_queue
from gpuyield.decide.waits import JobFacts, blind_windows, supplies_of, waits_of
from gpuyield.model.queue import Queue
from gpuyield.report.answer import Answer
from gpuyield.report.screens.queue import queue_answer as answer_of
from gpuyield.report.screens.waiting import live_queue_answer
from gpuyield.steps.evidence import Evidence, gather_chosen
from gpuyield.steps.kueue_counts import kueue_counts
from gpuyield.steps.live import LiveCluster, live_cluster
from gpuyield.steps.observed import jobs_on_time
from gpuyield.steps.plan import make
from gpuyield.steps.setting import chosen_window, keys, read_setting
from gpuyield.units import parse_zone

_TIME_LIMIT = "10s"


def queue_answer(
    *, file: Path, ledger_root: Path, window: str | None, begin: str | None, end: str | None, by: str | None
) -> Answer:
    """The answer of `gpuyield queue`: without a window, of the jobs that wait now where the live cluster is read."""
    if (window, begin, end) == (None, None, None):
        found = live_cluster(file=file, ledger_root=ledger_root)
        if found is not None:
            return _live_answer(found, folder=file.parent, by=keys(by))
    setting = read_setting(file, ledger_root)
    evidence = gather_chosen(setting, chosen_window(setting, window=window, begin=begin, end=end))
    asked = queued(evidence, by=keys(by), on_time=jobs_on_time(evidence))
    return answer_of(replace(asked, gaps=(*evidence.lacks, *asked.gaps)), zone=setting.zone)


def _live_answer(found: LiveCluster, *, folder: Path, by: tuple[str, ...]) -> Answer:
    live = found.live
    plan = make(live.problem, seed=0, time_limit=_TIME_LIMIT).plan
    counts, lacks = kueue_counts(found.declaration, folder=folder, now_ms=live.seen.at_ms)
    document = live_queue_document(
        waiting_now(live, plan), at_ms=live.seen.at_ms, by=by, counts=counts, gaps=(*live.gaps, *lacks)
    )
    return live_queue_answer(document, zone=parse_zone(found.declaration.reporting_zone))


def queued(evidence: Evidence, *, by: tuple[str, ...] = (), on_time: Collection[str] | None = None) -> Queue:
    """Waiting GPU time by cause; `on_time` are the jobs that our plan runs in time on the same GPUs."""
    ran = {(one.namespace, one.name): one for one in observed_jobs(evidence.accounting)}

    def facts_of(namespace: str, name: str) -> JobFacts | None:
        promised = evidence.promises.jobs.get((namespace, name))
        if promised is None:
            return None
        job = ran.get((namespace, name))
        return JobFacts(
            due_ms=promised.limit_ms,
            created_ms=promised.created_ms,
            finished_ms=promised.completed_ms if promised.completed_ms is not None else (job.ended_ms if job else None),
            shortest_ms=job.run_ms if job else None,
            family=promised.family,
        )

    accounting = evidence.accounting
    inventory = evidence.setting.declaration.inventory
    return explain_queue(
        waits_of(
            accounting,
            facts_of,
            evidence.window.to_ms,
            declared_width=max((one.gpus // (one.nodes or 1) for one in inventory), default=0),
        ),
        supplies_of(accounting),
        evidence.window,
        on_time=on_time,
        by=by,
        blind=blind_windows(accounting),
    )
