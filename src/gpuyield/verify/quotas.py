"""Queue quotas: what a queue and a cohort may hold, by Kueue's rule, and the same rule as limits of their own.

A queue holds at most nominal + borrow (nominal without a cohort). What it keeps for itself is nominal - lend. The
queues of a cohort together hold beyond what each keeps no more than all of them lend. Names and the reading as limits:
`docs/reference/certificates.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any  # JSON has no narrower type than this.

from .report import Refused
from .steps import Steps
from .values import field, items, record, text, whole

MOST_LENDERS = 6
_TAKEN = ("quota/", "cohort/", "lending/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one queue may use of one resource; `borrow` None: no limit, `lend` None: all."""

    nominal: Steps
    borrow: Steps | None
    lend: Steps | None

    def lent(self, at_ms: int) -> int:
        """What it lends at an instant."""
        nominal = self.nominal.at(at_ms)
        return nominal if self.lend is None else min(nominal, self.lend.at(at_ms))

    def kept(self, at_ms: int) -> int:
        """What it keeps for itself at an instant."""
        return self.nominal.at(at_ms) - self.lent(at_ms)

    def times(self) -> set[int]:
        """When it changes."""
        return {at for steps in (self.nominal, self.borrow, self.lend) if steps is not None for at in steps.times[1:]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """So much of a resource for some queues together."""

    resource: str
    queues: frozenset[str]
    steps: Steps


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The quotas by queue and resource, the cohort of each queue, and the resources that are there."""

    rows: Mapping[str, Mapping[str, Quota]]
    cohorts: Mapping[str, str | None]
    resources: frozenset[str]

    def check_known(self, queue: str, where: str) -> None:
        """Refuse a job of a queue without quotas where there are quotas."""
        if self.rows and queue not in self.rows:
            raise Refused(f'{where}.queue is "{queue[:60]}", which has no quotas.')

    def times(self) -> set[int]:
        """When some quota changes."""
        return {at for row in self.rows.values() for quota in row.values() for at in quota.times()}

    def check(self, resource: str, held: Mapping[str, int], at_ms: int) -> None:
        """Refuse what queues hold of a resource at an instant where one or its cohort holds too much."""
        borrowed: dict[str, int] = {}
        for queue, amount in held.items():
            quota, cohort = self.rows[queue].get(resource), self.cohorts[queue]
            if quota is None:
                if is_gpu(resource) and amount > 0:
                    raise Refused(f'Queue "{queue[:60]}" holds {amount} of {resource}, of which it has no quota.')
                continue
            most = _own(quota, in_cohort=cohort is not None, at_ms=at_ms)
            if most is not None and amount > most:
                raise Refused(f'Queue "{queue[:60]}" holds {amount} of {resource} at {at_ms} ms; {most} is its quota.')
            if cohort is not None:
                borrowed[cohort] = borrowed.get(cohort, 0) + max(0, amount - quota.kept(at_ms))
        for cohort, amount in borrowed.items():
            there = sum(quota.lent(at_ms) for quota in self.members(cohort, resource).values())
            if amount > there:
                raise Refused(f'Cohort "{cohort[:60]}" holds {amount} of {resource} at {at_ms} ms; it lends {there}.')

    def members(self, cohort: str, resource: str) -> dict[str, Quota]:
        """The queues of a cohort that have a quota of a resource."""
        return {
            queue: row[resource]
            for queue, row in self.rows.items()
            if self.cohorts[queue] == cohort and resource in row
        }

    @cached_property
    def limits(self) -> dict[str, Limit]:
        """Every limit under its name: of a queue, of a cohort, of a cohort without some of its lending queues."""
        found: dict[str, Limit] = {}
        for queue, row in self.rows.items():
            for resource in self.resources:
                steps = self._own_steps(queue, row.get(resource), resource)
                if steps is not None:
                    found[f"quota/{queue}/{resource}"] = Limit(
                        resource=resource, queues=frozenset([queue]), steps=steps
                    )
        for cohort in {name for name in self.cohorts.values() if name is not None}:
            for resource in self.resources:
                self._add_cohort(found, cohort, resource)
        return found

    @cached_property
    def _by_queue(self) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        for name, limit in self.limits.items():
            for queue in limit.queues:
                found.setdefault((queue, limit.resource), []).append(name)
        return found

    def counted(self, demand: dict[str, int], queue: str | None) -> dict[str, int]:
        """A demand with what it takes of every limit."""
        if queue is None or not self.rows:
            return demand
        return demand | {
            name: amount for resource, amount in demand.items() for name in self._by_queue.get((queue, resource), ())
        }

    def _own_steps(self, queue: str, quota: Quota | None, resource: str) -> Steps | None:
        if quota is None:
            return Steps([(0, 0)]) if is_gpu(resource) else None
        in_cohort = self.cohorts[queue] is not None
        if in_cohort and quota.borrow is None:
            return None
        return _stepwise(quota.times(), lambda at: _own(quota, in_cohort=in_cohort, at_ms=at) or 0)

    def _add_cohort(self, found: dict[str, Limit], cohort: str, resource: str) -> None:
        members = self.members(cohort, resource)
        lenders = sorted(queue for queue, quota in members.items() if quota.lend is not None)
        if len(lenders) > MOST_LENDERS:
            raise Refused(f'inputs.quotas: more than {MOST_LENDERS} queues of "{cohort[:60]}" have a lending limit.')
        times = {at for quota in members.values() for at in quota.times()}
        for number in range(1 << len(lenders)):
            left_out = [queue for place, queue in enumerate(lenders) if number >> place & 1]
            queues = frozenset(members) - frozenset(left_out)
            if not queues:
                continue

            def there(at: int, inside: frozenset[str] = queues) -> int:
                lent = sum(quota.lent(at) for quota in members.values())
                return lent + sum(quota.kept(at) for queue, quota in members.items() if queue in inside)

            name = f"lending/{cohort}/{','.join(left_out)}/{resource}" if left_out else f"cohort/{cohort}/{resource}"
            found[name] = Limit(resource=resource, queues=queues, steps=_stepwise(times, there))


NO_QUOTAS = Quotas(rows={}, cohorts={}, resources=frozenset())


def read_quotas(entry: Any, capacity: Iterable[str]) -> Quotas:
    """`quotas` of the canonical inputs; none where the field is absent."""
    resources = frozenset(capacity)
    if any(name.startswith(_TAKEN) for name in resources):
        raise Refused("inputs.capacity has a name that stands for a quota.")
    if entry is None:
        return NO_QUOTAS
    rows: dict[str, Mapping[str, Quota]] = {}
    cohorts: dict[str, str | None] = {}
    for at, value in enumerate(items(entry, "inputs.quotas")):
        where = f"inputs.quotas[{at}]"
        row = record(value, where)
        queue = _name(field(row, "queue", where), f"{where}.queue")
        if queue in rows:
            raise Refused(f'inputs.quotas has "{queue[:60]}" twice.')
        cohort = field(row, "cohort", where)
        cohorts[queue] = None if cohort is None else _name(cohort, f"{where}.cohort")
        rows[queue] = {
            text(name, where): _quota(quota, f"{where}.{name[:60]}")
            for name, quota in record(field(row, "resources", where), where).items()
        }
    return Quotas(rows=rows, cohorts=cohorts, resources=resources)


def read_steps(entry: Any, where: str) -> Steps:
    """A step function: `[[from_ms, amount], ...]` in order of time."""
    found: list[tuple[int, int]] = []
    for at, entry_step in enumerate(items(entry, where)):
        step = items(entry_step, f"{where}[{at}]")
        if len(step) != 2:
            raise Refused(f"{where}[{at}] is not [from_ms, amount].")
        from_ms = whole(step[0], f"{where}[{at}][0]")
        if found and from_ms <= found[-1][0]:
            raise Refused(f"{where} is not in order of time.")
        found.append((from_ms, whole(step[1], f"{where}[{at}][1]", low=0, high=10**9)))
    return Steps(found)


def is_gpu(resource: str) -> bool:
    """`gpu` or `gpu/F`."""
    return resource == "gpu" or resource.startswith("gpu/")


def _quota(entry: Any, where: str) -> Quota:
    row = record(entry, where)
    amounts = {name: _amounts(field(row, name, where), f"{where}.{name}") for name in ("nominal", "borrow", "lend")}
    nominal = amounts["nominal"]
    if nominal is None:
        raise Refused(f"{where}.nominal is null.")
    return Quota(nominal=nominal, borrow=amounts["borrow"], lend=amounts["lend"])


def _amounts(entry: Any, where: str) -> Steps | None:
    if entry is None:
        return None
    if isinstance(entry, list):
        return read_steps(entry, where)
    return Steps([(0, whole(entry, where, low=0, high=10**9))])


def _name(entry: Any, where: str) -> str:
    name = text(entry, where)
    if "/" in name or "," in name:
        raise Refused(f'{where} has a "/" or ",".')
    return name


def _own(quota: Quota, *, in_cohort: bool, at_ms: int) -> int | None:
    """The most that a queue may hold by itself; None: no limit."""
    if not in_cohort:
        return quota.nominal.at(at_ms)
    return None if quota.borrow is None else quota.nominal.at(at_ms) + quota.borrow.at(at_ms)


def _stepwise(times: Iterable[int], amount: Callable[[int], int]) -> Steps:
    return Steps((at, amount(at)) for at in sorted(times))
