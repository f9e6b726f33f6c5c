"""The levers of a decide document: their order, their sums, and the money that prices and GPUs give, in decimals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any  # JSON has no narrower type than this.

from .report import Findings, NotRechecked, Refused
from .values import choice, decimal, field, items, record, text, whole

ORDER = ("reschedule", "reclaim", "retune", "pair", "pool", "purchase_type", "buy")
PROVENANCES = ("here", "elsewhere", "modelled")
MONTH_H = 730
HALF_CENT = Fraction(1, 200)
CENT = Fraction(1, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A price of a GPU-hour at which a resource can be had."""

    gpu_hour: Fraction
    currency: str
    min_gpus: int
    lead_time_ms: int


def offers_of(inputs: dict[str, Any], resource: str) -> list[Offer]:
    """What the inputs say a resource can be bought for; today's price where there is no offer."""
    listed = record(field(inputs, "offers", "inputs"), "inputs.offers")
    named = listed.get(resource)
    if not named and resource == "gpu" and len(listed) == 1:
        named = next(iter(listed.values()))
    if named:
        return [_offer(record(one, "an offer"), "an offer") for one in items(named, "inputs.offers")]
    price = _price(inputs, resource.removeprefix("gpu/"))
    return [] if price is None else [price]


def check_levers(document: dict[str, Any], inputs: dict[str, Any], findings: Findings) -> None:
    """Check `levers`: known, in order, each once, with right sums and right money."""
    try:
        levers = [record(one, "a lever") for one in items(field(document, "levers", "the document"), "levers")]
        with findings.claim("levers: in order"):
            _check_order(levers)
        with findings.claim("levers: cumulative"):
            _check_sums(levers)
    except Refused as err:
        findings.refuse("levers", str(err))
        return
    checks = {"reclaim": _check_reclaim, "buy": _check_buy, "reschedule": _check_reschedule}
    for lever in levers:
        name = str(lever.get("lever"))
        with findings.claim(f"levers.{name[:40]}"):
            if name not in checks:
                raise NotRechecked("This checker does not know how it is found.")
            checks[name](lever, document, inputs)
    if document.get("status") == "needed" and not any(lever.get("lever") == "buy" for lever in levers):
        findings.refuse("levers", "A purchase is needed, and there is no lever that buys.")


def _check_order(levers: list[dict[str, Any]]) -> None:
    ranks = []
    for number, lever in enumerate(levers, start=1):
        name = choice(field(lever, "lever", "a lever"), "lever", ORDER)
        if lever.get("id") != f"{number}-{name}":
            raise Refused(f"The lever {number} has the id {str(lever.get('id'))[:40]}.")
        choice(field(lever, "provenance", "a lever"), "provenance", PROVENANCES)
        ranks.append(ORDER.index(name))
    if ranks != sorted(set(ranks)):
        raise Refused("Levers are out of order, or one is there twice.")


def _check_sums(levers: list[dict[str, Any]]) -> None:
    freed: dict[str, int] = {}
    money: list[tuple[Fraction, str] | None] = []
    saved: int | None = 0
    for lever in levers:
        for flavor, gpus in record(field(lever, "gpus_freed", "a lever"), "gpus_freed").items():
            freed[flavor] = freed.get(flavor, 0) + whole(gpus, "gpus_freed", low=0)
        amount = _money(field(lever, "money_per_month", "a lever"))
        if amount is not None or lever["gpus_freed"] or lever.get("gpus_added"):
            money.append(amount)
        more = field(lever, "deadlines_saved", "a lever")
        saved = None if saved is None or more is None else saved + whole(more, "deadlines_saved")
        stated = record(field(lever, "cumulative", "a lever"), "cumulative")
        if stated.get("gpus_freed") != freed or stated.get("deadlines_saved") != saved:
            raise Refused("cumulative is not the sum of the levers so far.")
        _check_total(stated.get("money_per_month"), money)


def _check_total(stated: Any, parts: list[tuple[Fraction, str] | None]) -> None:
    known = [part for part in parts if part is not None]
    unclear = not known or len(known) < len(parts) or len({currency for _, currency in known}) > 1
    total = _money(stated)
    if unclear != (total is None):
        raise Refused("cumulative.money_per_month is known where a part is not, or the other way round.")
    if total is None:
        return
    right = sum((amount for amount, _ in known), start=Fraction(0))
    if total[1] != known[0][1] or abs(total[0] - right) > HALF_CENT * (len(known) + 1):
        raise Refused("cumulative.money_per_month is not the sum of the levers so far.")


def _check_reclaim(lever: dict[str, Any], document: dict[str, Any], inputs: dict[str, Any]) -> None:
    window = record(field(inputs, "window", "inputs"), "inputs.window")
    length = whole(field(window, "to_ms", "window"), "to_ms") - whole(field(window, "from_ms", "window"), "from_ms")
    if length <= 0:
        raise Refused("inputs.window is empty.")
    now: dict[str, int] = {}
    money: list[tuple[Fraction, str] | None] = []
    for at, entry in enumerate(items(field(inputs, "holders", "inputs"), "inputs.holders")):
        holder = record(entry, f"inputs.holders[{at}]")
        idle = whole(field(holder, "idle_gpu_ms", "a holder"), "idle_gpu_ms", low=0, high=10**18)
        if not idle:
            continue
        flavor = holder.get("flavor")
        held = whole(field(holder, "gpus_now", "a holder"), "gpus_now", low=0)
        if held:
            now[flavor or "unknown"] = now.get(flavor or "unknown", 0) + held
        price = None if flavor is None else _price(inputs, text(flavor, "flavor"))
        money.append(None if price is None else (Fraction(idle, length) * price.gpu_hour * MONTH_H, price.currency))
    if lever["gpus_freed"] != now:
        raise Refused("gpus_freed is not what the holders of idle GPUs hold now.")
    _check_money(lever, money)


def _check_buy(lever: dict[str, Any], document: dict[str, Any], inputs: dict[str, Any]) -> None:
    if document.get("status") != "needed":
        raise Refused("It buys, and no purchase is needed.")
    shortage = record(field(document, "shortage", "the document"), "shortage")
    resource = text(field(shortage, "resource", "shortage"), "shortage.resource")
    offers = offers_of(inputs, resource)
    cheapest = min(offers, key=lambda one: (one.gpu_hour, one.lead_time_ms), default=None)
    if cheapest is None:
        raise Refused(f"The inputs have no price for {resource}.")
    least = shortage.get("sufficient") or shortage.get("at_least")
    number = max(whole(least, "shortage", low=1), cheapest.min_gpus)
    if lever.get("gpus_added") != {resource.removeprefix("gpu/"): number} or lever["gpus_freed"]:
        raise Refused(f"It does not buy {number} of {resource}.")
    _check_money(lever, [(-number * cheapest.gpu_hour * MONTH_H, cheapest.currency)])


def _check_reschedule(lever: dict[str, Any], document: dict[str, Any], inputs: dict[str, Any]) -> None:
    money: list[tuple[Fraction, str] | None] = []
    for flavor, gpus in lever["gpus_freed"].items():
        price = _price(inputs, flavor)
        money.append(None if price is None else (gpus * price.gpu_hour * MONTH_H, price.currency))
    _check_money(lever, money)
    if any(record(field(inputs, "reclaimable", "inputs"), "inputs.reclaimable").values()):
        raise NotRechecked("The plan on today's GPUs alone is not in the document.")
    certificate = document.get("certificate")
    plan = certificate.get("plan") if isinstance(certificate, dict) else None
    met = isinstance(plan, dict) and plan.get("status") in ("feasible", "optimal")
    right = {}
    for resource, entry in plan["gpus"].items() if met and isinstance(plan, dict) else ():
        if entry.get("needed") is not None and entry["needed"] < entry["available"]:
            right[resource.removeprefix("gpu/")] = entry["available"] - entry["needed"]
    if lever["gpus_freed"] != right:
        raise Refused("gpus_freed is not what the plan leaves of what is there.")


def _check_money(lever: dict[str, Any], parts: list[tuple[Fraction, str] | None]) -> None:
    stated = _money(lever["money_per_month"])
    known = [part for part in parts if part is not None]
    unclear = not known or len(known) < len(parts) or len({currency for _, currency in known}) > 1
    if unclear:
        if stated is not None:
            raise Refused("money_per_month is not null, and a price is missing.")
        return
    right = sum((amount for amount, _ in known), start=Fraction(0))
    if stated is None or stated[1] != known[0][1] or abs(stated[0] - right) > CENT:
        raise Refused(f"money_per_month is not {float(right):.2f} {known[0][1]}.")


def _price(inputs: dict[str, Any], flavor: str) -> Offer | None:
    prices = record(field(inputs, "prices", "inputs"), "inputs.prices")
    named = prices.get(f"gpu/{flavor}") or prices.get(flavor)
    if named is None and flavor == "gpu" and len(prices) == 1:
        named = next(iter(prices.values()))
    return None if named is None else _offer(record(named, "a price"), "a price")


def _offer(stated: dict[str, Any], where: str) -> Offer:
    price = decimal(field(stated, "gpu_hour", where), f"{where}.gpu_hour")
    if price < 0:
        raise Refused(f"{where} is negative.")
    return Offer(
        gpu_hour=price,
        currency=text(field(stated, "currency", where), f"{where}.currency"),
        min_gpus=whole(stated.get("min_gpus", 1), f"{where}.min_gpus", low=0),
        lead_time_ms=whole(stated.get("lead_time_ms", 0), f"{where}.lead_time_ms", low=0),
    )


def _money(value: Any) -> tuple[Fraction, str] | None:
    if value is None:
        return None
    stated = record(value, "money")
    return decimal(field(stated, "amount", "money"), "amount"), text(field(stated, "currency", "money"), "currency")
