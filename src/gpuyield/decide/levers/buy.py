"""Buy: the last lever, and only with a proof that nothing before it is enough."""

from __future__ import annotations

from gpuyield.decide.case import Case
from gpuyield.decide.money import by_month, flavor_of_resource
from gpuyield.decide.words import gpus, rate
from gpuyield.model.decision import DecisionStatus, Lever, LeverKind
from gpuyield.units import format_duration


def buy(case: Case) -> Lever | None:
    """What to buy, from the cheapest offer; None unless a purchase is needed."""
    if case.status is not DecisionStatus.NEEDED or case.shortage is None or case.offer is None:
        return None
    shortage, offer = case.shortage, case.offer
    number = max(shortage.sufficient or shortage.at_least, offer.min_gpus)
    kind = offer.kind.replace("_", " ")
    change = f"Buy {gpus(number, shortage.resource)} ({kind}, {rate(offer.gpu_hour)} {offer.gpu_hour.currency} an hour)"
    if shortage.sufficient is None:
        change += "; fewer are proven not to do, whether so many do is not known"
    if offer.lead_time_ms:
        change += f"; there after {format_duration(offer.lead_time_ms)}"
    return Lever(
        kind=LeverKind.BUY,
        change=f"{change}.",
        gpus_added={flavor_of_resource(shortage.resource): number},
        money_per_month=-by_month(number, offer.gpu_hour),
        deadlines_saved=_late(case),
        risk="Money is spent before it is known whether demand stays.",
        undo="None for owned or reserved GPUs; on demand: give them back.",
    )


def _late(case: Case) -> int | None:
    if case.plan is None or case.shortage is None or case.shortage.sufficient is None:
        return None
    return sum(one.status != "planned" and one.id not in case.hopeless for one in case.plan.jobs)
