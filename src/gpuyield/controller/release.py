"""Break-glass: let jobs go without a plan, with the controller down. Gates off, parked ones on, our checks answered.

It needs rights of its own (the role gpuyield-break-glass, and the group of that name where the guard policy is), and
nothing of the controller. What it would do is shown first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from gpuyield.collect.kubernetes import (
    ADMISSION_CHECK,
    WORKLOAD,
    ClusterApi,
    Conflict,
    Kind,
    NotFound,
    kind_of,
)
from gpuyield.collect.kueue.shapes import Object, controller_of, is_true, items, listed, mapping, text, texts
from gpuyield.collect.kueue.work import GATES
from gpuyield.collect.probe import Forbidden
from gpuyield.controller.writes import answered, without_our_gate
from gpuyield.errors import DeclarationError, Mistake, SourceError
from gpuyield.model.kueue import CheckState
from gpuyield.model.marks import BREAK_GLASS, PARKED, PLAN

_PAUSE_S = 0.25
_NAMED = ("name", "namespace", "resourceVersion")


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A job that waits because of us. `owner` is what carries the gate; `checks` are ours that are asked now."""

    id: str
    owner: Object
    kind: Kind
    workload: Object
    gates: str
    is_gated: bool
    is_parked: bool
    checks: tuple[str, ...]

    @property
    def holds_us_back(self) -> bool:
        """Whether there is anything to do now."""
        return self.is_gated or self.is_parked or bool(self.checks)


def held_jobs(api: ClusterApi) -> tuple[Held, ...]:
    """All jobs that our gate, our parking or our checks hold, in order of their names.

    Raises:
        SourceError: Out of reach, or they may not be read.
    """
    checks = {
        text(mapping(one, "metadata"), "name")
        for one in api.list(ADMISSION_CHECK).items
        if mapping(one, "spec").get("controllerName") == PLAN
    }
    open_ = [one for one in api.list(WORKLOAD).items if not is_true(one, "Finished")]
    owners = _owners(api, open_)
    found = (_held(one, owners, checks) for one in open_)
    return tuple(sorted((one for one in found if one.holds_us_back), key=lambda one: one.id))


def chosen(held: Sequence[Held], names: Sequence[str]) -> tuple[Held, ...]:
    """The held jobs of these names (`NAMESPACE/NAME`, or the name alone where it is one job's); all without names.

    Raises:
        DeclarationError: One is not held, or a name means several.
    """
    if not names:
        return tuple(held)
    mistakes: list[Mistake] = []
    found: dict[str, Held] = {}
    for name in names:
        short = name.removeprefix("job/")
        meant = [one for one in held if short in (one.id, one.id.partition("/")[2])]
        if len(meant) > 1:
            ids = ", ".join(one.id for one in meant[:4])
            mistakes.append(
                Mistake(what=f"{short} means several jobs: {ids}.", where="JOB", fix="Write NAMESPACE/NAME.")
            )
        elif not meant:
            fix = "gpuyield controller release --all shows what gpuyield holds."
            mistakes.append(Mistake(what=f"{short} is not held by gpuyield.", where="JOB", fix=fix))
        found |= {one.id: one for one in meant}
    if mistakes:
        raise DeclarationError.of(mistakes)
    return tuple(found.values())


def let_go(
    api: ClusterApi, held: Sequence[Held], *, now_ms: Callable[[], int], wait_s: float
) -> tuple[dict[str, str], tuple[Mistake, ...]]:
    """Take gates off and switch parked ones on; then answer our checks as they are asked, for at most `wait_s`.

    Where each job has come to (`started`, `waits for quota`, `held by another gate`), and what was refused.
    """
    mistakes: list[Mistake] = []

    def tried(one: Held, what: str, write: Callable[[], object]) -> None:
        try:
            write()
        except (Conflict, NotFound):
            # It changed meanwhile: what holds it now is looked at again below.
            return
        except SourceError as err:
            fix = f"It needs the role gpuyield-break-glass and the group {BREAK_GLASS}." if _is_right(err) else ""
            mistakes.append(Mistake(what=f"{what}: {err.mistakes[0].what}", where=one.id, fix=fix))

    for one in held:
        if one.is_gated:
            tried(one, "its gate stays", partial(_ungate, api, one))
        if one.is_parked:
            tried(one, "it stays parked", partial(_switch_on, api, one))
    ids = {one.id for one in held}
    until = time.monotonic() + wait_s
    while True:
        again = [one for one in held_jobs(api) if one.id in ids]
        for one in again:
            if one.checks:
                tried(one, "its check is not answered", partial(_answer, api, one, now_ms()))
        states = _states(api, held)
        if mistakes or all(state == "started" for state in states.values()) or time.monotonic() >= until:
            return states, tuple(mistakes)
        time.sleep(_PAUSE_S)


def _states(api: ClusterApi, held: Iterable[Held]) -> dict[str, str]:
    by_id = {_uid(one): one for one in api.list(WORKLOAD).items}
    states: dict[str, str] = {}
    for one in held:
        now = by_id.get(_uid(one.workload), one.workload)
        others = [name for name in listed(one.gates) if name != PLAN]
        if is_true(now, "Admitted") or is_true(now, "Finished"):
            states[one.id] = "started"
        elif others:
            states[one.id] = f"held by {', '.join(others)}"
        elif is_true(now, "QuotaReserved"):
            states[one.id] = "waits for other checks"
        else:
            states[one.id] = "waits for quota"
    return states


def _is_right(err: SourceError) -> bool:
    return isinstance(err, Forbidden) or "taken off when the plan says so" in str(err)


def _ungate(api: ClusterApi, one: Held) -> None:
    meta = mapping(one.owner, "metadata")
    api.patch(one.kind, text(meta, "name"), text(meta, "namespace"), operations=without_our_gate(one.gates))


def _switch_on(api: ClusterApi, one: Held) -> None:
    meta = mapping(one.workload, "metadata")
    ours = {key: None for key in texts(meta, "annotations") if key.startswith(PARKED)}
    merge = {
        "metadata": {"annotations": ours, "resourceVersion": text(meta, "resourceVersion")},
        "spec": {"active": True},
    }
    api.patch(WORKLOAD, text(meta, "name"), text(meta, "namespace"), merge=merge)


def _answer(api: ClusterApi, one: Held, at_ms: int) -> None:
    name, namespace, version = (text(mapping(one.workload, "metadata"), key) for key in _NAMED)
    body = answered(name, namespace, version, one.checks, CheckState.READY, "Released by hand.", at_ms)
    api.apply(WORKLOAD, body, manager=PLAN, status=True)


def _held(workload: Object, owners: dict[str, tuple[Kind, Object]], ours: set[str]) -> Held:
    meta = mapping(workload, "metadata")
    reference = controller_of(workload)
    kind, owner = owners.get(text(reference, "uid"), (WORKLOAD, workload))
    gates = texts(mapping(owner, "metadata"), "annotations").get(GATES, "")
    active = mapping(workload, "spec").get("active") is not False
    asked = active and is_true(workload, "QuotaReserved") and not is_true(workload, "Evicted")
    return Held(
        id=f"{text(meta, 'namespace')}/{text(reference, 'name') or text(meta, 'name')}",
        owner=owner,
        kind=kind,
        workload=workload,
        gates=gates,
        is_gated=PLAN in listed(gates),
        is_parked=not active and PARKED in texts(meta, "annotations"),
        checks=tuple(
            text(one, "name")
            for one in items(mapping(workload, "status"), "admissionChecks")
            if asked and one.get("state") == "Pending" and text(one, "name") in ours
        ),
    )


def _owners(api: ClusterApi, workloads: Iterable[Object]) -> dict[str, tuple[Kind, Object]]:
    """What is behind the Workloads, by uid; a kind that is gone is nobody's."""
    kinds = {(text(one, "apiVersion"), text(one, "kind")) for one in map(controller_of, workloads)}
    found: dict[str, tuple[Kind, Object]] = {}
    for version, name in sorted(kinds):
        if "/" not in version:
            continue
        kind = kind_of(version, name)
        try:
            found |= {_uid(one): (kind, one) for one in api.list(kind).items}
        except NotFound:
            continue
    return found


def _uid(of: Object) -> str:
    return text(mapping(of, "metadata"), "uid")
