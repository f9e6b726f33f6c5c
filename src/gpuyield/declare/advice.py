"""What a declaration without mistakes still leaves open, and what each of that costs in certainty."""

from __future__ import annotations

from collections.abc import Iterator

from gpuyield.errors import Mistake
from gpuyield.model.declaration import At, Declaration, Milestone
from gpuyield.units import format_instant


def advise(declared: Declaration, *, now_ms: int) -> tuple[Mistake, ...]:
    """Notes, in the order of the file: what is missing or past, and how to mend it."""
    return (*_money(declared, now_ms), *_services(declared), *_batch(declared, now_ms))


def _money(declared: Declaration, now_ms: int) -> Iterator[Mistake]:
    if not declared.prices and declared.sources.opencost is None:
        yield _note("prices", "no prices: cost is shown in GPU-hours only.", "Add prices, or sources.opencost.")
    current = {price.flavor for price in declared.prices if price.to_ms is None or price.to_ms > now_ms}
    for flavor in sorted({price.flavor for price in declared.prices} - current):
        yield _note("prices", f"the last price of {flavor} has ended.", "Add the price that holds now.")
    bought = {option.flavor for option in declared.purchase}
    for flavor in sorted(current - bought) if declared.purchase else ():
        yield _note(
            "purchase", f"nobody says how more {flavor} could be had.", "Add it, or never be advised to buy it."
        )


def _services(declared: Declaration) -> Iterator[Mistake]:
    for service in declared.services:
        where = f"services: {service.name}"
        if not service.objectives:
            yield _note(where, "no objectives: its headroom is not known.", "Add objectives: [{metric: ttft, ...}].")
        checks = {one.check for one in service.objectives if one.check}
        if service.outcome is None and checks:
            yield _note(where, "checks, but no outcome: nothing counts as verified.", "Add outcome: {require: [...]}.")


def _batch(declared: Declaration, now_ms: int) -> Iterator[Mistake]:
    for family in declared.batch:
        where = f"batch: {family.name}"
        if family.deadline is None and family.due is None:
            yield _note(where, "no deadline: nobody can say whether its wait harmed.", "Add deadline: within 8h.")
        for key, deadline in (("deadline", family.deadline), ("due", family.due)):
            match deadline:
                case At(at_ms=at_ms) if at_ms <= now_ms:
                    yield _note(where, f"its {key} {format_instant(at_ms)} is past.", "Move it.")
                case Milestone(name=name) if declared.milestones[name] <= now_ms:
                    at_ms = declared.milestones[name]
                    yield _note(where, f"its {key} {name} ({format_instant(at_ms)}) is past.", "Move the milestone.")
                case _:
                    pass
        if family.gpus is None or (family.duration_ms is None and not family.durations_ms):
            yield _note(where, "no gpus or run time: it is planned by its history only.", "Add gpus and flavors.")


def _note(where: str, what: str, fix: str) -> Mistake:
    return Mistake(what=what, where=where, fix=fix)
