"""What `gpuyield controller run` is asked."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from gpuyield.model.marks import NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one replica."""

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
