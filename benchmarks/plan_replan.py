"""Replanning through a day: 2,000 jobs pending, arrivals, early and late ends; time, starts moved, a reason for each.

    python benchmarks/plan_replan.py [--pending N] [--seeds N] [--sample REPLANS]

Made-up jobs as in `made_up` on a pool that they fill to 95 %. Four in five are known long before they may start, the
others when they do. Run times come out 0.6 to 1.4 times as planned. `day` replans twenty times, every 72 minutes, for
all that happened since; `event` whenever anything happens.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field, replace

import numpy as np

from gpuyield.model.job import PlanJob, Problem
from gpuyield.plan.online.events import Arrived, Event, Finished, Prolonged
from gpuyield.plan.online.replan import replan
from gpuyield.plan.online.standing import Standing
from gpuyield.units import DAY_MS, MINUTE_MS
from made_up import made_up

POOL, LOAD = 256, 0.95
REPLANS = 20
KNOWN = 1.35
"""Jobs within the time that plans look ahead, per job that is pending then: some are not known yet, some run."""
FIRST_WORK = 20_000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pending", type=int, default=2_000)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--sample", type=int, default=400, help="replans on single events, per seed")
    chosen = options.parse_args()
    day, event = Seen(), Seen()
    for seed in range(chosen.seeds):
        begun = Day.of(chosen.pending, seed)
        begun.replay(DAY_MS // REPLANS, REPLANS, day)
        Day.of(chosen.pending, seed).replay(None, chosen.sample, event)
    day.show("day")
    event.show("event")


@dataclass
class Seen:
    """What the replans took and moved."""

    took_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    moved: list[float] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    moves: int = 0
    told: int = 0
    met: int = 0
    ended: int = 0

    def show(self, name: str) -> None:
        """One line a figure."""
        took = np.array(self.took_ms)
        print(f"plan.replan.{name}.p99 {np.quantile(took, 0.99):.1f} ms (80, 50)")
        print(f"plan.replan.{name}.processor_p99 {np.quantile(self.cpu_ms, 0.99):.1f} ms")
        print(f"plan.replan.{name}.median {np.median(took):.1f} ms, {len(took)} replans")
        print(f"plan.replan.{name}.pending {np.mean(self.pending):.0f} jobs")
        print(f"plan.replan.{name}.moved {np.mean(self.moved):.4f} share of starts per replan (0.05, 0.02)")
        print(f"plan.replan.{name}.most_moved {np.max(self.moved):.4f} share of starts")
        print(f"plan.replan.{name}.reasons {self.told / max(1, self.moves):.4f} of {self.moves} moves")
        print(f"plan.replan.{name}.deadlines {self.met / max(1, self.ended):.4f} of {self.ended} jobs that ended")


@dataclass
class Day:
    """A plan in force, the jobs that are not known yet, and how long each takes in truth."""

    standing: Standing
    hidden: list[tuple[int, PlanJob]]
    stretch: dict[str, float]
    planned_ms: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(pending: int, seed: int) -> Day:
        """The plan of the first jobs that are known."""
        chance = np.random.default_rng(seed)
        problem = made_up(2 * pending, POOL, LOAD, seed)
        ahead = sorted(job.release_ms for job in problem.jobs)[int(KNOWN * pending)]
        known_from = {
            job.id: job.release_ms if chance.random() < 0.2 else max(0, job.release_ms - ahead) for job in problem.jobs
        }
        stretch = {job.id: float(chance.uniform(0.6, 1.4)) for job in problem.jobs}
        hidden = sorted(((known_from[job.id], job) for job in problem.jobs), key=lambda one: (one[0], one[1].id))
        first = tuple(job for at, job in hidden if at <= 0)
        begun: Problem = replace(problem, jobs=first)
        standing = replan(Standing.of(begun, {}), [], now_ms=0, freeze_ms=0, work=FIRST_WORK).standing
        return Day(standing, [one for one in hidden if one[0] > 0], stretch)

    def replay(self, every_ms: int | None, replans: int, seen: Seen) -> None:
        """Replan so many times, at every so much time or at every event."""
        for _ in range(replans):
            now = self.standing.now_ms + every_ms if every_ms else self.next_event()
            events = self.events(now, seen)
            before = self.standing
            began, cpu = time.perf_counter(), time.process_time()
            found = replan(before, events, now_ms=now)
            seen.took_ms.append(1_000 * (time.perf_counter() - began))
            seen.cpu_ms.append(1_000 * (time.process_time() - cpu))
            pending = sum(1 for one in before.placed.values() if one.start_ms > now)
            seen.pending.append(pending)
            seen.moved.append(len(found.moves) / max(1, pending))
            seen.moves += len(found.moves)
            seen.told += sum(1 for move in found.moves if move.why)
            self.standing = found.standing

    def next_event(self) -> int:
        """When something happens next."""
        ends = [self.true_end(name) for name in self.running(self.standing.now_ms)]
        starts = [one.start_ms for one in self.standing.placed.values() if one.start_ms > self.standing.now_ms]
        soon = [*ends, *starts, *(at for at, _ in self.hidden[:1])]
        return max(self.standing.now_ms + 1, min(soon))

    def events(self, now: int, seen: Seen) -> list[Event]:
        """What has happened by an instant."""
        found: list[Event] = []
        for name in self.running(now):
            one, end = self.standing.placed[name], self.true_end(name)
            if end <= now:
                found.append(Finished(job=name, at_ms=end))
                deadline = self.standing.tasks[name].deadline_ms
                seen.ended += 1
                seen.met += deadline is None or end <= deadline
            elif one.end_ms <= now:
                found.append(Prolonged(job=name, end_ms=now + max(MINUTE_MS, one.mode.duration_ms // 5)))
        while self.hidden and self.hidden[0][0] <= now:
            found.append(Arrived(job=self.hidden.pop(0)[1]))
        return found

    def running(self, now: int) -> list[str]:
        """What runs at an instant."""
        return sorted(name for name, one in self.standing.placed.items() if one.start_ms <= now)

    def true_end(self, name: str) -> int:
        """When a running job ends in truth, which nobody knows."""
        one = self.standing.placed[name]
        planned = self.planned_ms.setdefault(name, one.mode.duration_ms)
        return one.start_ms + int(planned * self.stretch[name])


if __name__ == "__main__":
    main()
