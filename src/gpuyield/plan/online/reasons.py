"""Why a job moves when a plan changes, as a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from gpuyield.model.plan import Run
from gpuyield.plan.instance.board import is_gpu
from gpuyield.plan.instance.profile import NEVER
from gpuyield.plan.instance.schedule import Placement
from gpuyield.plan.online.events import Cancelled, CapacityChanged, Event, Finished, Prolonged
from gpuyield.plan.online.standing import Standing
from gpuyield.plan.outlook.wording import Clock
from gpuyield.units import format_duration


@dataclass(frozen=True, slots=True)
class Reasons:
    """What happened, ready to be said; `clock` says instants."""

    clock: Clock
    resources: tuple[str, ...]
    longer: tuple[tuple[str, int, int, tuple[int, ...]], ...]
    """Jobs that take longer: name, the end that they had, the one that they have now, the resources they hold."""
    freed: str

    @staticmethod
    def of(before: Standing, events: Sequence[Event]) -> Reasons:
        """The reasons that these events give."""
        longer = tuple(
            (
                event.job,
                before.placed[event.job].end_ms,
                event.end_ms,
                tuple(resource for resource, _ in before.placed[event.job].mode.demand),
            )
            for event in events
            if isinstance(event, Prolonged)
        )
        clock = Clock(before.ground.origin_ms, ZoneInfo(before.ground.zone), dated=True)
        return Reasons(clock, before.resources, longer, _freed(before, events))

    def too_few(self, resource: int, at_ms: int) -> str:
        """There is not enough of a resource any more from an instant on."""
        what = _words(self.resources[resource])
        for name, old_end, new_end, held in self.longer:
            if resource in held and old_end <= at_ms < new_end:
                return f"{name} takes longer, until {self.clock.say(new_end)}, and holds {what} until then"
        return f"there are fewer {what} at {self.clock.say(at_ms)} than it counted on"

    def waits(self, name: str, one: Placement | None) -> str:
        """What it waits for ends later, or not at all."""
        if one is None:
            return f"it waits for {name}, which has no place yet"
        return f"it waits for {name}, which now ends at {self.clock.say(one.end_ms)}"

    def makes_room(self, name: str, wanted_ms: int) -> str:
        """It makes room for another."""
        return f"it makes room for {name}, which would miss {self.clock.say(wanted_ms)} otherwise"

    def came_free(self) -> str:
        """GPUs came free."""
        return self.freed

    def moved(self, old: Placement, new: Placement | None, cause: str) -> str:
        """The whole sentence."""
        return self.rerun(old.run(), None if new is None else new.run(), cause)

    def rerun(self, old: Run, new: Run | None, cause: str) -> str:
        """The whole sentence, of runs."""
        if new is None:
            return f"It loses its place at {self.clock.say(old.start_ms)}: {cause}."
        if new.start_ms == old.start_ms:
            return f"It runs otherwise from {self.clock.say(new.start_ms)} on: {cause}."
        way = "earlier" if new.start_ms < old.start_ms else "later"
        by = format_duration(abs(new.start_ms - old.start_ms))
        return f"Starts {by} {way}, at {self.clock.say(new.start_ms)}: {cause}."


def _words(resource: str) -> str:
    return "GPUs" if resource == "gpu" else f"{resource.removeprefix('gpu/')} GPUs" if is_gpu(resource) else resource


def _freed(before: Standing, events: Sequence[Event]) -> str:
    """What made GPUs free, most telling first."""
    for event in events:
        if isinstance(event, Finished):
            one = before.placed.get(event.job)
            early = 0 if one is None else min(one.end_ms, NEVER) - event.at_ms
            if early > 0:
                return f"{event.job} ended {format_duration(early)} early, and there is room for it"
    for event in events:
        if isinstance(event, Cancelled):
            return f"{event.job} was cancelled, and there is room for it"
    if any(isinstance(event, CapacityChanged) for event in events):
        return "what exists has changed, and there is room for it"
    return "there is room for it then"
