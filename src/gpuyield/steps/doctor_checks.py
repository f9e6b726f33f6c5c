"""The checks of doctor: what was found, against what certainty needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gpuyield.collect.look import Look
from gpuyield.collect.look_scrapes import Scrapes
from gpuyield.errors import GpuyieldError
from gpuyield.ledger.tables import Activity, RunKind
from gpuyield.model.declaration import Declaration, Rules
from gpuyield.report.screens.doctor import LEDGER, Check, State
from gpuyield.report.sentences import count, listed
from gpuyield.report.tables import format_span
from gpuyield.steps.declared_work import last_seen_ms
from gpuyield.steps.evidence import Evidence
from gpuyield.steps.needs import BETTER_ACTIVITY, NEEDS, POD_LABELS, Need
from gpuyield.steps.unpromised import Promising, Undeclared
from gpuyield.units import DAY_MS, HOUR_MS, format_duration

_WANTED_MS = 14 * DAY_MS
_WEEK_MS = 7 * DAY_MS
_SKEW_MS = 5_000
_MOSTLY = 0.9
_LABELS = (RunKind.POD_LABEL, RunKind.NODE_LABEL)
_GOOD_ACTIVITY = (Activity.SM_ACTIVE, Activity.GR_ENGINE_ACTIVE)


def failed(what: str, err: GpuyieldError, cost: str) -> Check:
    """A source that does not answer."""
    mistake = err.mistakes[0]
    return Check(
        what=what,
        state=State.FAILED,
        found="no answer",
        cost=f"{mistake.what} {cost}",
        fix=mistake.fix,
        mistake=mistake,
    )


def of_store(found: Look, rules: Rules, now_ms: int) -> list[Check]:
    """Whether the metrics store holds this cluster, since when, and how it is filled."""
    product = f"{found.build.product} {found.build.version}".strip()
    if found.newest_ms is None:
        return [
            Check(
                what="Prometheus",
                state=State.MISSING,
                found=f"{product}, nothing about GPUs in it",
                cost="Neither kube-state-metrics nor a GPU exporter has samples there: everything is unknown.",
                fix="Is it the right Prometheus, and does it scrape kube-state-metrics and dcgm-exporter?",
            )
        ]
    return [
        _age(product, now_ms - found.newest_ms),
        _history(found, now_ms),
        *(_interval(one, rules) for one in found.scrapes),
        *(_copies(one) for one in found.scrapes),
        _clock(found.clock_ahead_ms),
    ]


def _age(product: str, age_ms: int) -> Check:
    if age_ms <= HOUR_MS:
        return Check(what="Prometheus", found=product)
    return Check(
        what="Prometheus",
        state=State.DOUBTFUL,
        found=f"{product}, newest sample {format_span(age_ms)} old",
        cost="What happened since is unknown.",
        fix="Is Prometheus still scraping? See its page of targets.",
    )


def _history(found: Look, now_ms: int) -> Check:
    if found.first_ms is None:
        return Check(what="history", state=State.MISSING, found="not known", cost="How far back it reaches is unknown.")
    length_ms = max(0, (found.newest_ms or now_ms) - found.first_ms)
    words = f"{format_span(length_ms)}"
    if length_ms >= _WEEK_MS:
        return Check(what="history", found=words)
    full = datetime.fromtimestamp((found.first_ms + _WANTED_MS) // 1000, UTC)
    return Check(
        what="history",
        state=State.DOUBTFUL,
        found=words,
        cost="A weekly rhythm cannot be seen.",
        fix=f"Collect daily: 14 d are possible from {full.day} {full:%b}.",
    )


def _interval(one: Scrapes, rules: Rules) -> Check:
    what = f"samples of {one.exporter}"
    if one.interval_ms is None:
        return Check(what=what, state=State.DOUBTFUL, found="one sample", cost="Their distance is unknown.")
    words = f"every {format_duration(one.interval_ms)}"
    if one.interval_ms > rules.gap_limit_ms:
        return Check(
            what=what,
            state=State.DOUBTFUL,
            found=words,
            cost=f"They are further apart than gap_limit ({format_duration(rules.gap_limit_ms)}): the time between is"
            " unobserved.",
            fix="Scrape more often, or raise rules: {gap_limit: ...}.",
            names=(one.metric,),
        )
    return Check(what=what, found=words, names=(one.metric,))


def _copies(one: Scrapes) -> Check:
    what = f"copies of {one.exporter}"
    if one.copies == 1:
        return Check(what=what, found="each fact is told once", names=(one.metric,))
    return Check(
        what=what,
        state=State.DOUBTFUL,
        found=f"each fact is told {one.copies} times",
        cost=f"They are counted once here; sums in dashboards are {one.copies} times too high.",
        fix=f"Is {one.exporter} scraped by two jobs, or does it run twice?",
        names=(one.metric,),
    )


def _clock(ahead_ms: int | None) -> Check:
    if ahead_ms is None:
        return Check(what="clock", found="Prometheus does not tell its time")
    if abs(ahead_ms) < _SKEW_MS:
        return Check(what="clock", found="the same as here")
    words = f"{format_span(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
    return Check(
        what="clock",
        state=State.DOUBTFUL,
        found=words,
        cost="The newest samples are left for the next collection, and ages are off by as much.",
        fix="Set both clocks by NTP.",
    )


def of_metrics(found: Look, present: Collection[str]) -> list[Check]:
    """What is told by which metric; `present` are the names that were there within a day."""
    checks = [_need(need, found, present) for need in NEEDS]
    activity = [kind for kind in Activity if kind in found.names]
    if activity and not any(kind in _GOOD_ACTIVITY for kind in activity):
        checks.append(_lacking(BETTER_ACTIVITY, found=", ".join(found.names[activity[0]])))
    if found.cards:
        if found.has_pod_labels:
            checks.append(Check(what=POD_LABELS.what, found="present"))
        elif found.owners:
            checks.append(_lacking(POD_LABELS, found="none"))
    return checks


def _need(need: Need, found: Look, present: Collection[str]) -> Check:
    used = [name for kind in need.kinds for name in found.names.get(kind, ())]
    told_lately = [name for name in need.metrics if name in present]
    # kube_pod_labels is there without any label in it, and nothing tells of pods where no pod holds a GPU.
    is_label = any(kind in _LABELS for kind in need.kinds) and bool(found.owners)
    names = tuple(dict.fromkeys(used or ([] if is_label else told_lately)))
    if names:
        return Check(what=need.what, found=", ".join(names), names=names)
    return _lacking(need, found=f"none of {listed(need.metrics, most=4)}")


def _lacking(need: Need, *, found: str) -> Check:
    return Check(what=need.what, state=State.MISSING, found=found, cost=need.cost, fix=need.fix)


def of_ledger(evidence: Evidence | None, ledger_root: Path, now_ms: int) -> list[Check]:
    """What was collected, up to when, and whether any outcome is known."""
    if evidence is None:
        return [
            Check(
                what=LEDGER,
                state=State.MISSING,
                found=f"nothing in {ledger_root}",
                cost="What Prometheus forgets is lost, and nothing can be answered yet.",
                fix="Run gpuyield collect --window 14d.",
            )
        ]
    window = evidence.window
    age_ms = max(0, now_ms - window.to_ms)
    is_old = age_ms > 2 * DAY_MS
    age = f", up to {format_span(age_ms)} ago" if age_ms else ""
    checks = [
        Check(
            what=LEDGER,
            state=State.DOUBTFUL if is_old else State.OK,
            found=f"{format_span(window.length_ms)}{age}",
            cost="What happened since is unknown, and what Prometheus forgets is lost." if is_old else "",
            fix="Run gpuyield collect daily." if is_old else "",
        )
    ]
    if evidence.judged is None:
        checks.append(
            Check(
                what="outcomes",
                state=State.MISSING,
                found="none imported",
                cost="Busy time stays unjudged, and cost per verified outcome is unknown.",
                fix="gpuyield outcomes import --help.",
            )
        )
    else:
        checks.append(Check(what="outcomes", found=f"{len(evidence.judged.attempts):,} attempts"))
    return checks


def of_promises(promised: Promising | None) -> list[Check]:
    """How much of the held GPU time is under an objective or a deadline, and whose is not."""
    if promised is None or promised.declared_share is None:
        return []
    share = promised.declared_share
    is_most = share >= _MOSTLY
    checks = [
        Check(
            what="declared share",
            state=State.OK if is_most else State.MISSING,
            found=f"{share:.0%} of held GPU-hours have a deadline or an objective",
            cost="" if is_most else "For the rest nobody can say whether waiting or idling harms.",
            fix="" if is_most else "Declare what is listed below, the largest first.",
        )
    ]
    if promised.services:
        checks.append(
            Check(
                what="objectives",
                state=State.MISSING,
                found=_most(promised, promised.services, count(len(promised.services), "service")),
                cost="Whether they need the GPUs they hold is unknown.",
                fix="Add objectives under services.",
            )
        )
    else:
        checks.append(Check(what="objectives", found="every service has one"))
    if promised.batch:
        jobs = sum(one.jobs or 0 for one in promised.batch)
        checks.append(
            Check(
                what="deadlines",
                state=State.MISSING,
                found=_most(promised, promised.batch, count(jobs, "job")),
                cost="Whether their waiting harmed is unknown.",
                fix="Add a deadline under batch, or annotate the jobs: gpuyield.dev/deadline.",
            )
        )
    else:
        checks.append(Check(what="deadlines", found="every job has one"))
    return checks


def _most(promised: Promising, lacking: Sequence[Undeclared], counted: str) -> str:
    share = sum(promised.share(one) for one in lacking)
    return f"{counted} without, {share:.0%} of GPU-hours: {listed([one.name for one in lacking], most=4)}"


def of_prices(declared: Declaration, evidence: Evidence | None) -> list[Check]:
    """Whether every flavor that was seen has a price."""
    if evidence is not None:
        at_ms = last_seen_ms(evidence)
        lacking = sorted(
            {one for one in evidence.accounting.cells.flavors if not evidence.book.flavor_price(one, at_ms)}
        )
    else:
        lacking = [] if declared.prices else ["any flavor"]
    if not lacking:
        return [Check(what="prices", found="every flavor has one")]
    return [
        Check(
            what="prices",
            state=State.MISSING,
            found=f"none for {listed(lacking)}",
            cost="Their cost is shown as not known, not as 0.",
            fix="Add them under prices.",
        )
    ]
