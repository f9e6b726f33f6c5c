"""A stage for one experiment: a namespace with its queues, and the moves of a planner on it.

Each scenario has a flavor, a ClusterQueue, a LocalQueue `main` and an AdmissionCheck of its own, so
experiments share nothing but the nodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from kube import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    LOCAL_QUEUE,
    NAMESPACE,
    POD,
    RESOURCE_FLAVOR,
    WORKLOAD,
    ApiError,
    Client,
    Object,
    condition,
    is_true,
    wait_for,
)

KUEUE = "kueue.x-k8s.io/v1beta2"
POLICIES = "admissionregistration.k8s.io/v1"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
GATES = "kueue.x-k8s.io/admission-gated-by"
OUR_GATE = "gpuyield.dev/plan"
GPU = "nvidia.com/gpu"


class Broken(Exception):
    """A claim does not hold; the message says what was seen instead."""


def expect(claim: bool, seen: str) -> str:
    """Return what was seen when the claim holds, and raise `Broken` with it otherwise."""
    if not claim:
        raise Broken(seen)
    return seen


def refusal(action: Callable[[], object]) -> str:
    """What the API server says when it refuses the action; empty when it accepts it."""
    try:
        action()
    except ApiError as error:
        return f"{error.status} {error.message}"
    return ""


def wait_for_policies(client: Client) -> None:
    """Wait until every ValidatingAdmissionPolicy that was applied so far is in force.

    The API server takes up what changed all at once and in order, so it is enough that one which is made now is.
    """
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    named = {"name": "only-that-one", "expression": "object.metadata.name == 'policies-in-force'"}
    spec: Object = {
        "matchConstraints": {"resourceRules": [rule]},
        "matchConditions": [named],
        "validations": [{"expression": "false", "message": "in force"}],
    }
    bound: Object = {"policyName": "policies-in-force", "validationActions": ["Deny"]}
    made = [
        _object(POLICIES, "ValidatingAdmissionPolicy", "policies-in-force", spec=spec),
        _object(POLICIES, "ValidatingAdmissionPolicyBinding", "policies-in-force", spec=bound),
    ]
    trial = _object("v1", "ConfigMap", "policies-in-force", "default")
    for one in made:
        client.apply(one)
    try:
        wait_for("the policies", lambda: "in force" in refusal(lambda: client.create(trial, dry_run=True)))
    finally:
        for one in reversed(made):
            client.delete_manifest(one)


def brief(refused: str) -> str:
    """The status code and the end of a refusal, where the reason stands."""
    code, _, message = refused.partition(" ")
    return f"{code} (...{message[-60:]})" if refused else "accepted"


class Scenario:
    """One namespace, its queues, and what can be done and seen there."""

    def __init__(self, client: Client, name: str, *, checked: bool = True) -> None:
        self.client = client
        self.name = name
        self.check = name if checked else None

    # Making the stage.

    def set_up(self, quota: Mapping[str, int], *, flavors_are_there: bool = False, **spec: object) -> None:
        """Create the objects; `quota` maps flavor to GPUs, `spec` adds to the ClusterQueue."""
        wait_for("the namespace to be gone", lambda: not self._is_namespace_going(), timeout_s=60)
        self.client.apply(_object("v1", "Namespace", self.name))
        if self.check:
            self.client.apply(self.check_manifest())
            self.activate_check()
        for flavor in () if flavors_are_there else quota:
            self.add_flavor(flavor)
        self.client.apply(self.cluster_queue(self.name, quota, **spec))
        self.add_local_queue("main", self.name)
        wait_for("an active ClusterQueue", lambda: is_true(self.read_queue(), "Active"))

    def cluster_queue(self, name: str, quota: Mapping[str, int], **spec: object) -> Object:
        """The manifest of a ClusterQueue under the scenario's check."""
        flavors = [
            {"name": flavor, "resources": [{"name": GPU, "nominalQuota": str(gpus)}]} for flavor, gpus in quota.items()
        ]
        content: Object = {
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
            **spec,
        }
        if self.check:
            content["admissionChecksStrategy"] = {"admissionChecks": [{"name": self.check}]}
        return _object(KUEUE, "ClusterQueue", name, spec=content)

    def check_manifest(self) -> Object:
        """The manifest of the scenario's AdmissionCheck."""
        return _object(KUEUE, "AdmissionCheck", self.name, spec={"controllerName": OUR_GATE})

    def add_flavor(self, name: str, **node_labels: str) -> None:
        """Add a ResourceFlavor whose name begins with the scenario's."""
        spec = {"nodeLabels": node_labels} if node_labels else {}
        self.client.apply(_object(KUEUE, "ResourceFlavor", name, spec=spec))

    def add_local_queue(self, name: str, cluster_queue: str) -> None:
        """Add a LocalQueue to the namespace."""
        spec = {"clusterQueue": cluster_queue}
        self.client.apply(_object(KUEUE, "LocalQueue", name, self.name, spec=spec))

    def activate_check(self) -> None:
        """Say that the check's controller is there, as that controller must."""
        status = {"conditions": [_condition("Active", "True", "Ready")]}
        manifest = _object(KUEUE, "AdmissionCheck", self.name, status=status)
        self.client.apply(manifest, manager=OUR_GATE, subresource="status")

    def tear_down(self) -> None:
        """Delete everything, and wait until the GPUs are free again."""
        for job in self.client.list(JOB, self.name):
            self.client.delete(JOB, job["metadata"]["name"], self.name)
        wait_for("the Workloads to go", lambda: not self._workloads(), timeout_s=60)
        wait_for("the pods to go", lambda: not self.client.list(POD, self.name), timeout_s=60)
        self.client.delete(NAMESPACE, self.name)
        for queue in self.client.list(CLUSTER_QUEUE):
            if queue["metadata"]["name"].startswith(self.name):
                self.client.delete(CLUSTER_QUEUE, queue["metadata"]["name"])
        for flavor in self.client.list(RESOURCE_FLAVOR):
            if flavor["metadata"]["name"].startswith(self.name):
                self.client.delete(RESOURCE_FLAVOR, flavor["metadata"]["name"])
        self.client.delete(ADMISSION_CHECK, self.name)

    def _is_namespace_going(self) -> bool:
        """Whether it is still being deleted, by a scenario of the same name before."""
        return any(
            one["metadata"]["name"] == self.name and "deletionTimestamp" in one["metadata"]
            for one in self.client.list(NAMESPACE)
        )

    # Moves.

    def submit(
        self,
        name: str,
        gpus: int = 2,
        *,
        gated: bool = False,
        seconds: float | None = None,
        queue: str = "main",
        annotations: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> Object:
        """Create a job of one pod; without `seconds` it runs until it is deleted."""
        return self.client.create(
            job_manifest(
                name,
                self.name,
                gpus,
                queue=queue,
                annotations={**({GATES: OUR_GATE} if gated else {})},
                labels=labels,
                pod_annotations={
                    **({} if seconds is None else {"fake-kubelet/run-seconds": str(seconds)}),
                    **(annotations or {}),
                },
            )
        )

    def ungate(self, job: str) -> None:
        """Take our gate off the job, which is how a planner releases it."""
        self.client.merge(JOB, job, {"metadata": {"annotations": {GATES: None}}}, self.name)

    def gate(self, job: str) -> None:
        """Try to put our gate on the job; Kueue refuses it after the creation."""
        change = {"metadata": {"annotations": {GATES: OUR_GATE}}}
        self.client.merge(JOB, job, change, self.name)

    def cancel(self, job: str) -> None:
        """Delete the job."""
        self.client.delete(JOB, job, self.name)

    def answer(self, job: str, state: str, **fields: object) -> Object:
        """Write our check's state into the job's Workload, as its controller does."""
        entry = {
            "name": self.check,
            "state": state,
            "lastTransitionTime": now(),
            "message": "by the scenario",
            **fields,
        }
        name = self.workload(job)["metadata"]["name"]
        manifest = _object(KUEUE, "Workload", name, self.name, status={"admissionChecks": [entry]})
        return self.client.apply(manifest, manager=OUR_GATE, subresource="status")

    def set_active(self, job: str, *, active: bool) -> None:
        """Deactivate or reactivate the job's Workload."""
        name = self.workload(job)["metadata"]["name"]
        self.client.merge(WORKLOAD, name, {"spec": {"active": active}}, self.name)

    def move(self, job: str, queue: str) -> None:
        """Put the job into another LocalQueue."""
        self.client.merge(JOB, job, {"metadata": {"labels": {QUEUE_LABEL: queue}}}, self.name)

    def stop_queue(self, policy: str) -> None:
        """Set the ClusterQueue's stopPolicy: None, Hold or HoldAndDrain."""
        self.client.merge(CLUSTER_QUEUE, self.name, {"spec": {"stopPolicy": policy}})

    def stop_local_queue(self, policy: str, name: str = "main") -> None:
        """Set the LocalQueue's stopPolicy: None, Hold or HoldAndDrain."""
        self.client.merge(LOCAL_QUEUE, name, {"spec": {"stopPolicy": policy}}, self.name)

    # Sights.

    def job(self, name: str) -> Object:
        """The job as it is now."""
        return self.client.get(JOB, name, self.name)

    def workload(self, job: str) -> Object:
        """The job's Workload; waits until Kueue has made it."""
        return wait_for(f"a Workload of {job}", lambda: self._workload_of(job))

    def has(self, job: str, kind: str) -> bool:
        """Whether a condition of the job's Workload is True."""
        return is_true(self.workload(job), kind)

    def why(self, job: str, kind: str = "QuotaReserved") -> str:
        """Reason and message of a condition of the job's Workload."""
        found = condition(self.workload(job), kind)
        return f"{found.get('reason', 'no condition')}: {found.get('message', '')}".rstrip(": ")

    def check_entry(self, job: str) -> Object:
        """Our check's entry in the job's Workload; empty while there is none."""
        entries: list[Object] = self.workload(job).get("status", {}).get("admissionChecks") or []
        return next((each for each in entries if each["name"] == self.check), {})

    def read_queue(self, name: str | None = None) -> Object:
        """The ClusterQueue as it is now."""
        return self.client.get(CLUSTER_QUEUE, name or self.name)

    def gpus(self, counter: str = "flavorsReservation", queue: str | None = None) -> int:
        """GPUs that the ClusterQueue counts as reserved (or, `flavorsUsage`, as admitted)."""
        flavors = self.read_queue(queue)["status"].get(counter) or []
        return sum(int(each["resources"][0]["total"]) for each in flavors)

    def is_running(self, job: str) -> bool:
        """Whether a pod of the job runs."""
        return bool(self.job(job)["status"].get("ready"))

    def is_complete(self, job: str) -> bool:
        """Whether the job has succeeded."""
        return is_true(self.job(job), "Complete")

    def was_evicted(self, job: str) -> bool:
        """Whether the job's Workload was ever evicted; the condition may be False again by now."""
        return bool(condition(self.workload(job), "Evicted"))

    def evictions(self) -> int:
        """How many of the Workloads were ever evicted."""
        return sum(bool(condition(each, "Evicted")) for each in self._workloads())

    def wait_reserved(self, job: str) -> float:
        """Seconds until the job's Workload holds quota."""
        return seconds_until("quota for " + job, lambda: self.has(job, "QuotaReserved"))

    def wait_checked(self, job: str) -> float:
        """Seconds until the job's Workload holds quota and our check is asked."""
        return seconds_until(
            "our check for " + job,
            lambda: self.has(job, "QuotaReserved") and bool(self.check_entry(job)),
        )

    def admit(self, job: str) -> None:
        """Wait for quota, answer Ready, and wait until the job runs."""
        self.wait_checked(job)
        self.answer(job, "Ready")
        wait_for(f"{job} to run", lambda: self.is_running(job))

    def _workloads(self) -> list[Object]:
        return self.client.list(WORKLOAD, self.name)

    def _workload_of(self, job: str) -> Object | None:
        for workload in self._workloads():
            owners = workload["metadata"].get("ownerReferences", [])
            if any(owner["name"] == job for owner in owners):
                return workload
        return None


@contextmanager
def scenario(client: Client, name: str, gpus: int = 4, *, checked: bool = True, **spec: object) -> Iterator[Scenario]:
    """A scenario with one flavor of `gpus`, torn down at the end."""
    stage = Scenario(client, name, checked=checked)
    stage.set_up({name: gpus}, **spec)
    try:
        yield stage
    finally:
        stage.tear_down()


def job_manifest(
    name: str,
    namespace: str,
    gpus: int,
    *,
    queue: str = "main",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
) -> Object:
    """A job of one pod with so many GPUs."""
    manifest = _object("batch/v1", "Job", name, namespace)
    manifest["metadata"]["labels"] = {QUEUE_LABEL: queue, **(labels or {})}
    manifest["metadata"]["annotations"] = dict(annotations or {})
    manifest["spec"] = {
        "backoffLimit": 0,
        "template": {
            "metadata": {"annotations": dict(pod_annotations or {})},
            "spec": pod_spec(gpus),
        },
    }
    return manifest


def pod_spec(gpus: int) -> Object:
    """A pod of one container that asks for GPUs and nothing else."""
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(gpus)}}}
    return {"restartPolicy": "Never", "containers": [container]}


def seconds_until(what: str, probe: Callable[[], bool], timeout_s: float = 30.0) -> float:
    """Wait until the probe says yes; returns the seconds that took."""
    began = time.monotonic()
    wait_for(what, probe, timeout_s)
    return time.monotonic() - began


def seconds_while(probe: Callable[[], bool], limit_s: float) -> float:
    """How long the probe keeps saying yes, up to a limit."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s and probe():
        time.sleep(0.1)
    return time.monotonic() - began


def now() -> str:
    """The time now as Kubernetes writes it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _object(api_version: str, kind: str, name: str, namespace: str | None = None, **content: object) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _condition(kind: str, status: str, reason: str) -> Object:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": now(),
    }
