"""Fixtures that several rooms share: the shared data, real servers with a past."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuyield.steps.compiled import keep_compiled
from servers.programs import remember_caches
from servers.session import Servers, Store
from servers.stores import PROMETHEUS_2, PROMETHEUS_3, VICTORIA_1_79, VICTORIA_1_151

_SHARED = Path(__file__).resolve().parents[1] / ".." / "shared"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of recorded data beside the repository; tests that need it are skipped where it is absent."""
    folder = (_SHARED / "data").resolve()
    if not folder.is_dir():
        pytest.skip("the recorded data (../shared/data) is not beside the repository")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _kept_kernel() -> None:
    """Compiled code is kept from run to run, as it is for whoever uses the program."""
    keep_compiled()


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The real servers of this session."""
    with contextlib.ExitStack() as stack:
        yield Servers(folder=tmp_path_factory.mktemp("servers"), stack=stack)


remember_caches()

_IN_ITS_STAGE = pytest.mark.servers
"""One generation is met by default, the others by the stage of servers."""


@pytest.fixture(
    params=[
        pytest.param(PROMETHEUS_2, id=PROMETHEUS_2.name),
        pytest.param(VICTORIA_1_79, id=VICTORIA_1_79.name, marks=_IN_ITS_STAGE),
        pytest.param(PROMETHEUS_3, id=PROMETHEUS_3.name, marks=_IN_ITS_STAGE),
        pytest.param(VICTORIA_1_151, id=VICTORIA_1_151.name, marks=_IN_ITS_STAGE),
    ]
)
def store(request: pytest.FixtureRequest, servers: Servers) -> Store:
    """Each generation of real server in turn."""
    return Store(generation=request.param, servers=servers)
