"""One job as an account sees it that may read its own namespace and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from gpuyield.model.kueue import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An event about a job; `by` is the component that wrote it."""

    at_ms: int
    reason: str
    message: str
    by: str
    is_warning: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSeen:
    """The LocalQueue that a job is in: how many Workloads wait in it, hold quota and run (None: not told)."""

    name: str
    cluster_queue: str
    pending: int | None
    reserving: int | None
    admitted: int | None
    stopped: str = ""
    inactive: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneJob:
    """A job with all that its namespace tells of it.

    `work` is None where Kueue has made no Workload of it that asks for GPUs, or it may not be read. `is_there` is
    whether the object itself was found (None: it may not be read), `in_queue` the queue that it names. `lacking` are
    the resources that may not be read.
    """

    namespace: str
    kind: str
    name: str
    at_ms: int
    is_there: bool | None
    in_queue: str
    work: Work | None
    queue: QueueSeen | None
    said: tuple[Said, ...]
    lacking: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"
