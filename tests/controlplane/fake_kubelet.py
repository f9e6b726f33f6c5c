"""Plays the nodes: pods that the scheduler binds start, run and end, but no container does.

Annotations steer it. On a pod (set them in the job's pod template):

    fake-kubelet/run-seconds     ends so long after its start; without it, runs until deleted
    fake-kubelet/exit-code       other than 0: ends as Failed
    fake-kubelet/start-seconds   stays Pending so long, as when pulling an image
    fake-kubelet/stop-seconds    takes so long to go when deleted
    fake-kubelet/never-start     "true": stays Pending for ever

On a node:

    fake-kubelet/not-ready       "true": reports Ready=False
    fake-kubelet/silent          "true": no heartbeat, and its pods stand still, as after a crash

A failed container is never restarted in place, whatever the pod's `restartPolicy`.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import httpx2
from kube import LEASE, NODE, POD, ApiError, Client, Object, Resource

PREFIX = "fake-kubelet/"
HEARTBEAT_S = 2.0
RETRY_S = 0.5
LEASE_NAMESPACE = "kube-node-lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """A node to play."""

    name: str
    gpus: int
    labels: dict[str, str] = field(default_factory=dict)


def parse_nodes(texts: Sequence[str]) -> list[NodeSpec]:
    """Nodes from texts such as `1x4` or `2x8:accelerator=h100`: count, GPUs of each, labels.

    Raises:
        ValueError: A text has another form.
    """
    number = itertools.count()
    nodes = []
    for text in texts:
        size, _, labels = text.partition(":")
        count, _, gpus = size.partition("x")
        pairs = dict(each.split("=", 1) for each in labels.split(",") if each)
        nodes += [NodeSpec(name=f"node-{next(number)}", gpus=int(gpus), labels=pairs) for _ in range(int(count))]
    return nodes


class FakeKubelet:
    """One loop that plays all nodes: what is due is done, then the next event is awaited."""

    def __init__(self, client: Client, nodes: Sequence[NodeSpec]) -> None:
        self._client = client
        self._nodes = {node.name: node for node in nodes}
        self._silent: set[str] = set()
        self._planned: set[tuple[str, str]] = set()
        self._agenda: list[tuple[float, int, str, Callable[[], None]]] = []
        self._order = itertools.count()
        self._events: queue.SimpleQueue[tuple[Resource, Object]] = queue.SimpleQueue()

    def run(self) -> None:
        """Play for ever."""
        for node in self._nodes.values():
            self._after(0, node.name, partial(self._register, node))
        for resource in (NODE, POD):
            threading.Thread(target=self._listen, args=(resource,), daemon=True).start()
        while True:
            self._do_what_is_due()
            for resource, found in self._events_until(self._agenda[0][0]):
                if resource is NODE:
                    self._plan_node(found)
                else:
                    self._plan_pod(found)

    def _listen(self, resource: Resource) -> None:
        for kind, found in self._client.watch(resource):
            if kind != "DELETED":
                self._events.put((resource, found))

    def _events_until(self, due: float) -> Iterator[tuple[Resource, Object]]:
        """The next event and all behind it; none when something is due before."""
        try:
            yield self._events.get(timeout=max(0.0, due - time.monotonic()))
            while True:
                yield self._events.get_nowait()
        except queue.Empty:
            return

    def _after(self, delay_s: float, node: str, action: Callable[[], None]) -> None:
        entry = (time.monotonic() + delay_s, next(self._order), node, action)
        heapq.heappush(self._agenda, entry)

    def _do_what_is_due(self) -> None:
        """Do what is due; what fails, or belongs to a silent node, is tried again."""
        while self._agenda[0][0] <= time.monotonic():
            _, _, node, action = heapq.heappop(self._agenda)
            if node in self._silent:
                self._after(RETRY_S, node, action)
                continue
            try:
                action()
            except (httpx2.HTTPError, ApiError) as error:
                print(f"{node}: {error}", file=sys.stderr, flush=True)
                self._after(RETRY_S, node, action)

    def _plan_node(self, node: Object) -> None:
        name = node["metadata"]["name"]
        if name not in self._nodes:
            return
        if _wish(node, "silent") == "true":
            self._silent.add(name)
        else:
            self._silent.discard(name)
        ready = "False" if _wish(node, "not-ready") == "true" else "True"
        shown = [each for each in node["status"].get("conditions", []) if each["type"] == "Ready"]
        if shown and shown[0]["status"] != ready:
            self._after(0, name, partial(self._report, name, ready))

    def _plan_pod(self, pod: Object) -> None:
        if pod["spec"].get("nodeName") not in self._nodes:
            return
        phase = pod["status"].get("phase", "Pending")
        if "deletionTimestamp" in pod["metadata"]:
            self._once("remove", pod, float(_wish(pod, "stop-seconds") or 0), self._remove)
        elif phase == "Pending" and _wish(pod, "never-start") != "true":
            self._once("start", pod, float(_wish(pod, "start-seconds") or 0), self._start)
        elif phase == "Running" and _wish(pod, "run-seconds"):
            # Only after a restart: `_start` has planned the end already.
            began = datetime.fromisoformat(pod["status"]["startTime"])
            ran_s = (datetime.now(UTC) - began).total_seconds()
            self._once("finish", pod, float(_wish(pod, "run-seconds")) - ran_s, self._finish)

    def _once(self, what: str, pod: Object, delay_s: float, action: Callable[[Object], None]) -> None:
        """Plan an action for a pod unless it is planned already; a restart finds the same plan."""
        key = (what, pod["metadata"]["uid"])
        if key not in self._planned:
            self._planned.add(key)
            self._after(delay_s, pod["spec"]["nodeName"], partial(action, pod))

    def _register(self, node: NodeSpec) -> None:
        labels = {
            "kubernetes.io/hostname": node.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **node.labels,
        }
        metadata = {"name": node.name, "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        self._client.apply(manifest, manager="fake-kubelet")
        self._report(node.name, "True")
        self._beat(node.name)

    def _report(self, name: str, ready: str) -> None:
        """Post the node's status, which says how much it has and whether it is ready."""
        resources = {
            "cpu": "64",
            "memory": "512Gi",
            "pods": "110",
            "nvidia.com/gpu": str(self._nodes[name].gpus),
        }
        status = {
            "capacity": resources,
            "allocatable": resources,
            "nodeInfo": {"kubeletVersion": "v0.0.0-fake"},
            "conditions": [_condition("Ready", ready, reason="Fake")],
        }
        self._client.merge(NODE, name, {"status": status}, subresource="status")

    def _beat(self, name: str) -> None:
        """Renew the node's lease, and plan the next heartbeat."""
        lease = {
            "apiVersion": LEASE.api_version,
            "kind": "Lease",
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": 40,
                "renewTime": _now(micro=True),
            },
        }
        self._client.apply(lease, manager="fake-kubelet")
        self._after(HEARTBEAT_S, name, partial(self._beat, name))

    def _start(self, pod: Object) -> None:
        state = {"running": {"startedAt": _now()}}
        status = {
            "phase": "Running",
            "startTime": _now(),
            "hostIP": "127.0.0.1",
            "conditions": _pod_conditions("True", reason=None),
            "containerStatuses": _containers(pod, state, ready=True),
        }
        self._post(pod, status)
        if _wish(pod, "run-seconds"):
            self._once("finish", pod, float(_wish(pod, "run-seconds")), self._finish)

    def _finish(self, pod: Object) -> None:
        code = int(_wish(pod, "exit-code") or 0)
        state = {"terminated": {"exitCode": code, "finishedAt": _now()}}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "conditions": _pod_conditions("False", reason="PodCompleted"),
            "containerStatuses": _containers(pod, state, ready=False),
        }
        self._post(pod, status)

    def _remove(self, pod: Object) -> None:
        metadata = pod["metadata"]
        same = {"uid": metadata["uid"]}
        with _unless_gone():
            self._client.delete(
                POD,
                metadata["name"],
                metadata["namespace"],
                gracePeriodSeconds=0,
                preconditions=same,
            )

    def _post(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        change = {"metadata": {"uid": metadata["uid"]}, "status": status}
        with _unless_gone():
            self._client.merge(POD, metadata["name"], change, metadata["namespace"], "status")


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Let it pass when the pod is gone, or when another pod has its name by now."""
    try:
        yield
    except ApiError as error:
        if error.status not in (404, 409):
            raise


def _wish(found: Object, name: str) -> str:
    """What an annotation of ours asks for; empty when there is none."""
    return str(found["metadata"].get("annotations", {}).get(PREFIX + name, ""))


def _now(*, micro: bool = False) -> str:
    stamp = datetime.now(UTC).isoformat(timespec="microseconds" if micro else "seconds")
    return stamp.replace("+00:00", "Z")


def _condition(kind: str, status: str, reason: str | None) -> Object:
    reasons = {"reason": reason} if reason else {}
    return {"type": kind, "status": status, "lastTransitionTime": _now(), **reasons}


def _pod_conditions(ready: str, reason: str | None) -> list[Object]:
    done = [_condition(kind, "True", None) for kind in ("PodScheduled", "Initialized")]
    return [*done, *(_condition(kind, ready, reason) for kind in ("ContainersReady", "Ready"))]


def _containers(pod: Object, state: Object, *, ready: bool) -> list[Object]:
    return [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for each in pod["spec"]["containers"]
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--nodes", nargs="+", default=["1x4"], help="COUNTxGPUS[:LABEL=VALUE,...]")
    options = parser.parse_args()
    FakeKubelet(Client(options.kubeconfig), parse_nodes(options.nodes)).run()


if __name__ == "__main__":
    main()
