"""What a page is made from: the account, and the documents of the other rooms, all of one window."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any  # Documents are JSON.
from zoneinfo import ZoneInfo

from gpuyield.model.evidence import Gap
from gpuyield.model.services import Services
from gpuyield.model.starts import Started
from gpuyield.model.waterfall import Account

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRead:
    """A source and what was read of it."""

    name: str
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that a page tells; what is None was not asked or could not be answered, and the page says so.

    `starts` are the jobs of planned queues that began in the window (None: no plan is enforced). `measured` are the
    newest measure documents of services. `after_services`: the plan's GPUs are those that services leave.
    `decision_path` is the file that holds the decision (None: it was not written to one).
    """

    cluster: str
    zone: ZoneInfo
    version: str
    account: Account | None = None
    by_team: Account | None = None
    queue: Document | None = None
    cost: Document | None = None
    plan: Document | None = None
    plan_inputs: Document | None = None
    decision: Document | None = None
    services: Services | None = None
    starts: tuple[Started, ...] | None = None
    measured: tuple[Document, ...] = ()
    gaps: tuple[Gap, ...] = ()
    sources: tuple[SourceRead, ...] = ()
    after_services: bool = False
    decision_path: str | None = None
