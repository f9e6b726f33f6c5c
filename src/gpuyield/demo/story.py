"""Who asks for GPUs in the made-up cluster, when and for how long.

Four teams: `support` serves a chat, `search` fine-tunes, embeds and keeps notebooks, `vision` trains for days and
holds labelling pods that nobody uses, `evals` starts a nightly batch at the hour when everybody else starts theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from random import Random
from zoneinfo import ZoneInfo

from gpuyield.demo.cluster import Service
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window, local_instant

ZONE = ZoneInfo("Europe/Berlin")


class Profile(StrEnum):
    """How busy the cards of a workload are while it runs."""

    NONE = "none"
    TRAIN = "train"
    FINETUNE = "finetune"
    SERVE = "serve"
    TRICKLE = "trickle"
    BOUTS = "bouts"
    BURN = "burn"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A pod that somebody wants; `run_ms` None: it stays. `then` is asked for when this one has ended.

    `end_phase` "" means that it is deleted at its end. `cancel_ms` deletes it if it has not been placed by then.
    `starts` False: it holds its GPUs and never runs.
    """

    namespace: str
    name: str
    owner_kind: str
    owner: str
    labels: dict[str, str] = field(default_factory=dict)
    gpus: int
    flavor: str | None = None
    arrive_ms: int
    pull_ms: int = 2 * MINUTE_MS
    run_ms: int | None = None
    end_phase: str = ""
    linger_ms: int = HOUR_MS
    profile: Profile = Profile.NONE
    starts: bool = True
    cancel_ms: int | None = None
    restart_after_ms: tuple[int, ...] = ()
    job: JobFacts | None = None
    then: Ask | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFacts:
    """What is known of a Job when it is created."""

    name: str
    family: str
    team: str
    cron: str | None
    duration_ms: int
    created_ms: int
    deadline_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """All asks, and the services among them."""

    asks: tuple[Ask, ...]
    services: tuple[Service, ...]


class Dice:
    """Chance from a seed and a name, in whole ticks; one die does not disturb another."""

    def __init__(self, seed: int, tick_ms: int) -> None:
        self._seed = seed
        self.tick_ms = tick_ms

    def of(self, name: str) -> Random:
        """The die of this name."""
        return Random(f"{self._seed}/{name}")

    def span(self, die: Random, low_ms: int, high_ms: int) -> int:
        """A length between two, on the tick."""
        return die.randint(low_ms // self.tick_ms, high_ms // self.tick_ms) * self.tick_ms

    def on_tick(self, at_ms: int) -> int:
        """The tick at or before an instant."""
        return at_ms - at_ms % self.tick_ms


def make_story(dice: Dice, window: Window, gpus: int, widest: dict[str, int]) -> Story:
    """What is asked of a cluster of `gpus`; `widest` is the most GPUs on one node, by flavor."""
    cast = _Cast(dice, window, gpus, widest)
    asks = [*cast.services(), *cast.notebooks(), *cast.training(), *cast.oddities()]
    for day in _days(window):
        asks += [*cast.finetunes(day), *cast.nightly(day), *cast.trials(day)]
    wanted = sorted(
        (ask for ask in asks if ask.arrive_ms < window.to_ms), key=lambda ask: (ask.arrive_ms, ask.namespace, ask.name)
    )
    return Story(asks=tuple(wanted), services=cast.service_facts())


def _days(window: Window) -> Iterator[date]:
    first = datetime.fromtimestamp(window.from_ms // 1000, UTC).date() - timedelta(days=1)
    for number in range((window.length_ms // DAY_MS) + 3):
        yield first + timedelta(days=number)


class _Cast:
    def __init__(self, dice: Dice, window: Window, gpus: int, widest: dict[str, int]) -> None:
        self._dice = dice
        self._window = window
        self._scale = gpus / 32
        self._widest = widest
        self._big = max(widest, key=lambda flavor: (widest[flavor], flavor))
        self._small = min(widest, key=lambda flavor: (widest[flavor], flavor))

    def _count(self, at_32: int) -> int:
        return max(1, round(at_32 * self._scale))

    def _wide(self, wanted: int, flavor: str) -> int:
        # On a tiny cluster nobody asks for more than a share of it, or nothing would ever be free.
        return max(1, min(wanted, self._widest[flavor], round(wanted * max(self._scale, 0.5))))

    def _at(self, share: float) -> int:
        return self._dice.on_tick(self._window.from_ms + int(self._window.length_ms * share))

    def service_facts(self) -> tuple[Service, ...]:
        return (
            Service(
                namespace="support",
                name="support-chat",
                team="support",
                app="chat",
                gpus_per_replica=self._wide(2, self._big),
                replicas=self._count(2),
                flavor=self._big,
            ),
            Service(
                namespace="search",
                name="embedder",
                team="search",
                app="embedder",
                gpus_per_replica=1,
                replicas=self._count(2),
                flavor=self._small,
            ),
        )

    def services(self) -> Iterator[Ask]:
        before = self._window.from_ms - 3 * DAY_MS
        for service in self.service_facts():
            for replica in range(service.replicas):
                die = self._dice.of(f"{service.name}/{replica}")
                ask = _replica(service, die, before)
                if service.app != "chat" or replica:
                    yield ask
                    continue
                # The first replica of the chat is restarted once, and later rolled to a new version.
                rolled_at = self._at(0.55) + self._dice.span(die, 0, HOUR_MS)
                yield replace(
                    ask,
                    run_ms=rolled_at - before - ask.pull_ms,
                    restart_after_ms=(self._at(0.25) - before,),
                    then=_replica(service, die, rolled_at),
                )

    def notebooks(self) -> Iterator[Ask]:
        before = self._window.from_ms - 2 * DAY_MS
        for number in range(self._count(2)):
            # In a namespace of its own, with its team only in the label.
            yield Ask(
                namespace="labs",
                name=f"label-studio-{number}",
                owner_kind="StatefulSet",
                owner="label-studio",
                labels={"app": "label-studio", "team": "vision"},
                gpus=self._wide(2, self._big),
                flavor=self._big,
                arrive_ms=before,
                profile=Profile.NONE,
            )
        for number in range(self._count(3)):
            die = self._dice.of(f"notebook/{number}")
            yield Ask(
                namespace="search",
                name=f"notebooks-{number}",
                owner_kind="StatefulSet",
                owner="notebooks",
                labels={"app": "notebooks"},
                gpus=1,
                arrive_ms=self._at(0.1) + self._dice.span(die, 0, 3 * HOUR_MS),
                pull_ms=self._dice.span(die, MINUTE_MS, 5 * MINUTE_MS),
                profile=Profile.BOUTS,
            )

    def training(self) -> Iterator[Ask]:
        for number in range(self._count(1)):
            die = self._dice.of(f"detector/{number}")
            arrive = self._at(0.05) + self._dice.span(die, 0, 6 * HOUR_MS)
            run = self._dice.span(die, 98 * HOUR_MS, 102 * HOUR_MS)
            name = f"detector-{number}"
            facts = JobFacts(
                name=name,
                family="detector",
                team="vision",
                cron=None,
                duration_ms=run,
                created_ms=arrive,
                deadline_ms=self._dice.on_tick(arrive + 2 * run),
            )
            yield replace(
                _job_pod("vision", facts, die),
                gpus=self._wide(8, self._big),
                flavor=self._big,
                pull_ms=6 * MINUTE_MS,
                run_ms=run,
                profile=Profile.TRAIN,
            )

    def finetunes(self, day: date) -> Iterator[Ask]:
        for number in range(self._count(3)):
            die = self._dice.of(f"finetune/{day}/{number}")
            arrive = local_instant(day, time(20), ZONE) + self._dice.span(die, 0, 90 * MINUTE_MS)
            run = self._dice.span(die, 6 * HOUR_MS, 9 * HOUR_MS)
            facts = JobFacts(
                name=f"finetune-7b-{day:%m%d}-{number}",
                family="finetune-7b",
                team="search",
                cron=None,
                duration_ms=run,
                created_ms=arrive,
                deadline_ms=arrive + 48 * HOUR_MS,
            )
            ask = replace(
                _job_pod("search", facts, die),
                gpus=self._wide(4, self._big),
                pull_ms=self._dice.span(die, 2 * MINUTE_MS, 6 * MINUTE_MS),
                run_ms=run,
                profile=Profile.FINETUNE,
            )
            breaks = die.random() < 0.25
            broken_ms = self._dice.on_tick(int(run * die.uniform(0.4, 0.7)))
            first = replace(ask, name=f"{facts.name}-{_suffix(die, 5)}", run_ms=broken_ms, end_phase="Failed", then=ask)
            yield first if breaks else ask

    def nightly(self, day: date) -> Iterator[Ask]:
        arrive = local_instant(day, time(22), ZONE)
        deadline = local_instant(day + timedelta(days=1), time(6), ZONE)
        for number in range(self._count(6)):
            die = self._dice.of(f"nightly/{day}/{number}")
            at_ms = arrive + self._dice.span(die, 0, MINUTE_MS)
            run = self._dice.span(die, 100 * MINUTE_MS, 150 * MINUTE_MS)
            facts = JobFacts(
                name=f"nightly-eval-{day:%m%d}-{number}",
                family="nightly-eval",
                team="evals",
                cron="nightly-eval",
                duration_ms=run,
                created_ms=at_ms,
                deadline_ms=deadline,
            )
            yield replace(
                _job_pod("evals", facts, die),
                gpus=self._wide(2, self._big),
                pull_ms=self._dice.span(die, MINUTE_MS, 4 * MINUTE_MS),
                run_ms=run,
                profile=Profile.BURN,
            )

    def trials(self, day: date) -> Iterator[Ask]:
        for number in range(self._count(4)):
            die = self._dice.of(f"trial/{day}/{number}")
            arrive = local_instant(day, time(9), ZONE) + self._dice.span(die, 0, 8 * HOUR_MS)
            run = self._dice.span(die, 20 * MINUTE_MS, 50 * MINUTE_MS)
            facts = JobFacts(
                name=f"trial-{day:%m%d}-{number}",
                family="trial",
                team="evals",
                cron=None,
                duration_ms=run,
                created_ms=arrive,
                deadline_ms=None,
            )
            ends = "Failed" if die.random() < 0.15 else "Succeeded"
            yield replace(_job_pod("evals", facts, die), run_ms=run, end_phase=ends, profile=Profile.BURN)

    def oddities(self) -> Iterator[Ask]:
        """A pod that never gets its image, and one that is wider than any node."""
        die = self._dice.of("oddities")
        stuck_at = self._at(0.22)
        yield Ask(
            namespace="vision",
            name=f"ocr-trial-{_suffix(die, 9)}-{_suffix(die, 5)}",
            owner_kind="ReplicaSet",
            owner="ocr-trial-7c9d5b6f4",
            labels={"app": "ocr-trial", "team": "vision"},
            gpus=self._wide(2, self._big),
            arrive_ms=stuck_at,
            starts=False,
            run_ms=self._dice.span(die, 8 * HOUR_MS, 10 * HOUR_MS),
        )
        giant_at = self._at(0.3)
        yield Ask(
            namespace="search",
            name="giant-0",
            owner_kind="StatefulSet",
            owner="giant",
            labels={"app": "giant"},
            gpus=2 * max(self._widest.values()),
            arrive_ms=giant_at,
            cancel_ms=giant_at + self._dice.span(die, 18 * HOUR_MS, 22 * HOUR_MS),
        )


def _replica(service: Service, die: Random, arrive_ms: int) -> Ask:
    """One pod of a service's Deployment, in a ReplicaSet of its own."""
    replica_set = f"{service.name}-{_suffix(die, 9)}"
    return Ask(
        namespace=service.namespace,
        name=f"{replica_set}-{_suffix(die, 5)}",
        owner_kind="ReplicaSet",
        owner=replica_set,
        labels={"app": service.app, "team": service.team},
        gpus=service.gpus_per_replica,
        flavor=service.flavor,
        arrive_ms=arrive_ms,
        pull_ms=4 * MINUTE_MS,
        profile=Profile.SERVE if service.app == "chat" else Profile.TRICKLE,
    )


def _job_pod(namespace: str, facts: JobFacts, die: Random) -> Ask:
    """A pod of a Job, with one GPU until told otherwise."""
    return Ask(
        namespace=namespace,
        name=f"{facts.name}-{_suffix(die, 5)}",
        owner_kind="Job",
        owner=facts.name,
        labels={"job-name": facts.name, "job": facts.family, "team": facts.team},
        gpus=1,
        arrive_ms=facts.created_ms,
        end_phase="Succeeded",
        job=facts,
    )


def _suffix(die: Random, length: int) -> str:
    return "".join(die.choices("bcdfghjklmnpqrstvwxz2456789", k=length))
