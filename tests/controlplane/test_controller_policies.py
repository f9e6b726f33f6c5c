"""The policies of `controller manifests` on a real API server: what must be refused, and what is allowed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kube import ADMISSION_CHECK, JOB, NAMESPACE, WORKLOAD, Client, Resource, wait_for
from scenario import GATES, OUR_GATE, QUEUE_LABEL, Scenario, job_manifest, now, refusal, wait_for_policies

from controlplane import ControlPlane
from gpuyield.controller.manifests.everything import objects
from gpuyield.controller.manifests.settings import Deadlines, Settings

pytestmark = pytest.mark.controlplane

SPACE, OUTSIDE = "policed", "policed-not"
SETTINGS = Settings(image="registry.example/gpuyield:1", deadlines=Deadlines.DENY)
ACCOUNT = "system:serviceaccount:gpuyield-system:gpuyield-controller"
CONFIG_MAP = Resource("v1", "configmaps")
LEASE = Resource("coordination.k8s.io/v1", "leases")
GPU_QUEUE = Resource("kueue.x-k8s.io/v1beta2", "clusterqueues")
ROLES = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")

Object = dict[str, Any]


@pytest.fixture(scope="module")
def installed(stack: ControlPlane) -> Iterator[list[Object]]:
    """All manifests, applied; the namespace is left, for it is that of other tests, too."""
    client = stack.client()
    made = objects(SETTINGS)
    for one in made:
        client.apply(one)
    try:
        yield made
    finally:
        for one in reversed(made[1:]):
            client.delete_manifest(one)


@pytest.fixture(scope="module")
def stage(stack: ControlPlane, installed: list[Object]) -> Iterator[Scenario]:
    """A namespace that opted in, its queue under the check `gpuyield`; and one that did not."""
    client = stack.client()
    condition = {"type": "Active", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now()}
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "gpuyield"}}
    client.apply({**check, "status": {"conditions": [condition]}}, manager=OUR_GATE, subresource="status")
    stage = Scenario(client, SPACE, checked=False)
    strategy = {"admissionChecks": [{"name": "gpuyield"}]}
    stage.set_up({SPACE: 4}, admissionChecksStrategy=strategy)
    stage.check = "gpuyield"
    stage.add_local_queue("default", SPACE)
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OUTSIDE}})
    client.merge(NAMESPACE, SPACE, {"metadata": {"labels": {"gpuyield.dev/managed": "true"}}})
    wait_for_policies(client)
    wait_for("the namespace's label", lambda: bool(refusal(lambda: client.create(job("trial"), dry_run=True))))
    wait_for("the gate policy", lambda: gate_of(client.create(due("trial"), dry_run=True)) == OUR_GATE)
    try:
        yield stage
    finally:
        stage.check = None
        stage.tear_down()
        client.delete(NAMESPACE, OUTSIDE)


@pytest.fixture(scope="module")
def ours(stack: ControlPlane, stage: Scenario) -> Client:
    """The controller's account, under its real roles, once the policies on it work."""
    client = stack.client(ACCOUNT, groups=("system:serviceaccounts", "system:serviceaccounts:gpuyield-system"))
    trial = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "gpuyield-system"}}
    wait_for("our own policies", lambda: "writes its plan" in refusal(lambda: client.create(trial, dry_run=True)))
    return client


def job(name: str, namespace: str = SPACE, gpus: int = 1, **said: str) -> Object:
    """A job with our annotations (`expected_duration="2h"`)."""
    annotations = {f"gpuyield.dev/{key.replace('_', '-')}": text for key, text in said.items()}
    return job_manifest(name, namespace, gpus, annotations=annotations)


def due(name: str, namespace: str = SPACE, **more: str) -> Object:
    return job(name, namespace, deadline="within 8h", **more)


def gate_of(of: Object) -> str | None:
    found: str | None = of["metadata"].get("annotations", {}).get(GATES)
    return found


def submitted(stage: Scenario, name: str) -> Object:
    """A job in the queue, with its Workload."""
    stage.client.create(due(name))
    return stage.workload(name)


def test_every_object_is_one_that_the_api_server_takes_and_every_expression_has_its_types(
    stack: ControlPlane, installed: list[Object]
) -> None:
    client = stack.client()
    policies = [one for one in installed if one["kind"] == "ValidatingAdmissionPolicy"]

    def read(one: Object) -> Object:
        return client.get(Resource.of(one), one["metadata"]["name"])

    for one in policies:
        wait_for("its types", lambda one=one: read(one).get("status", {}).get("observedGeneration"))
    warned = {one["metadata"]["name"]: read(one)["status"].get("typeChecking") for one in policies}

    assert {name: said for name, said in warned.items() if said} == {}


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-01T06:00:00Z",
        "2026-12-01T06:00:00.5+01:00",
        "2026-12-01",
        "within 8h",
        "within 1h 30m",
        "06:00 Europe/Berlin",
        "6:00 UTC",
        "milestone:rc-2.3",
    ],
)
def test_a_deadline_in_any_of_its_forms_is_taken(stage: Scenario, text: str) -> None:
    assert refusal(lambda: stage.client.create(job("taken", deadline=text), dry_run=True)) == ""


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"weight": "2"},
        {"deadline": "tomorrow"},
        {"deadline": "2026-13-01T06:00:00Z"},
        {"deadline": "2026-12-01T06:00:00"},
        {"deadline": "06:00"},
        {"deadline": "within 8"},
        {"deadline": "within 8h", "expected_duration": "two hours"},
        {"deadline": "within 8h", "weight": "much"},
        {"deadline": "within 8h", "earliest_start": "later"},
        {"due": "soon"},
    ],
    ids=str,
)
def test_a_missing_deadline_and_what_cannot_be_read_are_refused(stage: Scenario, said: dict[str, str]) -> None:
    refused = refusal(lambda: stage.client.create(job("refused", **said), dry_run=True))

    key = next(reversed(said), "deadline").replace("_", "-") if "weight" not in said or len(said) > 1 else "deadline"
    assert refused.startswith("422")
    assert f"gpuyield.dev/{key}" in refused


@pytest.mark.parametrize(
    "made",
    [
        job("elsewhere", OUTSIDE),
        job("no-gpus", gpus=0),
        job("system", "kube-system"),
    ],
    ids=lambda one: str(one["metadata"]["name"]),
)
def test_other_jobs_are_let_be(stage: Scenario, made: Object) -> None:
    made = copy.deepcopy(made)
    if made["metadata"]["name"] == "no-gpus":
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}

    taken = stage.client.create(made, dry_run=True)

    assert gate_of(taken) is None


def test_kube_system_is_never_ours_even_where_somebody_labels_it(stage: Scenario) -> None:
    client, label = stage.client, {"gpuyield.dev/managed": "true"}
    later = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "policed-later", "labels": label}}
    client.merge(NAMESPACE, "kube-system", {"metadata": {"labels": label}})
    client.apply(later)
    try:
        # Labels are seen in the order in which they were given.
        wait_for("it", lambda: bool(refusal(lambda: client.create(job("trial", "policed-later"), dry_run=True))))

        taken = client.create(job("system", "kube-system"), dry_run=True)
    finally:
        client.merge(NAMESPACE, "kube-system", {"metadata": {"labels": {"gpuyield.dev/managed": None}}})
        client.delete_manifest(later)

    assert gate_of(taken) is None


def test_the_gate_goes_behind_those_that_are_there_and_comes_once(stage: Scenario) -> None:
    client = stage.client
    other, both = due("other"), due("both")
    other["metadata"]["annotations"][GATES] = "x.dev/other"
    both["metadata"]["annotations"][GATES] = f"{OUR_GATE},x.dev/other"

    gates = [gate_of(client.create(one, dry_run=True)) for one in (due("bare"), other, both)]

    assert gates == [OUR_GATE, f"x.dev/other,{OUR_GATE}", f"{OUR_GATE},x.dev/other"]


def test_a_job_that_kueue_gives_its_queue_gets_the_gate_too(stage: Scenario) -> None:
    bare = due("bare")
    del bare["metadata"]["labels"][QUEUE_LABEL]

    taken = stage.client.create(bare, dry_run=True)

    assert taken["metadata"]["labels"][QUEUE_LABEL] == "default"
    assert gate_of(taken) == OUR_GATE


def cron_job(deadline: str | None) -> Object:
    made = job("nightly", **({} if deadline is None else {"deadline": deadline}))
    template = {"metadata": {**made["metadata"]}, "spec": made["spec"]}
    del template["metadata"]["name"], template["metadata"]["namespace"]
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": SPACE},
        "spec": {"schedule": "0 3 * * *", "jobTemplate": template},
    }


@pytest.mark.parametrize(
    ("deadline", "allowed"),
    [("within 3h", True), ("06:00 Europe/Berlin", True), ("2026-12-01T06:00:00Z", False), (None, False)],
)
def test_a_cronjobs_template_promises_relative_to_each_run(
    stage: Scenario, deadline: str | None, allowed: bool
) -> None:
    refused = refusal(lambda: stage.client.create(cron_job(deadline), dry_run=True))

    assert (refused == "") is allowed, refused
    assert allowed or "spec.jobTemplate" in refused or "counts from its own creation" in refused


def test_a_jobset_has_the_same_rules(stage: Scenario) -> None:
    made = job("set", deadline="within 3h")
    without = copy.deepcopy(made)
    without["metadata"]["annotations"] = {}
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": made["spec"]}}]}
    sets = [
        {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": each["metadata"], "spec": spec}
        for each in (made, without)
    ]

    taken = stage.client.create(sets[0], dry_run=True)
    refused = refusal(lambda: stage.client.create(sets[1], dry_run=True))

    assert gate_of(taken) == OUR_GATE
    assert "the jobset" in refused


def test_nobody_takes_the_gate_off_but_the_controller_and_who_breaks_the_glass(
    stack: ControlPlane, stage: Scenario, ours: Client
) -> None:
    off = {"metadata": {"annotations": {GATES: None}}}
    submitted(stage, "guarded")
    breaker = stack.client("breaker", groups=("gpuyield:break-glass",))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "gpuyield-break-glass"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "breakers"},
        "roleRef": reference,
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "gpuyield:break-glass"},
        ],
    }

    def ungate(who: Client, subresource: str | None = None) -> str:
        return refusal(lambda: who.merge(JOB, "guarded", off, SPACE, subresource, dry_run=True))

    stage.client.apply(binding)
    try:
        wait_for("the binding", lambda: "cannot patch" not in ungate(breaker))

        refused = [ungate(stage.client), ungate(stage.client, "status")]
        allowed = [ungate(ours), ungate(breaker)]
    finally:
        stage.client.delete_manifest(binding)

    assert all("taken off when the plan says so" in one for one in refused), refused
    assert allowed == ["", ""]


# What the controller's account may do, and what not, whatever its roles say.


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {GATES: None}}},
        {"metadata": {"annotations": {"gpuyield.dev/planned-start": "2026-12-01T06:00:00Z"}}},
    ],
    ids=["gate", "annotation"],
)
def test_the_controller_may_change_of_a_job(stage: Scenario, ours: Client, change: Object) -> None:
    name = "may"
    wait_for("the job", lambda: stage.client.apply({**due(name)}))

    assert refusal(lambda: ours.merge(JOB, name, change, SPACE, dry_run=True)) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"suspend": False}},
        {"spec": {"parallelism": 2}},
        {"spec": {"activeDeadlineSeconds": 1}},
        {"metadata": {"labels": {QUEUE_LABEL: "other"}}},
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"annotations": {"x.dev/y": "z"}}},
        {"metadata": {"annotations": {GATES: f"{OUR_GATE},x.dev/other"}}},
        {"metadata": {"finalizers": ["x.dev/y"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
    ],
    ids=lambda one: str(next(iter(one.values()))),
)
def test_the_controller_may_not_change_of_a_job(stage: Scenario, ours: Client, change: Object) -> None:
    wait_for("the job", lambda: stage.client.apply({**due("may")}))

    refused = refusal(lambda: ours.merge(JOB, "may", change, SPACE, dry_run=True))

    assert refused != ""
    assert "gpuyield" in refused or "admission-gated-by" in refused


def test_the_controller_touches_no_job_of_a_namespace_that_did_not_opt_in(stage: Scenario, ours: Client) -> None:
    stage.client.create(job("outside", OUTSIDE))
    note = {"metadata": {"annotations": {"gpuyield.dev/note": "x"}}}

    refused = refusal(lambda: ours.merge(JOB, "outside", note, OUTSIDE, dry_run=True))

    assert "in namespaces labelled" in refused


def test_the_controller_parks_what_waits_and_stops_nothing_that_was_admitted(stage: Scenario, ours: Client) -> None:
    park = {"metadata": {"annotations": {"gpuyield.dev/parked-until": "x"}}, "spec": {"active": False}}
    submitted(stage, "parked")
    ours.merge(JOB, "parked", {"metadata": {"annotations": {GATES: None}}}, SPACE)
    stage.wait_checked("parked")
    name = stage.workload("parked")["metadata"]["name"]

    waiting = refusal(lambda: ours.merge(WORKLOAD, name, park, SPACE, dry_run=True))
    other = refusal(lambda: ours.merge(WORKLOAD, name, {"spec": {"priority": 5}}, SPACE, dry_run=True))
    label = refusal(lambda: ours.merge(WORKLOAD, name, {"metadata": {"labels": {"x": "y"}}}, SPACE, dry_run=True))
    answer(stage, ours, "parked", "Ready")
    stage.client.get(WORKLOAD, name, SPACE)
    wait_for("its admission", lambda: stage.has("parked", "Admitted"))
    running = refusal(lambda: ours.merge(WORKLOAD, name, park, SPACE, dry_run=True))

    assert waiting == ""
    assert "spec" in other
    assert "labels" in label
    assert "stops nothing that was admitted" in running


def answer(stage: Scenario, who: Client, name: str, state: str, check: str = "gpuyield", **more: object) -> str:
    """Write the state of a check with server-side apply, as the controller does; what was refused."""
    entry = {"name": check, "state": state, "message": "", "lastTransitionTime": now()}
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": stage.workload(name)["metadata"]["name"], "namespace": SPACE},
        "status": {"admissionChecks": [entry], **more},
    }
    return refusal(lambda: who.apply(body, manager=OUR_GATE, subresource="status"))


def test_the_controller_answers_its_own_check_with_pending_or_ready_and_takes_no_ready_back(
    stage: Scenario, ours: Client
) -> None:
    submitted(stage, "asked")
    ours.merge(JOB, "asked", {"metadata": {"annotations": {GATES: None}}}, SPACE)
    stage.wait_checked("asked")

    retry = answer(stage, ours, "asked", "Retry")
    rejected = answer(stage, ours, "asked", "Rejected")
    other = answer(stage, ours, "asked", "Ready", check="other")
    more = answer(stage, ours, "asked", "Ready", requeueState={"count": 9})
    allowed = [answer(stage, ours, "asked", "Pending"), answer(stage, ours, "asked", "Ready")]
    back = answer(stage, ours, "asked", "Pending")

    assert "Retry and Rejected stop jobs" in retry
    assert "Retry and Rejected stop jobs" in rejected
    assert "no other" in other or "where Kueue asks" in other
    assert "admissionChecks" in more
    assert allowed == ["", ""]
    assert "takes no Ready back" in back


def _tries(ours: Client) -> dict[str, Callable[[], object]]:
    """What a stolen token of the controller would be used for."""
    system, plural = "gpuyield-system", Resource
    pod = {"containers": [{"name": "x", "image": "x"}]}

    def made(kind: str, version: str, name: str, space: str | None, **content: object) -> Object:
        metadata = {"name": name, **({"namespace": space} if space else {})}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **content}

    return {
        "read secrets": lambda: ours.list(plural("v1", "secrets"), system),
        "read ConfigMaps elsewhere": lambda: ours.list(CONFIG_MAP, SPACE),
        "make a pod": lambda: ours.create(made("Pod", "v1", "x", SPACE, spec=pod), dry_run=True),
        "make a job": lambda: ours.create(job("x"), dry_run=True),
        "make a job at home": lambda: ours.create({**job("x", system)}),
        "delete a job": lambda: ours.delete(JOB, "may", SPACE),
        "delete a Workload": lambda: ours.delete(WORKLOAD, "x", SPACE),
        "change a queue": lambda: ours.merge(GPU_QUEUE, SPACE, {"spec": {"stopPolicy": "Hold"}}, dry_run=True),
        "change a check": lambda: ours.merge(ADMISSION_CHECK, "gpuyield", {"metadata": {"labels": {"x": "y"}}}),
        "label a namespace": lambda: ours.merge(NAMESPACE, SPACE, {"metadata": {"labels": {"x": "y"}}}, dry_run=True),
        "change a node": lambda: ours.merge(plural("v1", "nodes"), "node-0", {"spec": {"unschedulable": True}}),
        "give itself rights": lambda: ours.merge(
            plural("rbac.authorization.k8s.io/v1", "clusterroles"), "gpuyield-controller", {"rules": []}
        ),
        "lift its policies": lambda: ours.delete(
            plural("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"), "gpuyield-own-jobs"
        ),
        "write another ConfigMap": lambda: ours.create(made("ConfigMap", "v1", "x", system), dry_run=True),
        "change its settings": lambda: ours.merge(CONFIG_MAP, "gpuyield-config", {"data": {"x": "y"}}, system),
        "take another Lease": lambda: ours.create(made("Lease", LEASE.api_version, "x", system), dry_run=True),
        "take a Lease elsewhere": lambda: ours.create(
            made("Lease", LEASE.api_version, "x", "kube-system"), dry_run=True
        ),
        "change its Deployment": lambda: ours.merge(
            plural("apps/v1", "deployments"), "gpuyield-controller", {"spec": {"replicas": 0}}, system
        ),
    }


def test_the_controller_can_do_no_more_than_it_needs(stage: Scenario, ours: Client) -> None:
    went = [what for what, attempt in _tries(ours).items() if not refusal(attempt)]

    assert went == []


def test_the_controller_can_do_what_it_needs(stage: Scenario, ours: Client) -> None:
    def made(kind: str, version: str, name: str) -> Object:
        return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "gpuyield-system"}}

    event = {
        **made("Event", "v1", "told"),
        "metadata": {"name": "told", "namespace": SPACE},
        "involvedObject": {"kind": "Job", "name": "x", "namespace": SPACE},
    }
    condition = {"type": "Active", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now()}
    check = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "AdmissionCheck", "metadata": {"name": "gpuyield"}}
    beat = {**check, "status": {"conditions": [condition]}}

    said = [
        *(refusal(lambda one=one: ours.list(one)) for one in (WORKLOAD, JOB, GPU_QUEUE, NAMESPACE, ADMISSION_CHECK)),
        refusal(lambda: ours.create(made("ConfigMap", "v1", "gpuyield-plan-1"), dry_run=True)),
        refusal(lambda: ours.create(made("Lease", LEASE.api_version, "gpuyield-controller"), dry_run=True)),
        refusal(lambda: ours.create(job("gpuyield-canary", "gpuyield-system"), dry_run=True)),
        refusal(lambda: ours.create(event)),
        refusal(lambda: ours.apply(beat, manager=OUR_GATE, subresource="status")),
    ]

    # What is there already was not refused for want of a right.
    assert [one for one in said if one and not one.startswith("409 ")] == []


def test_plans_are_written_by_publishers_and_nobody_else(stack: ControlPlane, stage: Scenario) -> None:
    client, system = stage.client, "gpuyield-system"
    rbac = "rbac.authorization.k8s.io"
    role = {
        "apiVersion": f"{rbac}/v1",
        "kind": "Role",
        "metadata": {"name": "maps", "namespace": system},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "update", "patch"]}],
    }

    def bound(name: str, role: str) -> Object:
        return {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": name, "namespace": system},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": role},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": name}],
        }

    extra = [role, bound("mapper", "maps"), bound("publisher", "gpuyield-publisher")]
    for one in extra:
        client.apply(one)

    def write(who: str, name: str) -> str:
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": system}}
        return refusal(lambda: stack.client(who, groups=()).create(made, dry_run=True))

    try:
        wait_for("the roles", lambda: not write("mapper", "x") and not write("publisher", "x"))

        refused, allowed = write("mapper", "gpuyield-plan-3"), write("publisher", "gpuyield-plan-3")
    finally:
        for one in extra:
            client.delete_manifest(one)

    assert "gpuyield-publisher" in refused
    assert allowed == ""
