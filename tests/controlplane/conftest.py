"""One control plane for a whole session: starting one takes longer than most tests."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import binaries
import pytest
from enforcement import Enforcer, Planned, planned, with_home
from kube import Client

from controlplane import ControlPlane
from required import missing

_NUMBERS = count(1)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Etcd, API server, controllers, scheduler and Kueue, with one fake node."""
    try:
        binaries.program("kueue")
    except binaries.BuildError as error:
        missing("CONTROLPLANE", str(error))
    with ControlPlane(tmp_path_factory.mktemp("controlplane"), nodes=["1x4"]) as running:
        yield running


@pytest.fixture(scope="session")
def client(stack: ControlPlane) -> Client:
    """The administrator, with the namespace of the controller made."""
    return with_home(stack.client())


@pytest.fixture(scope="module")
def enforcer(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enforcer]:
    """One replica of the controller for all tests of a module; those that end it start it again."""
    replica = Enforcer(client.kubeconfig, tmp_path_factory.mktemp("enforcer"), "replica-a")
    replica.start()
    yield replica
    replica.stop()
    print(replica.said()[-8000:])


@pytest.fixture
def stage(client: Client, enforcer: Enforcer) -> Iterator[Planned]:
    """A queue of 4 GPUs under the controller, in a namespace of its own."""
    with planned(client, f"planned-{next(_NUMBERS)}") as made:
        yield made
