"""Which sources answer, what is missing, and what each gap costs in certainty."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpuyield.account import summarise
from gpuyield.collect import names
from gpuyield.collect.connect import opencost as connect_opencost
from gpuyield.errors import GpuyieldError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RunKind
from gpuyield.model.declaration import Declaration
from gpuyield.report.answer import Answer
from gpuyield.report.screens.doctor import Check, NodeHours, State, doctor_answer
from gpuyield.steps.decide import coverage, last_seen_ms, service_name
from gpuyield.steps.evidence import Evidence, gather
from gpuyield.steps.look import connect, history
from gpuyield.steps.setting import Setting, chosen_window, covered, read_declaration, wall_clock_ms
from gpuyield.units import DAY_MS, HOUR_MS, Window, format_duration, gpu_hours

Tell = Callable[[str], None]
SOURCE_FAILED = 3


@dataclass(frozen=True, slots=True)
class Need:
    """Metrics of which one is needed, and what is lost without any."""

    what: str
    names: tuple[str, ...]
    cost: str


def _state_names(*kinds: RunKind) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.name for one in names.STATE_NAMES if one.kind in kinds))


NEEDS: tuple[Need, ...] = (
    Need(
        "GPU requests of pods",
        _state_names(RunKind.POD_REQUEST),
        "Who holds GPUs is not known: nothing is allocated. Install kube-state-metrics, or let Prometheus scrape it.",
    ),
    Need("phases of pods", _state_names(RunKind.POD_PHASE), "Held and finished pods cannot be told apart."),
    Need(
        "times of scheduling",
        _state_names(RunKind.POD_SCHEDULED),
        "Starts of holds are known only to one scrape: allocated time is bounded, not measured.",
    ),
    Need(
        "starts of containers",
        _state_names(RunKind.CONTAINER_STARTED),
        "Starting and running are told apart only by the phase, to one scrape.",
    ),
    Need(
        "capacity of nodes",
        _state_names(RunKind.NODE_CAPACITY, RunKind.NODE_ALLOCATABLE),
        "Only GPUs that pods hold are counted: unallocated and unavailable are not known.",
    ),
    Need(
        "states of nodes",
        _state_names(RunKind.NODE_READY, RunKind.NODE_CORDONED),
        "Unavailable cards count as unallocated.",
    ),
    Need(
        "labels of nodes",
        (names.NODE_LABEL_NAME.name,),
        "GPUs have no flavor, so they have no price. Allow nvidia.com/gpu.* in --metric-labels-allowlist=nodes=[...].",
    ),
    Need(
        "activity of cards",
        tuple(one.name for one in names.ACTIVITY_NAMES),
        "All held GPU time is unobserved: neither idle nor busy is known. Install dcgm-exporter.",
    ),
    Need(
        "owners of pods",
        _state_names(RunKind.POD_OWNER),
        "Workloads are single pods: retries and replicas cannot be put together.",
    ),
    Need(
        "labels of pods",
        ("kube_pod_labels",),
        "Teams come from namespaces only. Allow the team label in --metric-labels-allowlist=pods=[team].",
    ),
    Need(
        "times of jobs",
        _state_names(RunKind.JOB_CREATED, RunKind.JOB_COMPLETED),
        "When a job was submitted is taken from its pods: waiting before the first pod is not seen.",
    ),
)


def doctor(*, file: Path, ledger_root: Path, opencost: bool, tell: Tell) -> Answer:
    """The answer of `gpuyield doctor`."""
    declared = read_declaration(file)
    now_ms = wall_clock_ms()
    checks: list[Check] = []
    tell("asking Prometheus")
    failed = _prometheus(declared, folder=file.parent, now_ms=now_ms, checks=checks)
    evidence = _evidence(declared, ledger_root, file.parent)
    checks += _ledger(evidence, ledger_root, now_ms)
    checks += _declared(declared, evidence)
    compared: tuple[NodeHours, ...] = ()
    if declared.sources.opencost is not None:
        tell("asking OpenCost")
        failed |= _opencost(declared, folder=file.parent, now_ms=now_ms, checks=checks)
    if opencost:
        compared = _compare(declared, evidence, file.parent)
    return doctor_answer(tuple(checks), compared, exit_code=SOURCE_FAILED if failed else 0)


def _prometheus(declared: Declaration, *, folder: Path, now_ms: int, checks: list[Check]) -> bool:
    endpoint = declared.sources.prometheus
    if endpoint is None:
        cost = "Nothing can be collected. Run gpuyield init."
        checks.append(Check(what="Prometheus", state=State.MISSING, found="not declared", cost=cost))
        return False
    context = declared.sources.kubernetes.context if declared.sources.kubernetes else None
    try:
        source = connect(endpoint, context=context, folder=folder)
        build = source.build()
        span = history(source, now_ms)
    except GpuyieldError as err:
        checks.append(Check(what="Prometheus", state=State.FAILED, found="no answer", cost=str(err.mistakes[0])))
        return True
    product = f"{build.product} {build.version}".strip()
    if span is None:
        cost = "No node of a cluster is in it: is it the right Prometheus, and does it scrape kube-state-metrics?"
        checks.append(Check(what="Prometheus", state=State.MISSING, found=product, cost=cost))
        return False
    age_ms = now_ms - span.to_ms
    days = f"{product}, {span.length_ms / DAY_MS:.1f} d of history"
    stale = f"Its newest sample is {format_duration(age_ms // 60_000 * 60_000)} old." if age_ms > HOUR_MS else ""
    state = State.MISSING if stale else State.OK
    checks.append(Check(what="Prometheus", state=state, found=days, cost=stale))
    last = Window(max(span.from_ms, span.to_ms - HOUR_MS), span.to_ms)
    present = source.names(names.ALL_NAMES, last)
    for need in NEEDS:
        used = [name for name in need.names if name in present]
        checks.append(
            Check(
                what=need.what,
                state=State.OK if used else State.MISSING,
                found=used[0] if used else f"none of {', '.join(need.names[:3])}",
                cost="" if used else need.cost,
            )
        )
    return False


def _opencost(declared: Declaration, *, folder: Path, now_ms: int, checks: list[Check]) -> bool:
    assert declared.sources.opencost is not None
    day = now_ms - now_ms % DAY_MS
    try:
        source = connect_opencost(
            declared.sources.opencost,
            context=declared.sources.kubernetes.context if declared.sources.kubernetes else None,
            folder=folder,
            environment=os.environ,
            home=Path.home(),
        )
        nodes = source.nodes(Window(day - DAY_MS, day))
    except GpuyieldError as err:
        checks.append(Check(what="OpenCost", state=State.FAILED, found="no answer", cost=str(err.mistakes[0])))
        return True
    cost = "" if nodes else "It has no nodes of yesterday: prices come from gpuyield.yaml only."
    state = State.OK if nodes else State.MISSING
    checks.append(Check(what="OpenCost", state=state, found=f"{len(nodes)} nodes yesterday", cost=cost))
    return False


def _evidence(declared: Declaration, ledger_root: Path, folder: Path) -> Evidence | None:
    if not ledger_root.is_dir():
        return None
    setting = Setting(declaration=declared, ledger=Ledger.existing(ledger_root), folder=folder)
    if covered(setting.ledger) is None:
        return None
    return gather(setting, chosen_window(setting, window=None, begin=None, end=None))


def _ledger(evidence: Evidence | None, ledger_root: Path, now_ms: int) -> list[Check]:
    if evidence is None:
        cost = "Nothing was collected yet. Run gpuyield collect --window 14d."
        return [Check(what="ledger", state=State.MISSING, found=str(ledger_root), cost=cost)]
    window = evidence.window
    age_ms = max(0, now_ms - window.to_ms)
    found = f"{window.length_ms / DAY_MS:.1f} d, up to {format_duration(age_ms // HOUR_MS * HOUR_MS)} ago"
    cost = "Collect daily: what Prometheus forgets is lost." if age_ms > 2 * DAY_MS else ""
    checks = [Check(what="ledger", state=State.MISSING if cost else State.OK, found=found, cost=cost)]
    if evidence.judged is None:
        cost = "Busy time stays unjudged, and an outcome has no cost. gpuyield outcomes import --help."
        checks.append(Check(what="outcomes", state=State.MISSING, found="none imported", cost=cost))
    else:
        found = f"{len(evidence.judged.attempts):,} attempts"
        checks.append(Check(what="outcomes", state=State.OK, found=found, cost=""))
    return checks


def _declared(declared: Declaration, evidence: Evidence | None) -> list[Check]:
    checks = []
    if evidence is not None:
        covered_ms = coverage(evidence)
        share = covered_ms.declared_gpu_ms / covered_ms.total_gpu_ms if covered_ms.total_gpu_ms else 0.0
        cost = "" if share >= 0.9 else "For the rest nobody can say whether waiting or idling harms."
        state = State.OK if share >= 0.9 else State.MISSING
        checks.append(Check(what="declared share", state=state, found=f"{share:.0%} of held GPU-hours", cost=cost))
        checks += _unpromised(declared, evidence)
        flavors = sorted(
            {
                one
                for one in evidence.accounting.cells.flavors
                if not evidence.book.flavor_price(one, last_seen_ms(evidence))
            }
        )
    else:
        flavors = [] if declared.prices else ["all flavors"]
    if flavors:
        cost = "Their cost is shown as not known, not as 0. Add them under prices."
        checks.append(Check(what="prices", state=State.MISSING, found=f"none for {', '.join(flavors)}", cost=cost))
    else:
        checks.append(Check(what="prices", state=State.OK, found="every flavor has one", cost=""))
    return checks


def _unpromised(declared: Declaration, evidence: Evidence) -> list[Check]:
    objectives = {one.name for one in declared.services if one.objectives}
    now_ms = last_seen_ms(evidence)
    services = sorted(
        {
            name
            for one in evidence.accounting.pods.holdings
            if one.job is None
            and one.from_ms <= now_ms < one.to_ms
            and (name := service_name(one, evidence)) not in objectives
        }
    )
    checks = []
    if services:
        cost = "Whether they need the GPUs they hold cannot be said. Add objectives under services."
        found = f"{len(services)} without: {_some(services)}"
        checks.append(Check(what="objectives", state=State.MISSING, found=found, cost=cost))
    else:
        checks.append(Check(what="objectives", state=State.OK, found="every service has one", cost=""))
    open_ended = sorted(
        {f"{namespace}/{name}" for (namespace, name), one in evidence.promises.jobs.items() if one.limit_ms is None}
    )
    if open_ended:
        cost = (
            "Whether their waiting harmed cannot be said. Add deadline under batch, or annotate: gpuyield.dev/deadline."
        )
        found = f"{len(open_ended):,} of {len(evidence.promises.jobs):,} jobs without: {_some(open_ended)}"
        checks.append(Check(what="deadlines", state=State.MISSING, found=found, cost=cost))
    else:
        checks.append(
            Check(what="deadlines", state=State.OK, found=f"{len(evidence.promises.jobs):,} jobs have one", cost="")
        )
    return checks


def _some(named: list[str], most: int = 3) -> str:
    more = f" and {len(named) - most:,} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def _compare(declared: Declaration, evidence: Evidence | None, folder: Path) -> tuple[NodeHours, ...]:
    """GPU-hours of each node of the last whole days, by OpenCost and by our own integration."""
    if evidence is None or declared.sources.opencost is None:
        return ()
    to_ms = evidence.window.to_ms - evidence.window.to_ms % DAY_MS
    window = Window(to_ms - DAY_MS, to_ms)
    source = connect_opencost(
        declared.sources.opencost,
        context=declared.sources.kubernetes.context if declared.sources.kubernetes else None,
        folder=folder,
        environment=os.environ,
        home=Path.home(),
    )
    theirs: dict[str, float] = {}
    for node in source.nodes(window):
        theirs[node.node] = theirs.get(node.node, 0.0) + float(node.gpu_hours or 0)
    ours = {
        str(row.key["node"]): gpu_hours(row.waterfall.capacity_gpu_ms)
        for row in summarise(gather(evidence.setting, window).accounting, by=("node",)).rows
        if row.key["node"] is not None
    }
    return tuple(
        NodeHours(node=node, opencost=theirs.get(node), ours=ours.get(node)) for node in sorted({*theirs, *ours})
    )
