"""The scenarios of the real control plane on the double of its API: the same file, and the double tells the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from enforcement import HOME, Enforcer
from kube import Client
from test_controller_scenarios import *  # noqa: F403  (the same tests, with the fixtures below)

from doubles.cluster.kueue import KueueDouble, kueue_running
from doubles.cluster.objects import ApiObjects
from doubles.cluster.serving import serving_objects
from gpuyield.collect.kubernetes import NODE

pytestmark = pytest.mark.controlplane
_SIZE = {"nvidia.com/gpu": "4", "cpu": "64"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A cluster of one node with 4 GPUs, of which nothing is real but the HTTP."""
    objects = ApiObjects()
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    node = {"metadata": {"name": "n1", "labels": {}}, "spec": {}}
    objects.put(NODE, {**node, "status": {"allocatable": _SIZE, "capacity": _SIZE, "conditions": [ready]}})
    folder = tmp_path_factory.mktemp("double")
    with serving_objects(objects, folder) as kubeconfig, kueue_running(KueueDouble(objects)):
        made = Client(kubeconfig)
        made.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
        yield made
        made.close()


@pytest.fixture(scope="module")
def enforcer(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Enforcer]:
    """One replica of the controller."""
    replica = Enforcer(client.kubeconfig, tmp_path_factory.mktemp("enforcer"), "replica-a")
    replica.start()
    yield replica
    replica.stop()
    print(replica.said()[-8000:])
