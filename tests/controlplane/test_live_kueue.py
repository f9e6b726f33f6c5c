"""gpuyield plan and queue on a real control plane with Kueue: what waits, why, and when it starts."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
from command_line import asked, gpuyield
from contract_faults import metrics_token
from kube import CLUSTER_QUEUE, NODE, Client, Resource, is_true, wait_for
from scenario import KUEUE, Scenario, job_manifest, seconds_while

from controlplane import ControlPlane
from gpuyield.collect.endpoint import endpoint
from gpuyield.collect.http import HttpClient
from gpuyield.collect.kueue.counts import PENDING
from gpuyield.collect.prometheus import Prometheus
from gpuyield.units import MINUTE_MS, Window
from servers.stores import PROMETHEUS_3, scraping

pytestmark = pytest.mark.controlplane

NAME = "live"
FLAVOR, LENDER = "live-gpu", "live-lender"
READER = "system:serviceaccount:live:reader"


@pytest.fixture
def stage(stack: ControlPlane) -> Iterator[Scenario]:
    """Two queues of two GPUs each in one cohort, on the node's four."""
    client = stack.client()
    stage = Scenario(client, NAME, checked=False)
    stage.set_up({FLAVOR: 2}, cohortName=NAME)
    client.apply(stage.cluster_queue(LENDER, {FLAVOR: 2}, cohortName=NAME))
    stage.add_local_queue("lender", LENDER)
    wait_for("the lender", lambda: is_true(client.get(CLUSTER_QUEUE, LENDER), "Active"))
    try:
        yield stage
    finally:
        stage.tear_down()


def submit(stage: Scenario, name: str, gpus: int, queue: str = "main", **ours: str) -> None:
    """A job that runs until it is deleted, with our annotations."""
    annotations = {f"gpuyield.dev/{key.replace('_', '-')}": text for key, text in ours.items()}
    stage.submit(name, gpus, queue=queue, annotations=annotations)


def seconds_between(early: str, late: str) -> float:
    return (datetime.fromisoformat(late) - datetime.fromisoformat(early)).total_seconds()


def test_plan_and_queue_tell_of_each_job_when_it_starts_and_why_it_waits(
    stack: ControlPlane, stage: Scenario, tmp_path: Path
) -> None:
    submit(stage, "running", 3, expected_duration="10m")
    wait_for("running to run", lambda: stage.is_running("running"))
    submit(stage, "next", 2, queue="lender", expected_duration="20m", deadline="within 2h")
    submit(stage, "free", 1, expected_duration="5m", deadline="soon")
    wait_for("free to run", lambda: stage.is_running("free"))
    submit(stage, "nobody-knows", 1)
    stage.workload("next")
    stage.workload("nobody-knows")
    kubeconfig = stack.kubeconfig()

    code, plan = asked(kubeconfig, "plan", "--out", "plan.json", folder=tmp_path)
    _, queue = asked(kubeconfig, "queue", folder=tmp_path)
    _, changed = asked(kubeconfig, "what-if", "--drop", "live/running", folder=tmp_path)
    verified, _ = asked(kubeconfig, "verify", "plan.json", folder=tmp_path)

    waits = {one["job"]: one for one in plan["waiting"]}
    planned = {one["id"]: one for one in plan["jobs"]}
    admitted = stage.workload("running")["status"]["conditions"]
    since = next(one["lastTransitionTime"] for one in admitted if one["type"] == "Admitted")
    assert (code, verified) == (0, 0)
    assert set(waits) == {"live/next", "live/nobody-knows"}
    assert {one: planned[one]["gpus"] for one in planned} == {"live/running": 3, "live/free": 1, "live/next": 2}
    assert plan["gpus"][f"gpu/{FLAVOR}"]["available"] == 4
    # `next` needs two: one GPU of `free` after 5 minutes is too few, so it starts when `running` ends.
    assert seconds_between(since, waits["live/next"]["eta"]) == 600
    assert waits["live/next"]["blocked_by"] == "quota"
    assert waits["live/next"]["why"] == f"of 4 {FLAVOR} GPUs of cohort live 4 are held, and it needs 2"
    assert waits["live/nobody-knows"]["eta"] is None
    assert any(one["where"] == "live/free: gpuyield.dev/deadline" for one in plan["gaps"])
    causes = {one["cause"]: one["gpu_ms"] for one in queue["causes"]}
    assert sum(causes.values()) == queue["waiting_gpu_ms"] == causes["not_due_yet"] + causes["quota"] > 0
    assert {one["job"]: one["cause"] for one in queue["waiting"]} == {
        "live/next": "not_due_yet",
        "live/nobody-knows": "quota",
    }
    assert "live/running" not in {one["id"] for one in changed.get("jobs", ())}


def test_required_node_affinity_is_planned_as_kueue_keeps_to_it(stack: ControlPlane, tmp_path: Path) -> None:
    client = stack.client()
    stage = Scenario(client, "affine", checked=False)
    (node,) = client.list(NODE)
    client.merge(NODE, node["metadata"]["name"], {"metadata": {"labels": {"tier": "b"}}})
    for tier in "ab":
        stage.add_flavor(f"affine-{tier}", tier=tier)
    stage.set_up({"affine-a": 2, "affine-b": 2}, flavors_are_there=True)
    term = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["b"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    try:
        for name in ("first", "second"):
            job = job_manifest(name, stage.name, 2, pod_annotations={"gpuyield.dev/expected-duration": "10m"})
            job["spec"]["template"]["spec"]["affinity"] = affinity
            client.create(job)
            stage.workload(name)
        wait_for("first to run", lambda: stage.is_running("first"))

        _, plan = asked(stack.kubeconfig(), "plan", folder=tmp_path)

        planned = {one["id"]: (one["flavor"], len(one["segments"])) for one in plan["jobs"]}
        assert planned == {"affine/first": ("affine-b", 1), "affine/second": ("affine-b", 1)}
        assert [one["job"] for one in plan["waiting"]] == ["affine/second"]
        assert seconds_while(lambda: not stage.has("second", "QuotaReserved"), 2.0) >= 2.0, "flavor a has free quota"
    finally:
        stage.tear_down()
        client.merge(NODE, node["metadata"]["name"], {"metadata": {"labels": {"tier": None}}})


def test_a_tree_of_cohorts_lends_across_its_branches_as_it_is_planned(stack: ControlPlane, tmp_path: Path) -> None:
    client = stack.client()
    for name, parent in (("tree", None), ("tree-left", "tree"), ("tree-right", "tree")):
        spec = {} if parent is None else {"parentName": parent}
        client.apply({"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": name}, "spec": spec})
    stage = Scenario(client, "tree", checked=False)
    stage.set_up({"tree-gpu": 2}, cohortName="tree-left")
    client.apply(stage.cluster_queue("tree-lender", {"tree-gpu": 2}, cohortName="tree-right"))
    stage.add_local_queue("lender", "tree-lender")
    wait_for("the lender", lambda: is_true(client.get(CLUSTER_QUEUE, "tree-lender"), "Active"))
    try:
        submit(stage, "runs", 1, queue="lender", expected_duration="10m")
        wait_for("runs to run", lambda: stage.is_running("runs"))
        submit(stage, "wide", 4, expected_duration="5m")
        stage.workload("wide")

        _, plan = asked(stack.kubeconfig(), "plan", folder=tmp_path)

        (waits,) = plan["waiting"]
        admitted = stage.workload("runs")["status"]["conditions"]
        since = next(one["lastTransitionTime"] for one in admitted if one["type"] == "Admitted")
        assert (waits["job"], waits["blocked_by"]) == ("tree/wide", "quota")
        assert seconds_between(since, waits["eta"]) == 600
        assert not stage.has("wide", "QuotaReserved")
        stage.cancel("runs")
        wait_for("wide to run", lambda: stage.is_running("wide"))
    finally:
        stage.tear_down()
        for name in ("tree-left", "tree-right", "tree"):
            client.delete(Resource(KUEUE, "cohorts"), name)


def test_queue_tells_what_kueue_itself_counted(stack: ControlPlane, stage: Scenario, tmp_path: Path) -> None:
    address = f"127.0.0.1:{stack.layout.ports['kueue-metrics']}"
    config = f"""\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: kueue
    scheme: https
    tls_config: {{insecure_skip_verify: true}}
    authorization: {{credentials: {metrics_token(stack.client())}}}
    static_configs: [{{targets: ["{address}"]}}]
"""
    data = tmp_path / "data"
    data.mkdir()
    with scraping(PROMETHEUS_3, config, data) as url:
        store = Prometheus(HttpClient(endpoint(product="a store", url=url, declared_at="test")))
        wait_for("a scrape", lambda: bool(scraped(store, PENDING, cluster_queue=NAME)))
        submit(stage, "runs", 2, expected_duration="10m")
        wait_for("runs to run", lambda: stage.is_running("runs"))
        submit(stage, "waits", 4, expected_duration="10m")
        stage.workload("waits")
        wait_for("the count of it", lambda: 1.0 in scraped(store, PENDING, cluster_queue=NAME))
        (tmp_path / "gpuyield.yaml").write_text(f"sources: {{kubernetes: {{}}, prometheus: {{url: '{url}'}}}}\n")

        code, queue = asked(stack.kubeconfig(), "queue", folder=tmp_path)
        _, said = gpuyield(stack.kubeconfig(), "queue", folder=tmp_path, form="table")

    assert code == 0
    ours = next(one for one in queue["kueue"]["queues"] if one["queue"] == NAME)
    assert (ours["waiting"]["now"], ours["waiting"]["most"]) == (1, 1)
    assert (ours["admitted"], ours["evicted"]) == (1, {})
    assert ours["reserved_gpus"]["now"] == ours["used_gpus"]["now"] == 2
    assert ours["waits"]["n"] == 1
    assert 0 < ours["waits"]["mean_s"] < 30
    assert "In the last day, by Kueue's own count" in said


def scraped(store: Prometheus, name: str, **labels: str) -> list[float]:
    """The newest value of each series of the last five minutes."""
    now_ms = time.time_ns() // 1_000_000
    matchers = [f'{key}="{value}"' for key, value in labels.items()]
    return [float(one.values[-1]) for one in store.raw(name, matchers, Window(now_ms - 5 * MINUTE_MS, now_ms))]


def test_rights_that_lack_are_named_with_the_commands_that_grant_them(stack: ControlPlane, tmp_path: Path) -> None:
    code, refused = asked(stack.kubeconfig(READER, groups=()), "plan", folder=tmp_path)

    said = " ".join(one["what"] + one["fix"] for one in refused["errors"])
    assert code == 3
    for right in ("clusterqueues", "localqueues", "resourceflavors", "workloads"):
        assert f"may not list {right}.kueue.x-k8s.io (403)" in said
    assert "kubectl create clusterrole gpuyield-read --verb=get,list,watch --resource=" in said


def test_the_rights_that_are_told_are_enough(stack: ControlPlane, tmp_path: Path) -> None:
    client = stack.client()
    _, refused = asked(stack.kubeconfig(READER, groups=()), "plan", folder=tmp_path)
    listed = refused["errors"][-1]["fix"].partition("--resource=")[2].partition(" ")[0].split(",")

    with granted(client, listed):
        code, plan = asked(stack.kubeconfig(READER, groups=()), "plan", folder=tmp_path)

    assert (code, plan["waiting"]) == (0, [])
    assert not [one for one in plan["gaps"] if "May not list" in one["reason"]]


@contextmanager
def granted(client: Client, resources: list[str]) -> Iterator[None]:
    """Reading rights on some resources, as a cluster role bound to the reader."""
    rbac, meta = "rbac.authorization.k8s.io/v1", {"name": "live-reader"}
    rules = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["get", "list", "watch"]}
        for plural, _, group in (one.partition(".") for one in resources)
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "live-reader"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": READER}
    made = [
        {"apiVersion": rbac, "kind": "ClusterRole", "metadata": meta, "rules": rules},
        {
            "apiVersion": rbac,
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [subject],
        },
    ]
    for one in made:
        client.apply(one)
    try:
        yield
    finally:
        for one in made:
            client.delete_manifest(one)
