"""One control plane for a whole session: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator

import binaries
import pytest

from controlplane import ControlPlane
from required import missing


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Etcd, API server, controllers, scheduler and Kueue, with one fake node."""
    try:
        binaries.program("kueue")
    except binaries.BuildError as error:
        missing("CONTROLPLANE", str(error))
    with ControlPlane(tmp_path_factory.mktemp("controlplane"), nodes=["1x4"]) as running:
        yield running
