"""Contract experiments about holding jobs back: gates, the plan, and the policies around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from kube import JOB, NAMESPACE, Client, Object
from scenario import (
    GATES,
    OUR_GATE,
    Scenario,
    brief,
    expect,
    job_manifest,
    refusal,
    scenario,
    seconds_until,
)

from controlplane import ControlPlane

POLICIES = Path(__file__).with_name("policies.yaml")
CONTROLLER = "system:serviceaccount:gpuyield-system:gpuyield-controller"


def gated_jobs_hold_nothing(stack: ControlPlane) -> str:
    """Four gated jobs hold no quota and wait in no queue."""
    with scenario(stack.client(), "gated") as stage:
        for job in ("j0", "j1", "j2", "j3"):
            stage.submit(job, gated=True)
            stage.workload(job)
        time.sleep(1)
        queue = stage.read_queue()["status"]
        seen = (
            f"reserved {stage.gpus()}, used {stage.gpus('flavorsUsage')}, "
            f"pendingWorkloads {queue.get('pendingWorkloads', 0)}; "
            f"QuotaReserved: {stage.why('j0')}; check entry {stage.check_entry('j0')['state']}"
        )
        return expect(stage.gpus() == 0 and not stage.has("j0", "QuotaReserved"), seen)


def gate_removal_releases(stack: ControlPlane) -> str:
    """Taking the gate off gives quota, and Ready starts the job, each within a second or so."""
    with scenario(stack.client(), "release") as stage:
        stage.submit("j", gated=True)
        stage.workload("j")
        began = time.monotonic()
        stage.ungate("j")
        reserved_s = stage.wait_reserved("j")
        stage.wait_checked("j")
        stage.answer("j", "Ready")
        started_s = seconds_until("unsuspend", lambda: not stage.job("j")["spec"]["suspend"])
        running_s = seconds_until("a pod", lambda: stage.is_running("j"))
        total_s = time.monotonic() - began
        seen = (
            f"quota after {reserved_s:.2f} s, unsuspended {started_s:.2f} s after Ready, "
            f"pod running {running_s:.2f} s later, {total_s:.2f} s in all"
        )
        return expect(total_s < 15, seen)


def gates_only_shrink(stack: ControlPlane) -> str:
    """A gate can be taken off a job, but not put on, renamed, or put on again."""
    with scenario(stack.client(), "shrink") as stage:
        client, change = stage.client, _gates
        stage.submit("held", gated=True)
        stage.submit("free")
        renamed = refusal(lambda: client.merge(JOB, "held", change("x.dev/other"), "shrink"))
        added = refusal(lambda: client.merge(JOB, "free", change(OUR_GATE), "shrink"))
        stage.ungate("held")
        again = refusal(lambda: client.merge(JOB, "held", change(OUR_GATE), "shrink"))
        seen = f"rename: {brief(renamed)}; add: {brief(added)}; again: {brief(again)}"
        return expect(all((renamed, added, again)), seen)


def several_gates(stack: ControlPlane) -> str:
    """Of two gates each can go alone, and the job is free when both are gone."""
    with scenario(stack.client(), "two-gates") as stage:
        manifest = job_manifest("j", stage.name, 2, annotations={GATES: f"{OUR_GATE},x.dev/other"})
        stage.client.create(manifest)
        stage.workload("j")
        stage.client.merge(JOB, "j", _gates("x.dev/other"), stage.name)
        time.sleep(1)
        held = not stage.has("j", "QuotaReserved")
        stage.ungate("j")
        seen = f"held by the other gate: {held}; free {stage.wait_reserved('j'):.2f} s after the last"
        return expect(held, seen)


def plan_two_plus_two(stack: ControlPlane) -> str:
    """Four 2-GPU jobs run two, then two, on 4 GPUs; none is ever stopped."""
    with scenario(stack.client(), "plan") as stage:
        jobs = [f"q{number}" for number in range(1, 5)]
        for job in jobs:
            stage.submit(job, gated=True, seconds=5)
        began, peak = time.monotonic(), 0
        for pair in (jobs[:2], jobs[2:]):
            for job in pair:
                stage.ungate(job)
                stage.wait_checked(job)
                stage.answer(job, "Ready")
            while not all(stage.is_complete(job) for job in pair):
                peak = max(peak, stage.gpus())
                expect(time.monotonic() - began < 90, "not done after 90 s")
                time.sleep(0.2)
        seen = (
            f"{time.monotonic() - began:.1f} s for jobs of 5 s, peak {peak} GPUs reserved, "
            f"{stage.evictions()} evictions"
        )
        return expect(peak == 4 and stage.evictions() == 0, seen)


def deadline_policy(stack: ControlPlane) -> str:
    """A ValidatingAdmissionPolicy can demand a well-formed deadline."""
    client = stack.client()
    with _policies(client, "gpuyield-deadline", "deadline") as stage:
        create = _dry_run(client, stage.name)
        delay_s = seconds_until("the policy to work", lambda: bool(refusal(lambda: create({}))))
        missing = refusal(lambda: create({}))
        malformed = refusal(lambda: create({"gpuyield.dev/deadline": "tomorrow"}))
        good = refusal(lambda: create({"gpuyield.dev/deadline": "2027-01-01T06:00:00Z"}))
        seen = f"works after {delay_s:.1f} s; without: {brief(missing)}; good one: {good or 201}"
        return expect(bool(missing and malformed) and not good, seen)


def gate_injection(stack: ControlPlane) -> str:
    """A MutatingAdmissionPolicy puts our gate on every new job in a queue."""
    client = stack.client()
    with _policies(client, "gpuyield-gate", "gate") as stage:
        create = _dry_run(client, stage.name)
        delay_s = seconds_until(
            "the policy to work",
            lambda: GATES in create({})["metadata"].get("annotations", {}),
        )
        stage.submit("j")
        stage.workload("j")
        time.sleep(1)
        gate = stage.job("j")["metadata"]["annotations"][GATES]
        seen = f"works after {delay_s:.1f} s; gate {gate}; QuotaReserved: {stage.why('j')}"
        return expect(gate == OUR_GATE and not stage.has("j", "QuotaReserved"), seen)


def guard_policy(stack: ControlPlane) -> str:
    """Not even an administrator takes our gate off; our controller's account does."""
    client = stack.client()
    controller = stack.client(CONTROLLER)
    with _policies(client, "gpuyield-guard", "guard") as stage:
        stage.submit("j", gated=True)

        def ungate(who: Client, *, dry_run: bool = False) -> str:
            change = _gates(None)
            return refusal(lambda: who.merge(JOB, "j", change, stage.name, dry_run=dry_run))

        delay_s = seconds_until("the policy", lambda: bool(ungate(client, dry_run=True)))
        administrator = ungate(client)
        ours = ungate(controller)
        seen = f"works after {delay_s:.1f} s; administrator: {brief(administrator)}; controller: {ours or 'accepted'}"
        return expect(bool(administrator) and not ours, seen)


@contextmanager
def _policies(client: Client, policy: str, label: str) -> Iterator[Scenario]:
    """A scenario in whose namespace one of the policies is in force."""
    found = yaml.safe_load_all(POLICIES.read_text())
    manifests = [each for each in found if each["metadata"]["name"] == policy]
    with scenario(client, f"policy-{label}") as stage:
        labels = {"metadata": {"labels": {"gpuyield.dev/managed": label}}}
        client.merge(NAMESPACE, stage.name, labels)
        for manifest in manifests:
            client.apply(manifest)
        try:
            yield stage
        finally:
            for manifest in manifests:
                client.delete_manifest(manifest)


def _dry_run(client: Client, namespace: str) -> Callable[[dict[str, str]], Object]:
    """Create a job with annotations, but only as a trial."""

    def create(annotations: dict[str, str]) -> Object:
        manifest = job_manifest("trial", namespace, 2, annotations=annotations)
        return client.create(manifest, dry_run=True)

    return create


def _gates(value: str | None) -> Object:
    return {"metadata": {"annotations": {GATES: value}}}


EXPERIMENTS = (
    gated_jobs_hold_nothing,
    gate_removal_releases,
    gates_only_shrink,
    several_gates,
    plan_two_plus_two,
    deadline_policy,
    gate_injection,
    guard_policy,
)
