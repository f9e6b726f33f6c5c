"""A cluster of which nothing is real but the HTTP: the double of the API server, with the one of Kueue behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enforcement import with_home
from kube import Client

from doubles.cluster.kueue import KueueDouble, kueue_running
from doubles.cluster.objects import ApiObjects
from doubles.cluster.serving import serving_objects
from gpuyield.collect.kubernetes import NODE

_SIZE = {"nvidia.com/gpu": "4", "cpu": "64"}


@contextmanager
def double_client(objects: ApiObjects, folder: Path) -> Iterator[Client]:
    """A client of a cluster of one node with 4 GPUs, which holds these objects while the context lasts."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    node = {"metadata": {"name": "n1", "labels": {}}, "spec": {}}
    objects.put(NODE, {**node, "status": {"allocatable": _SIZE, "capacity": _SIZE, "conditions": [ready]}})
    with serving_objects(objects, folder) as kubeconfig, kueue_running(KueueDouble(objects)):
        client = with_home(Client(kubeconfig))
        yield client
        client.close()
