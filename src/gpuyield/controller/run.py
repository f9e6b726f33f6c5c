"""The running controller: its connection, its signals and its end; its parts are put together in `replica`."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING

from gpuyield.collect.kubernetes import connect
from gpuyield.controller.health import Health
from gpuyield.controller.log_lines import log_to_stderr
from gpuyield.controller.mirror import Mirror
from gpuyield.controller.options import Options
from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer
from gpuyield.steps.setting import read_declaration

if TYPE_CHECKING:
    from gpuyield.controller.replica import Replica


def run_controller(options: Options) -> Answer:
    """The answer of `gpuyield controller run`, when it has ended.

    Raises:
        DeclarationError: No way to the cluster, or a declaration that cannot be read.
        SourceError: The port is taken; or, with a dry run, the cluster is out of reach.
    """
    log_to_stderr(debug=options.debug)
    api = connect(options.context or read_declaration(options.file).sources.context)
    mirror = Mirror(api)
    mirror.start()
    try:
        # All that plans is loaded while the cluster is listed: after a restart somebody waits for an answer.
        from gpuyield.controller.replica import Replica
        from gpuyield.steps.compiled import keep_compiled

        keep_compiled()
        replica = Replica(api, mirror, options)
        return replica.look_once() if options.dry_run else _run(replica, options)
    finally:
        mirror.stop()


def _run(replica: Replica, options: Options) -> Answer:
    replica.keeper.read_ahead()
    health = Health(
        options.bind,
        options.port,
        not_alive=replica.not_alive,
        not_ready=replica.not_ready,
        metrics=replica.metrics,
    )
    stop = Event()
    with _told_to_stop(stop, replica.mirror.wake):
        replica.lease.start()
        replica.loop.run(stop)
        replica.keeper.close()
        replica.lease.stop()
    health.close()
    document = {
        "schema": schema_name("controller"),
        "identity": options.name,
        "counts": dict(replica.metrics.counts),
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
