"""Contract experiments about admission checks, evictions and queues."""

from __future__ import annotations

import time

from kube import condition, is_true, wait_for
from scenario import (
    Scenario,
    brief,
    expect,
    refusal,
    scenario,
    seconds_until,
    seconds_while,
)

from controlplane import ControlPlane


def check_must_be_active(stack: ControlPlane) -> str:
    """A ClusterQueue admits nothing until its check exists and its controller says Active."""
    client = stack.client()
    stage = Scenario(client, "active")

    def reason() -> str:
        return str(condition(stage.read_queue(), "Active").get("reason"))

    stage.add_flavor("active")
    client.apply(stage.cluster_queue("active", {"active": 4}))
    missing = wait_for("a reason", lambda: reason() if reason() != "None" else None)
    client.apply(stage.check_manifest())
    silent = wait_for("another reason", lambda: reason() if reason() != missing else None)
    stage.activate_check()
    active_s = seconds_until("Active", lambda: is_true(stage.read_queue(), "Active"))
    stage.tear_down()
    return f"no check: {missing}; check not Active: {silent}; queue active after {active_s:.2f} s"


def pending_check_keeps_quota(stack: ControlPlane) -> str:
    """A check left Pending keeps the quota for ever, and a later job waits for it."""
    with scenario(stack.client(), "pending") as stage:
        stage.submit("first", 4)
        stage.wait_checked("first")
        stage.submit("second", 4)
        kept_s = seconds_while(lambda: stage.has("first", "QuotaReserved"), 5)
        seen = f"still reserved after {kept_s:.0f} s; second: {stage.why('second')}"
        return expect(kept_s >= 5 and not stage.has("second", "QuotaReserved"), seen)


def retry_with_delay_keeps_quota(stack: ControlPlane) -> str:
    """Retry with requeueAfterSeconds=8 keeps the quota until the delay is over."""
    with scenario(stack.client(), "retry-delay") as stage:
        _two_rivals(stage)
        stage.answer("first", "Retry", requeueAfterSeconds=8)
        kept_s = seconds_while(lambda: not stage.was_evicted("first"), 20)
        time.sleep(3)
        retries = stage.check_entry("first").get("retryCount", 0)
        seen = f"quota kept {kept_s:.1f} s; 3 s later {_holder(stage)}; retryCount {retries}"
        return expect(5 < kept_s < 15, seen)


def retry_without_delay(stack: ControlPlane) -> str:
    """Retry without a delay evicts, but a rival that waits does not get its turn."""
    with scenario(stack.client(), "retry") as stage:
        _two_rivals(stage)
        stage.answer("first", "Retry")
        wait_for("eviction", lambda: stage.was_evicted("first"))
        time.sleep(3)
        retries = stage.check_entry("first").get("retryCount", 0)
        seen = f"3 s later {_holder(stage)}; retryCount {retries}"
        return expect(stage.has("first", "QuotaReserved"), seen)


def park_and_return(stack: ControlPlane) -> str:
    """spec.active=false under a Pending check frees the quota; order survives the return."""
    with scenario(stack.client(), "park") as stage:
        stage.submit("first", 4)
        stage.wait_checked("first")
        stage.submit("second", 4)
        stage.set_active("first", active=False)
        freed_s = seconds_until("free", lambda: not stage.has("first", "QuotaReserved"))
        turn_s = stage.wait_reserved("second")
        stage.submit("third", 4)
        wait_for("third in the queue", lambda: stage.why("third") != "no condition")
        stage.set_active("first", active=True)
        time.sleep(1)
        stage.cancel("second")
        back_s = stage.wait_reserved("first")
        seen = (
            f"freed after {freed_s:.2f} s, second has it {turn_s:.2f} s later; back "
            f"{back_s:.2f} s after the quota is free, before a job created meanwhile: "
            f"{not stage.has('third', 'QuotaReserved')}; evictions {stage.evictions()}"
        )
        return expect(not stage.has("third", "QuotaReserved"), seen)


def rejected_is_final(stack: ControlPlane) -> str:
    """Rejected deactivates the Workload, and reactivating it does not bring it back."""
    with scenario(stack.client(), "rejected") as stage:
        stage.submit("j")
        stage.wait_checked("j")
        stage.answer("j", "Rejected")
        freed_s = seconds_until("free", lambda: not stage.has("j", "QuotaReserved"))
        seen = f"quota freed after {freed_s:.2f} s; {_reactivated(stage, 'j')}"
        return expect(not stage.has("j", "QuotaReserved"), seen)


def eviction_after_gate(stack: ControlPlane) -> str:
    """After an eviction the gate is gone for good: only our check holds the job then."""
    with scenario(stack.client(), "evicted") as stage:
        stage.submit("j", gated=True)
        stage.workload("j")
        stage.ungate("j")
        stage.admit("j")
        stage.stop_queue("HoldAndDrain")
        wait_for("eviction", lambda: stage.has("j", "Evicted"))
        reason = stage.why("j", "Evicted")
        wait_for("no quota", lambda: not stage.has("j", "QuotaReserved"))
        again = refusal(lambda: stage.gate("j"))
        stage.stop_queue("None")
        back_s = stage.wait_checked("j")
        time.sleep(1)
        entry = stage.check_entry("j")
        held = stage.job("j")["spec"]["suspend"]
        seen = (
            f"evicted ({reason}); gate again: {brief(again)}; quota again {back_s:.2f} s after "
            f"the queue opens; check {entry['state']} ({entry['message']}), suspended: {held}"
        )
        return expect(held and entry["state"] == "Pending" and bool(again), seen)


def ready_is_forgotten(stack: ControlPlane) -> str:
    """A check that said Ready is asked again once the Workload has lost its quota."""
    with scenario(stack.client(), "forget") as stage:
        stage.submit("j")
        stage.admit("j")
        stage.stop_queue("HoldAndDrain")
        wait_for("no quota", lambda: not stage.has("j", "QuotaReserved"))
        time.sleep(0.5)
        held = stage.check_entry("j")
        stage.stop_queue("None")
        stage.wait_reserved("j")
        time.sleep(1)
        back = stage.check_entry("j")
        seen = (
            f"while stopped: {held.get('state')} ({held.get('message')}); with quota again: "
            f"{back['state']}, admitted: {stage.has('j', 'Admitted')}"
        )
        return expect(back["state"] == "Pending" and not stage.has("j", "Admitted"), seen)


def hold_cancels_reservation(stack: ControlPlane) -> str:
    """A Hold (stopPolicy) on the ClusterQueue cancels a reservation that is not admitted yet."""
    with scenario(stack.client(), "hold") as stage:
        stage.submit("running")
        stage.admit("running")
        stage.submit("reserved")
        stage.wait_checked("reserved")
        stage.stop_queue("Hold")
        time.sleep(3)
        kept = stage.has("reserved", "QuotaReserved")
        return expect(
            not kept and stage.is_running("running"),
            f"reserved job keeps quota: {kept} ({stage.why('reserved')}), its check "
            f"{stage.check_entry('reserved').get('state')}; "
            f"running job runs on: {stage.is_running('running')}",
        )


def late_retry_stops_a_job(stack: ControlPlane) -> str:
    """Turning Ready back to Retry stops a running job."""
    with scenario(stack.client(), "late") as stage:
        stage.submit("j")
        stage.admit("j")
        stage.answer("j", "Retry")
        seconds = seconds_until("eviction", lambda: stage.was_evicted("j"))
        suspended_s = seconds_until("suspend", lambda: stage.job("j")["spec"]["suspend"])
        return f"evicted after {seconds:.2f} s, suspended {suspended_s:.2f} s later"


def queue_moves(stack: ControlPlane) -> str:
    """A gated job moves by its queue label; one that holds quota stays where it is."""
    with scenario(stack.client(), "move") as stage:
        stage.client.apply(stage.cluster_queue("move-other", {"move": 4}))
        stage.add_local_queue("other", "move-other")
        wait_for("the other queue", lambda: is_true(stage.read_queue("move-other"), "Active"))
        stage.submit("held", gated=True)
        stage.workload("held")
        stage.move("held", "other")
        held_s = seconds_until("the move", lambda: _queue_of(stage, "held") == "other")
        stage.submit("reserved")
        stage.wait_checked("reserved")
        with_quota = refusal(lambda: stage.move("reserved", "other"))
        time.sleep(2)
        where = f"Workload in {_queue_of(stage, 'reserved')}, {stage.gpus()} GPUs reserved there"
        stage.admit("reserved")
        running = refusal(lambda: stage.move("reserved", "main"))
        return expect(
            bool(running) and _queue_of(stage, "reserved") == "main",
            f"gated: moved after {held_s:.2f} s; with quota: label change {brief(with_quota)}, but "
            f"{where}, runs on it after Ready; running: {brief(running)}",
        )


def local_queue_hold(stack: ControlPlane) -> str:
    """A Hold (stopPolicy) on the LocalQueue holds new jobs without quota until it is lifted."""
    with scenario(stack.client(), "lq-hold") as stage:
        stage.submit("reserved")
        stage.wait_checked("reserved")
        stage.stop_local_queue("Hold")
        stage.submit("late")
        time.sleep(2)
        late, kept = stage.why("late"), stage.has("reserved", "QuotaReserved")
        seen_late = stage.has("late", "QuotaReserved")
        stage.stop_local_queue("None")
        seconds = stage.wait_reserved("late")
        return expect(
            not seen_late,
            f"new job: {late}; earlier reservation kept: {kept}; quota {seconds:.2f} s after None",
        )


def borrowing_is_visible(stack: ControlPlane) -> str:
    """Borrowed GPUs are told in flavorsReservation, and the lender's own job has to wait."""
    with scenario(stack.client(), "lend", 2, cohortName="lend") as stage:
        stage.client.apply(stage.cluster_queue("lend-other", {"lend": 2}, cohortName="lend"))
        stage.add_local_queue("other", "lend-other")
        wait_for("the other queue", lambda: is_true(stage.read_queue("lend-other"), "Active"))
        stage.submit("big", 4)
        stage.wait_checked("big")
        stage.submit("own", 2, queue="other")
        wait_for("a reason", lambda: stage.why("own") != "no condition")
        wait_for("the count", lambda: stage.gpus() == 4)
        used = stage.read_queue()["status"]["flavorsReservation"][0]["resources"][0]
        return expect(
            used["borrowed"] == "2" and not stage.has("own", "QuotaReserved"),
            f"borrower: total {used['total']}, borrowed {used['borrowed']}; lender shows "
            f"{stage.gpus(queue='lend-other')}; lender's job: {stage.why('own')}",
        )


def first_fitting_flavor(stack: ControlPlane) -> str:
    """Of two flavors the first that fits is reserved, and the job gets its node selector."""
    client = stack.client()
    with scenario(client, "two") as stage:
        for name in ("two-a", "two-b"):
            stage.add_flavor(name, accelerator=name)
        client.apply(stage.cluster_queue("two-queue", {"two-a": 2, "two-b": 4}))
        stage.add_local_queue("two", "two-queue")
        wait_for("the queue", lambda: is_true(stage.read_queue("two-queue"), "Active"))
        flavors = {}
        for job in ("small", "next"):
            stage.submit(job, 2, queue="two")
            stage.wait_checked(job)
            flavors[job] = _flavor(stage, job)
        stage.submit("big", 4, queue="two")
        wait_for("a reason", lambda: stage.why("big") != "no condition")
        big = stage.why("big")
        stage.answer("small", "Ready")
        wait_for("unsuspend", lambda: not stage.job("small")["spec"]["suspend"])
        selector = stage.job("small")["spec"]["template"]["spec"]["nodeSelector"]
        return expect(
            flavors == {"small": "two-a", "next": "two-b"},
            f"2 GPUs: {flavors['small']}; 2 more: {flavors['next']}; 4 more: {big}; node selector {selector}",
        )


def maximum_run_time(stack: ControlPlane) -> str:
    """A job that outruns its declared maximum run time is stopped for good."""
    with scenario(stack.client(), "max-time", checked=False) as stage:
        stage.submit("j", labels={"kueue.x-k8s.io/max-exec-time-seconds": "3"})
        wait_for("a pod", lambda: stage.is_running("j"))
        seconds = seconds_until("free", lambda: not stage.has("j", "QuotaReserved"))
        seen = f"stopped {seconds:.1f} s after its pod ran (declared: 3 s after admission); "
        return seen + _reactivated(stage, "j")


def _two_rivals(stage: Scenario) -> None:
    """A job that holds all GPUs under a Pending check, and one that waits for them."""
    stage.submit("first", 4)
    stage.wait_checked("first")
    stage.submit("second", 4)
    wait_for("second to be tried", lambda: stage.why("second") != "no condition")


def _holder(stage: Scenario) -> str:
    """Which of two rivals has the quota."""
    holders = [job for job in ("first", "second") if stage.has(job, "QuotaReserved")]
    return f"{' and '.join(holders) or 'nobody'} holds it"


def _reactivated(stage: Scenario, job: str) -> str:
    """Reactivate a Workload and tell whether it gets quota within 5 s."""
    evicted = stage.why(job, "Evicted")
    stage.set_active(job, active=True)
    seconds = seconds_while(lambda: not stage.has(job, "QuotaReserved"), 5)
    requeued = condition(stage.workload(job), "Requeued")
    back = f"quota after {seconds:.1f} s" if seconds < 5 else "no quota within 5 s"
    return f"{evicted}; reactivated: {back}, Requeued={requeued.get('status')}"


def _queue_of(stage: Scenario, job: str) -> str:
    return str(stage.workload(job)["spec"]["queueName"])


def _flavor(stage: Scenario, job: str) -> str:
    assignment = stage.workload(job)["status"]["admission"]["podSetAssignments"][0]
    return str(assignment["flavors"]["nvidia.com/gpu"])


EXPERIMENTS = (
    check_must_be_active,
    pending_check_keeps_quota,
    retry_with_delay_keeps_quota,
    retry_without_delay,
    park_and_return,
    rejected_is_final,
    late_retry_stops_a_job,
    eviction_after_gate,
    ready_is_forgotten,
    hold_cancels_reservation,
    queue_moves,
    local_queue_hold,
    borrowing_is_visible,
    first_fitting_flavor,
    maximum_run_time,
)
