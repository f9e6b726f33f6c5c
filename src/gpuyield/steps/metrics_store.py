"""The declared metrics store, for questions that go on without its answer."""

from __future__ import annotations

import os
from pathlib import Path

from gpuyield.collect.connect import prometheus
from gpuyield.collect.http import Patience
from gpuyield.collect.prometheus import Prometheus
from gpuyield.model.declaration import Sources


def metrics_store(sources: Sources, *, folder: Path, patience: Patience) -> Prometheus | None:
    """A connection to the declared Prometheus; None where none is declared. `folder` is where relative paths start.

    Raises:
        DeclarationError: What is declared cannot be used.
    """
    if sources.prometheus is None:
        return None
    return prometheus(
        sources.prometheus,
        context=sources.context,
        folder=folder,
        environment=os.environ,
        home=Path.home(),
        patience=patience,
    )
