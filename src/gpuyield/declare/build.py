"""From a filled form without mistakes to the values that other rooms use."""

from __future__ import annotations

from decimal import Decimal

from gpuyield.declare import form
from gpuyield.declare.values import parse_latency_us, parse_number
from gpuyield.model.declaration import (
    BatchFamily,
    Declaration,
    Demand,
    Endpoint,
    ExchangeRate,
    FileSource,
    InventoryItem,
    KubernetesSource,
    Metric,
    NamespaceLimit,
    Objective,
    OutcomePolicy,
    OutcomeUnit,
    Price,
    PriceBasis,
    PurchaseOption,
    RateRule,
    Rules,
    Selector,
    Service,
    Sharing,
    SharingRule,
    Sources,
    Teams,
    VerdictPolicy,
    WeeklySpan,
)
from gpuyield.units import Money

_MINUTES_A_DAY = 1440


def build_declaration(filled: form.ClusterForm, *, path: str, sha256: str) -> Declaration:
    """The declaration that a form holds; the cross-checks have passed."""
    currency = filled.currency or ""
    zone = filled.reporting_zone
    return Declaration(
        name=filled.metadata.name,
        currency=filled.currency,
        reporting_zone=zone,
        rules=_rules(filled.rules),
        sources=_sources(filled.sources),
        teams=Teams(label=filled.teams.label, namespaces=filled.teams.namespaces),
        milestones=filled.milestones,
        inventory=tuple(
            InventoryItem(flavor=one.flavor, gpus=one.gpus, nodes=one.nodes, domain=one.domain)
            for one in filled.inventory
        ),
        prices=tuple(
            Price(
                flavor=one.flavor,
                gpu_hour=Money(one.gpu_hour, one.currency or currency),
                basis=one.basis or PriceBasis.LIST,
                from_ms=one.from_,
                to_ms=one.to,
            )
            for one in filled.prices
        ),
        rates=tuple(
            ExchangeRate(base=one.pair[:3], quote=one.pair[4:], rate=one.rate, at_ms=one.at, source=one.source)
            for one in filled.rates
        ),
        bill=tuple(FileSource(format=one.format, path=one.path) for one in filled.bill),
        sharing=Sharing(
            idle=filled.sharing.idle or SharingRule.NOBODY,
            unallocated=filled.sharing.unallocated or SharingRule.NOBODY,
            rate=filled.sharing.rate or RateRule.NODE,
        ),
        purchase=tuple(
            PurchaseOption(
                flavor=one.flavor,
                kind=one.kind,
                price=Money(one.price, one.currency or currency),
                min_gpus=one.min,
                lead_time_ms=one.lead_time or 0,
            )
            for one in filled.purchase
        ),
        demand=tuple(
            Demand(service=one.service, growth_per_week=one.growth_per_week, owner=one.owner, source=one.source)
            for one in filled.demand
        ),
        limits={
            name: NamespaceLimit(max_weight=one.max_weight, max_gpus=one.max_gpus)
            for name, one in filled.limits.items()
        },
        services=tuple(_service(one, zone) for one in filled.services),
        batch=tuple(_batch(one) for one in filled.batch),
        path=path,
        sha256=sha256,
    )


def _rules(filled: form.RulesForm) -> Rules:
    default = Rules()
    threshold = filled.activity_threshold
    return Rules(
        gap_limit_ms=filled.gap_limit or default.gap_limit_ms,
        activity_threshold=default.activity_threshold if threshold is None else threshold,
        idle_after_ms=filled.idle_after or default.idle_after_ms,
    )


def _sources(filled: form.SourcesForm) -> Sources:
    return Sources(
        prometheus=_endpoint(filled.prometheus),
        opencost=_endpoint(filled.opencost) if filled.opencost else None,
        kubernetes=KubernetesSource(context=filled.kubernetes.context) if filled.kubernetes else None,
        outcomes=tuple(FileSource(format=one.format, path=one.path) for one in filled.outcomes),
    )


def _endpoint(filled: form.EndpointForm) -> Endpoint:
    return Endpoint(
        url=filled.url,
        service=filled.service,
        token_file=filled.token_file,
        ca_file=filled.ca_file,
        headers_file=filled.headers_file,
    )


def _selector(filled: form.SelectorForm) -> Selector:
    return Selector(namespace=filled.namespace, labels=filled.labels, queue=filled.queue)


def _service(filled: form.ServiceForm, zone: str) -> Service:
    return Service(
        name=filled.name,
        selector=_selector(filled.selector),
        endpoint=filled.endpoint,
        model=filled.model,
        team=filled.team,
        hours=None if filled.hours is None else _hours(filled.hours, zone),
        objectives=tuple(_objective(one) for one in filled.objectives),
        outcome=_outcome(filled.outcome),
        spare_replicas=filled.redundancy.spare_replicas if filled.redundancy else 0,
    )


def _hours(entries: list[form.HoursForm], zone: str) -> tuple[WeeklySpan, ...]:
    spans = []
    for entry in entries:
        for day in entry.days:
            if entry.from_ < entry.to:
                parts = [(day, entry.from_, entry.to)]
            else:
                parts = [(day, entry.from_, _MINUTES_A_DAY), ((day + 1) % 7, 0, entry.to)]
            spans += [
                WeeklySpan(weekday=weekday, from_minute=start, to_minute=end, zone=entry.zone or zone)
                for weekday, start, end in parts
                if start < end
            ]
    return tuple(sorted(spans, key=lambda one: (one.weekday, one.from_minute, one.to_minute)))


def _objective(filled: form.ObjectiveForm) -> Objective:
    """OpenSLO's `lt` on a latency is one microsecond less than `lte`, which is the finest we read."""
    share = filled.share if filled.share is not None else filled.target
    subject = filled.metric.value if filled.metric else filled.check or ""
    at_most, at_least = filled.at_most, filled.at_least
    if filled.value is not None and filled.op in ("lte", "lt"):
        at_most = filled.value
    elif filled.value is not None:
        at_least = parse_number(filled.value, label="value")
    latency = filled.metric not in (None, Metric.ERROR)
    return Objective(
        name=filled.name or filled.display_name or subject,
        metric=filled.metric,
        check=filled.check,
        at_most_us=parse_latency_us(at_most, label="at_most") - (filled.op == "lt") if latency and at_most else None,
        score_at_most=parse_number(at_most, label="at_most") if filled.check and at_most else None,
        score_at_least=at_least,
        share=share if share is not None else Decimal(1),
        window_ms=filled.window,
    )


def _outcome(filled: form.OutcomeForm | None) -> OutcomePolicy | None:
    if filled is None:
        return None
    words = filled.policy.split(" ")
    counted = len(words) == 3
    return OutcomePolicy(
        unit=filled.unit or OutcomeUnit.REQUEST,
        require=tuple(filled.require),
        policy=VerdictPolicy.K_OF_N if counted else VerdictPolicy(filled.policy),
        k=int(words[0]) if counted else None,
        n=int(words[2]) if counted else None,
        min_units=filled.min_units,
    )


def _batch(filled: form.BatchForm) -> BatchFamily:
    return BatchFamily(
        name=filled.name,
        selector=_selector(filled.selector),
        team=filled.team,
        gpus=filled.gpus,
        duration_ms=filled.duration,
        durations_ms={name: one.duration for name, one in filled.flavors.items()},
        deadline=filled.deadline,
        due=filled.due,
        weight=Decimal(1) if filled.weight is None else filled.weight,
        restart_ms=filled.preemptible,
        outcome=_outcome(filled.outcome),
    )
