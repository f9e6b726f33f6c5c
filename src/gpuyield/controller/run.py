"""The running controller: its connections, clocks and signals, put together; what it does is in `loop`."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, current_thread, main_thread

from gpuyield.collect.kubernetes import ClusterApi, connect
from gpuyield.controller.acting import Acting
from gpuyield.controller.apply import Writer
from gpuyield.controller.beat import Beat
from gpuyield.controller.decide import Manner, is_parked
from gpuyield.controller.dry_run import look_once
from gpuyield.controller.fitness import Fitness
from gpuyield.controller.health import Health
from gpuyield.controller.lease import Lease
from gpuyield.controller.live_terms import Terms
from gpuyield.controller.log_lines import log_to_stderr
from gpuyield.controller.loop import Loop
from gpuyield.controller.metrics import Metrics
from gpuyield.controller.mirror import Mirror
from gpuyield.controller.plan_keeper import PATIENCE_S, PlanKeeper
from gpuyield.controller.store import PlanStore
from gpuyield.model.document import schema_name
from gpuyield.model.kueue import CheckState, Work
from gpuyield.model.marks import NAMESPACE
from gpuyield.report.answer import Answer
from gpuyield.steps.compiled import keep_compiled
from gpuyield.steps.setting import read_declaration, wall_clock_ms
from gpuyield.units import parse_zone

SEARCH_S = 1.0
"""So long a new plan is searched for at most; carrying the old one on comes first."""

SETTLE_MS = 2_000
"""Jobs that come together are planned together: none is released before so long."""

SILENT_S = 60.0
"""A loop that has not gone round for so long is not alive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `gpuyield controller run` was asked."""

    namespace: str | None
    identity: str | None
    bind: str
    port: int
    dry_run: bool
    context: str | None
    file: Path
    ledger_root: Path
    debug: bool = False

    @property
    def home(self) -> str:
        """The namespace of the controller."""
        return self.namespace or os.environ.get("POD_NAMESPACE") or NAMESPACE

    @property
    def name(self) -> str:
        """The name of this replica."""
        return self.identity or os.environ.get("POD_NAME") or socket.gethostname()


class Controller:
    """All parts of one replica, joined."""

    def __init__(self, api: ClusterApi, options: Options) -> None:
        self.api = api
        self.metrics = Metrics()
        self.mirror = Mirror(api)
        self.lease = Lease(api, options.home, options.name, changed=self.mirror.wake)
        self.fitness = Fitness(api, options.home, time.monotonic)
        self.terms = Terms(options.file, options.ledger_root)
        declared = self.terms.declaration
        self.manner = Manner(
            zone=parse_zone(declared.reporting_zone), inventory=tuple(declared.inventory), settle_ms=SETTLE_MS
        )
        self.checks: frozenset[str] = frozenset()
        self.keeper = PlanKeeper(
            PlanStore(api, options.home),
            self.terms,
            is_parked=is_parked,
            is_asked=self._is_asked,
            time_limit=_time_limit,
            writes=not options.dry_run,
            patience_s=None if options.dry_run else PATIENCE_S,
        )
        self.loop = Loop(
            watched=self.mirror,
            leading=self.lease,
            keeper=self.keeper,
            acting=Acting(Writer(api, self.metrics, self.lease.leads), self.metrics, lambda: self.manner),
            beat=Beat(api),
            metrics=self.metrics,
            look=self._look,
            clock_ms=wall_clock_ms,
            monotonic=time.monotonic,
        )

    def _look(self, checks: frozenset[str]) -> str:
        self.checks = checks
        return self.fitness.refusal(checks)

    def _is_asked(self, work: Work) -> bool:
        return any(one.name in self.checks and one.state is CheckState.PENDING for one in work.checks)

    def not_alive(self) -> str:
        """Why this process has to be started anew; "" while the loop goes round."""
        silent_s = time.monotonic() - self.loop.state.round_s
        return f"the loop stands still for {silent_s:.0f} s" if silent_s > SILENT_S else ""

    def not_ready(self) -> str:
        """Why nothing is enforced by this replica now."""
        return self.loop.state.trouble


def run_controller(options: Options) -> Answer:
    """The answer of `gpuyield controller run`, when it has ended.

    Raises:
        DeclarationError: No way to the cluster, or a declaration that cannot be read.
        SourceError: The port is taken; or, with a dry run, the cluster is out of reach.
    """
    log_to_stderr(debug=options.debug)
    keep_compiled()
    declared = read_declaration(options.file).sources.kubernetes
    api = connect(options.context or (declared.context if declared else None))
    controller = Controller(api, options)
    if options.dry_run:
        return look_once(controller.mirror, controller.keeper, controller.fitness, controller.manner, wall_clock_ms)
    health = Health(
        options.bind,
        options.port,
        not_alive=controller.not_alive,
        not_ready=controller.not_ready,
        metrics=controller.metrics,
    )
    stop = Event()
    with _told_to_stop(stop, controller.mirror.wake):
        controller.mirror.start()
        controller.lease.start()
        controller.loop.run(stop)
        controller.keeper.close()
        controller.lease.stop()
        controller.mirror.stop()
    health.close()
    document = {
        "schema": schema_name("controller"),
        "identity": options.name,
        "counts": dict(controller.metrics.counts),
    }
    return Answer(
        document=document, headline=(f"{options.name} was stopped. Its checks are inactive until another leads.",)
    )


@contextmanager
def _told_to_stop(stop: Event, wake: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT end the loop after its round."""

    def told(*_: object) -> None:
        stop.set()
        wake()

    if current_thread() is not main_thread():
        yield
        return
    before = {one: signal.signal(one, told) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, how in before.items():
            signal.signal(one, how)


def _time_limit() -> Callable[[], bool]:
    end_s = time.monotonic() + SEARCH_S
    return lambda: time.monotonic() >= end_s
