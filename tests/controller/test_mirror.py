"""The mirror shows what is in the cluster, in whatever order it hears of it, and however often it loses the thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import kueue_objects
from doubles.cluster.objects import ApiObjects
from gpuyield.collect.kubernetes import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    LOCAL_QUEUE,
    NODE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    Change,
    Kind,
    Listed,
    whole,
)
from gpuyield.collect.kueue.reading import Objects
from gpuyield.collect.kueue.shapes import Object
from gpuyield.collect.kueue.snapshot import snapshot
from gpuyield.collect.probe import Forbidden
from gpuyield.controller import mirror as mirror_module
from gpuyield.controller.mirror import NEEDED, USEFUL, Mirror
from gpuyield.model.kueue import ClusterSnapshot

NOW = kueue_objects.NOW
_KINDS = {kind.plural: kind for kind in (*NEEDED, *USEFUL)}


class Unhurried(ApiObjects):
    """The same, whose watches of each kind tell late by chance: what happened in one order is heard of in another."""

    chance: Random

    def watch(self, kind: Kind, *, since: str, namespace: str | None = None, seconds: float = 5.0) -> Iterator[Change]:
        """The changes, some later than those of other kinds."""
        for change in ApiObjects.watch(self, kind, since=since, namespace=namespace, seconds=seconds):
            time.sleep(self.chance.choice([0, 0, 0.001, 0.01]))
            yield change


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "FIRST_PAUSE_S", 0.005)
    monkeypatch.setattr(mirror_module, "LONGEST_PAUSE_S", 0.02)


def job(name: str, **annotations: str) -> Object:
    meta = {"name": name, "namespace": "evals", "uid": f"job-{name}", "annotations": annotations}
    return {"metadata": {**meta, "creationTimestamp": "2026-12-01T00:00:00Z"}, "spec": {"template": {}}, "status": {}}


def work(name: str, gpus: int, *, active: bool = True) -> Object:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    pods = {"spec": {"containers": [container]}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{name}", "controller": True}
    meta = {"name": f"job-{name}", "namespace": "evals", "uid": f"work-{name}", "ownerReferences": [owner]}
    spec = {"queueName": "main", "active": active, "podSets": [{"name": "main", "count": 1, "template": pods}]}
    return {"metadata": {**meta, "creationTimestamp": "2026-12-01T00:00:01Z"}, "spec": spec, "status": {}}


def furnished(api: ApiObjects) -> ApiObjects:
    """A cluster of one queue."""
    api.put(RESOURCE_FLAVOR, kueue_objects.flavor("h100"))
    api.put(CLUSTER_QUEUE, kueue_objects.queue("main", {"h100": {"nominalQuota": 4}}))
    api.put(LOCAL_QUEUE, kueue_objects.local_queue("main", "main"))
    api.put(NODE, kueue_objects.node("n1", 4))
    return api


def truth(api: ApiObjects) -> ClusterSnapshot:
    """What a list of everything shows."""
    lists = {plural: api.list(kind).items for plural, kind in _KINDS.items()}
    return snapshot(Objects(api_version="v1beta2", lists=lists), at_ms=NOW)


def parts(seen: ClusterSnapshot) -> object:
    """What counts of a snapshot; the order of its objects does not."""
    return (
        sorted(seen.work, key=lambda one: one.uid),
        seen.flavors,
        seen.queues,
        seen.local_queues,
        seen.nodes,
        seen.gaps,
    )


def wait_until_it_shows(mirror: Mirror, api: ApiObjects) -> None:
    until_s = time.monotonic() + 20
    while True:
        seen = mirror.snapshot(NOW)
        if seen is not None and parts(seen) == parts(truth(api)):
            return
        assert time.monotonic() < until_s, (seen, truth(api))
        mirror.wait(0.02)


MOVES = ("job", "work", "off", "annotate", "drop work", "drop job", "quota", "break", "compact", "look")
moves = st.lists(
    st.tuples(
        st.sampled_from(MOVES),
        st.sampled_from("abc"),
        st.integers(1, 4),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(moves, st.integers(0, 2**16))
def test_it_ends_with_what_is_there_in_whatever_order_it_heard_of_it(
    done: list[tuple[str, str, int]], seed: int
) -> None:
    api = furnished(Unhurried())
    assert isinstance(api, Unhurried)
    api.chance = Random(seed)
    mirror = Mirror(api, seed=seed)
    mirror.start()
    try:
        for move, name, amount in done:
            play(api, mirror, move, name, amount)
        wait_until_it_shows(mirror, api)
    finally:
        mirror.stop()
        api.break_watches()


def play(api: ApiObjects, mirror: Mirror, move: str, name: str, amount: int) -> None:
    there = {key[2] for key in api.objects if key[0] in ("jobs", "workloads")}
    match move:
        case "job":
            api.put(JOB, job(name, **{"gpuyield.dev/weight": str(amount)}))
        case "work":
            api.put(WORKLOAD, work(name, amount))
        case "off":
            api.put(WORKLOAD, work(name, amount, active=False))
        case "annotate" if name in there:
            api.change(JOB, name, "evals", lambda one: one["metadata"]["annotations"].update(more=str(amount)))
        case "drop work" if f"job-{name}" in there:
            api.delete(WORKLOAD, f"job-{name}", "evals")
        case "drop job" if name in there:
            api.delete(JOB, name, "evals")
        case "quota":
            api.put(CLUSTER_QUEUE, kueue_objects.queue("main", {"h100": {"nominalQuota": amount}}))
        case "break":
            api.break_watches()
        case "compact":
            api.compact()
        case "look":
            mirror.snapshot(NOW)


def test_a_watch_that_is_too_old_lists_anew_and_what_went_meanwhile_is_gone() -> None:
    api = furnished(ApiObjects())
    api.put(JOB, job("a"))
    api.put(WORKLOAD, work("a", 2))
    mirror = Mirror(api)
    mirror.start()
    wait_until_it_shows(mirror, api)

    api.delete(JOB, "a", "evals")
    api.compact()
    api.break_watches()

    wait_until_it_shows(mirror, api)
    seen = mirror.snapshot(NOW)
    mirror.stop()
    assert seen is not None
    assert seen.work == (), "the Workload went with its job"


def test_an_object_that_did_not_change_is_not_read_again() -> None:
    api = furnished(ApiObjects())
    for name in "ab":
        api.put(JOB, job(name))
        api.put(WORKLOAD, work(name, 2))
    mirror = Mirror(api)
    mirror.start()
    wait_until_it_shows(mirror, api)
    before = mirror.snapshot(NOW)

    api.put(WORKLOAD, work("b", 3))
    wait_until_it_shows(mirror, api)
    after = mirror.snapshot(NOW)
    mirror.stop()

    assert before is not None
    assert after is not None
    kept = {one.name: one for one in before.work}
    assert {one.name: one is kept[one.name] for one in after.work} == {"a": True, "b": False}


def test_what_may_not_be_read_is_a_gap_or_trouble() -> None:
    class Refusing(ApiObjects):
        def list(
            self,
            kind: Kind,
            *,
            namespace: str | None = None,
            labels: str | None = None,
            keep: Callable[[Object], Object] = whole,
        ) -> Listed:
            if kind in (NODE, ADMISSION_CHECK):
                raise Forbidden(f"may not list {kind.plural} (403).")
            return ApiObjects.list(self, kind, namespace=namespace, labels=labels, keep=keep)

    mirror = Mirror(furnished(Refusing()))
    mirror.start()
    until_s = time.monotonic() + 20
    while not mirror.trouble() and time.monotonic() < until_s:
        mirror.wait(0.02)
    trouble, seen = mirror.trouble(), mirror.snapshot(NOW)
    mirror.stop()

    assert "may not list admissionchecks" in trouble
    assert seen is None, "whether our checks are asked is not known"
