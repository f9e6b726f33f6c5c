"""One control plane for a whole session: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from controlplane import ControlPlane


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Etcd, API server, controllers, scheduler and Kueue, with one fake node."""
    pytest.importorskip("cryptography", reason="the control plane makes its certificates with cryptography")
    import binaries

    from controlplane import ControlPlane

    try:
        binaries.program("kueue")
    except binaries.BuildError as error:
        pytest.skip(str(error))
    with ControlPlane(tmp_path_factory.mktemp("controlplane"), nodes=["1x4"]) as running:
        yield running
