"""Actions become writes: each once, on the version it was decided on, and failures are tried again ever more seldom."""

from __future__ import annotations

from dataclasses import replace

from doubles.cluster.objects import ApiObjects
from doubles.kueue_objects import NOW
from gpuyield.collect.kubernetes import ADMISSION_CHECK, JOB, WORKLOAD
from gpuyield.collect.kueue.shapes import Object
from gpuyield.controller.actions import Park, Ready, Release, Return, Say, Topic
from gpuyield.controller.apply import FIRST_SILENCE_MS, MOST_SAYS, Writer
from gpuyield.controller.beat import BEAT_MS, LAG_MS, Beat
from gpuyield.controller.metrics import Metrics
from gpuyield.model.kueue import Check, CheckEntry, CheckState, JobRef, PodSet, Work, WorkState

GATES = "kueue.x-k8s.io/admission-gated-by"


def cluster(gates: str = "gpuyield.dev/plan", name: str = "a") -> tuple[ApiObjects, Work]:
    """A Job and its Workload, and as they are seen."""
    api = ApiObjects()
    return api, submitted(api, gates, name)


def submitted(api: ApiObjects, gates: str, name: str) -> Work:
    meta: Object = {"name": name, "namespace": "evals", "uid": f"uid-{name}", "annotations": {GATES: gates}}
    job = api.put(JOB, {"metadata": meta, "spec": {}})
    workload = api.put(WORKLOAD, {"metadata": {"name": f"job-{name}", "namespace": "evals"}, "spec": {}, "status": {}})
    return Work(
        namespace="evals",
        name=name,
        workload=f"job-{name}",
        kind="Job",
        uid=f"uid-{name}",
        created_ms=NOW,
        queue="main",
        cluster_queue="batch",
        pod_sets=(PodSet(name="main", count=1, gpus=2),),
        state=WorkState.RESERVED,
        gates=tuple(gates.split(",")),
        annotations={GATES: gates},
        checks=(CheckEntry(name="gpuyield", state=CheckState.PENDING),),
        version=workload["metadata"]["resourceVersion"],
        job=JobRef(
            api_version="batch/v1",
            kind="Job",
            name=name,
            uid=f"uid-{name}",
            version=job["metadata"]["resourceVersion"],
        ),
    )


def writer(api: ApiObjects) -> Writer:
    return Writer(api, Metrics(), lambda: True)


def test_our_gate_alone_is_taken_off() -> None:
    api, work = cluster("other.dev/x,gpuyield.dev/plan")

    writer(api).write([Release(work=work, said="now")], NOW)

    assert api.get(JOB, "a", "evals")["metadata"]["annotations"] == {GATES: "other.dev/x"}


def test_the_last_gate_goes_with_its_annotation() -> None:
    api, work = cluster()

    writer(api).write([Release(work=work, said="now")], NOW)

    assert api.get(JOB, "a", "evals")["metadata"]["annotations"] == {}


def test_gates_that_changed_meanwhile_are_left_and_tried_again_later() -> None:
    api, work = cluster()
    api.patch(JOB, "a", "evals", merge={"metadata": {"annotations": {GATES: "gpuyield.dev/plan,new.dev/y"}}})
    writing = writer(api)

    done = writing.write([Release(work=work, said="now")], NOW)

    assert done == 0
    assert "gpuyield.dev/plan" in api.get(JOB, "a", "evals")["metadata"]["annotations"][GATES]


def test_an_answer_is_given_once_however_often_it_is_decided() -> None:
    api, work = cluster()
    writing = writer(api)
    ready = Ready(work=work, checks=("gpuyield",), said="now")

    done = [writing.write([ready], NOW), writing.write([ready], NOW + 100)]

    entry = api.get(WORKLOAD, "job-a", "evals")["status"]["admissionChecks"][0]
    assert done == [1, 0]
    assert (entry["state"], entry["message"]) == ("Ready", "now")
    assert writing.metrics.counts["ready"] == 1


def test_an_answer_to_what_has_changed_is_not_written() -> None:
    api, work = cluster()
    evicted = [{"type": "Evicted", "status": "True"}]
    api.change(WORKLOAD, "job-a", "evals", lambda one: one["status"].update(conditions=evicted))
    writing = writer(api)

    writing.write([Ready(work=work, checks=("gpuyield",), said="now")], NOW)

    assert "admissionChecks" not in api.get(WORKLOAD, "job-a", "evals")["status"]
    assert writing.metrics.counts["conflicts"] == 1


def test_parking_and_returning_leave_no_trace_but_our_own() -> None:
    api, work = cluster()
    writing = writer(api)

    writing.write([Park(work=work, until_ms=NOW, said="later")], NOW)
    parked = api.get(WORKLOAD, "job-a", "evals")
    back = replace(work, version=parked["metadata"]["resourceVersion"])
    writing.write([Return(work=back, said="now")], NOW)
    returned = api.get(WORKLOAD, "job-a", "evals")

    assert parked["spec"] == {"active": False}
    assert parked["metadata"]["annotations"]["gpuyield.dev/parked"] == "2026-12-01T00:00:00Z"
    assert returned["spec"] == {"active": True}
    assert returned["metadata"]["annotations"] == {}


def test_who_no_longer_leads_writes_nothing() -> None:
    api, work = cluster()

    done = Writer(api, Metrics(), lambda: False).write([Release(work=work, said="now")], NOW)

    assert (done, api.writes) == (0, [])


def test_what_is_refused_is_tried_again_after_pauses_that_grow() -> None:
    api, work = cluster()
    api.refuses.add("jobs")
    writing = writer(api)

    for second in range(16):
        writing.write([Release(work=work, said="now")], NOW + second * 1_000)

    assert len(api.writes) == 5
    assert writing.metrics.counts["errors"] == 5


def test_an_event_is_written_on_the_job_and_on_its_workload_and_in_the_pending_check() -> None:
    api, work = cluster()

    writer(api).write([Say(work=work, topic=Topic.AT_RISK, said="It may be late.")], NOW, ours={"gpuyield"})

    events = [one for key, one in api.objects.items() if key[0] == "events"]
    assert {one["involvedObject"]["kind"] for one in events} == {"Job", "Workload"}
    assert {(one["reason"], one["type"]) for one in events} == {("AtRisk", "Warning")}
    entry = api.get(WORKLOAD, "job-a", "evals")["status"]["admissionChecks"][0]
    assert (entry["state"], entry["message"]) == ("Pending", "It may be late.")


def test_what_changes_all_the_time_is_told_ever_more_seldom_and_what_is_new_at_once() -> None:
    api, work = cluster()
    writing = writer(api)
    told = 0

    for second in range(int(FIRST_SILENCE_MS * 3 / 1_000)):
        say = Say(work=work, topic=Topic.PLANNED, said=f"In {second} seconds.")
        told += writing.write([say], NOW + second * 1_000)
    told_of_change = writing.write([Say(work=work, topic=Topic.DROPPED, said="Given up.")], NOW + 30_000)

    assert told == 2
    assert told_of_change == 1


def test_a_round_says_only_so_much() -> None:
    api = ApiObjects()
    works = [submitted(api, "gpuyield.dev/plan", f"j{number}") for number in range(MOST_SAYS + 5)]
    writing = writer(api)
    says = [Say(work=one, topic=Topic.PLANNED, said="Planned.") for one in works]

    done = [writing.write(says, NOW), writing.write(says, NOW + 1_000)]

    assert done == [MOST_SAYS, 5]


def test_a_check_is_made_active_once_and_again_when_it_beats_or_was_made_anew() -> None:
    api = ApiObjects()
    api.put(ADMISSION_CHECK, {"metadata": {"name": "gpuyield"}, "spec": {"controllerName": "gpuyield.dev/plan"}})
    beat = Beat(api)
    seen = [Check(name="gpuyield", controller="gpuyield.dev/plan", active=True)]
    anew = [replace(seen[0], active=False)]

    for checks, at_ms in ((seen, 0), (seen, 1), (seen, BEAT_MS), (anew, BEAT_MS + 1), (anew, BEAT_MS + LAG_MS)):
        beat.say(checks, is_active=True, message="It leads.", now_ms=NOW + at_ms)

    assert len(api.writes) == 3
    (condition,) = api.get(ADMISSION_CHECK, "gpuyield")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["message"]) == ("Active", "True", "It leads.")
    assert condition["lastTransitionTime"] == "2026-12-01T00:00:00Z"


def test_a_check_is_given_up_at_once() -> None:
    api = ApiObjects()
    api.put(ADMISSION_CHECK, {"metadata": {"name": "gpuyield"}, "spec": {"controllerName": "gpuyield.dev/plan"}})
    beat = Beat(api)
    seen = [Check(name="gpuyield", controller="gpuyield.dev/plan", active=True)]
    beat.say(seen, is_active=True, message="It leads.", now_ms=NOW)

    beat.say(seen, is_active=False, message="It was stopped.", now_ms=NOW + 1)

    assert api.get(ADMISSION_CHECK, "gpuyield")["status"]["conditions"][0]["status"] == "False"
