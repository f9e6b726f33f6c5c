"""Whatever dies in the middle of a plan: nothing starts early, nothing is stopped, nothing is stuck."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import shifted_clock
from enforcement import COMMAND, CONFIG_MAP, HOME, Enforcer, Planned, is_check_active
from kube import Client, Object, Resource, wait_for
from scenario import refusal, seconds_until, seconds_while

from controlplane import ControlPlane

pytestmark = pytest.mark.controlplane

KILLS = int(os.environ.get("GPUYIELD_KILLS", "3"))
"""How often the controller is killed; 20 by hand."""

LEASE_S = 15.0
JOBS = ("a", "b", "c", "d", "e", "f")


@pytest.fixture
def second(stack: ControlPlane, client: Client, tmp_path: Path) -> Iterator[Enforcer]:
    """Another replica, that stands by."""
    replica = Enforcer(stack.kubeconfig(), tmp_path, "replica-b")
    replica.start()
    yield replica
    replica.stop()
    print(replica.said()[-4000:])


@contextmanager
def frozen_lease(client: Client) -> Iterator[None]:
    """Nobody may write a Lease of the controller."""
    rule = {"apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "resources": ["leases"]}
    policy: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "frozen-lease"},
        "spec": {
            "matchConstraints": {"resourceRules": [{**rule, "operations": ["CREATE", "UPDATE"]}]},
            "validations": [{"expression": f"object.metadata.namespace != '{HOME}'", "message": "frozen"}],
        },
    }
    binding: Object = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "frozen-lease"},
        "spec": {"policyName": "frozen-lease", "validationActions": ["Deny"]},
    }
    client.apply(policy)
    client.apply(binding)
    lease: Object = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
    lease |= {"metadata": {"name": "tried", "namespace": HOME}, "spec": {}}
    wait_for("the policy", lambda: "frozen" in refusal(lambda: client.apply(lease)))
    try:
        yield
    finally:
        client.delete(Resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"), "frozen-lease")
        client.delete(Resource("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"), "frozen-lease")


def ask_for_six(stage: Planned, seconds: float = 2) -> None:
    """Jobs of 2 GPUs, every other one gated: three rounds on 4 GPUs."""
    for at, name in enumerate(JOBS):
        stage.ask(name, seconds=seconds, expected="5s", gated=at % 2 == 0, deadline="within 10m")


def expect_all_ended_well(stage: Planned) -> None:
    stage.wait_complete(*JOBS, timeout_s=120)
    assert stage.witness.peak <= 4
    stage.expect_nothing_stopped()


def test_the_controller_is_killed_at_random_points_and_the_plan_goes_on(stage: Planned, enforcer: Enforcer) -> None:
    chance = random.Random(os.environ.get("GPUYIELD_SEED", "6"))
    ask_for_six(stage)

    for _ in range(KILLS):
        seconds_while(lambda: True, chance.uniform(0.2, 4.0))
        enforcer.kill()
        enforcer.start()

    expect_all_ended_well(stage)


def test_the_api_server_and_kueue_are_restarted_and_the_plan_goes_on(stack: ControlPlane, stage: Planned) -> None:
    ask_for_six(stage, seconds=3)
    stage.wait_complete(JOBS[0])

    stack.kill("kube-apiserver")
    stack.start("kube-apiserver")
    stack.kill("kueue")
    stack.start("kueue")

    expect_all_ended_well(stage)


def test_the_standby_goes_on_where_the_leader_died(
    stage: Planned, enforcer: Enforcer, second: Enforcer, client: Client
) -> None:
    enforcer.wait_ready()
    ask_for_six(stage)
    stage.wait_complete(JOBS[0])
    assert not second.is_ready()

    enforcer.kill()

    try:
        assert seconds_until("the standby to lead", second.is_ready, timeout_s=LEASE_S + 15) <= LEASE_S + 15
        expect_all_ended_well(stage)
        assert is_check_active(client, stage.name)
    finally:
        enforcer.start()


def test_nobody_gets_quota_while_the_leader_is_dead_and_the_standby_cannot_lead(
    stage: Planned, enforcer: Enforcer, second: Enforcer, client: Client
) -> None:
    enforcer.wait_ready()
    second.wait_alive()
    stage.ask("runs", seconds=LEASE_S + 10, expected="60s", deadline="within 10m")
    stage.wait_running("runs")

    enforcer.kill()
    died_s = time.monotonic()

    try:
        with frozen_lease(client):
            wait_for("the queue to wait", lambda: not is_check_active(client, stage.name), timeout_s=LEASE_S + 5)
            stage.ask("open", seconds=1, expected="3s", gated=False, deadline="within 10m")
            stage.ask("gated", seconds=1, expected="3s", deadline="within 10m")
            stage.workload("open"), stage.workload("gated")
            stage.wait_complete("runs")
            assert not second.is_ready()
            held = ("open", "gated")
            assert seconds_while(lambda: not any(stage.has(one, "QuotaReserved") for one in held), 3.0) >= 3.0
            assert [one for one in stage.witness.reserved_s if one > died_s] == []
        stage.wait_complete("open", "gated")
        assert second.is_ready()
        stage.expect_nothing_stopped()
    finally:
        enforcer.start()


def test_a_clock_that_jumps_moves_the_plan_and_stops_nothing(
    stage: Planned, enforcer: Enforcer, client: Client, tmp_path: Path
) -> None:
    shift = tmp_path / "shift"
    shift.write_text("0")
    enforcer.stop()
    command = [sys.executable, str(Path(shifted_clock.__file__)), str(shift), *COMMAND[3:]]
    jumping = Enforcer(client.kubeconfig, tmp_path, "jumping", command=command)
    jumping.start()
    try:
        jumping.wait_ready()
        ask_for_six(stage)
        for seconds, done in (("600", 1), ("-600", 3), ("0", 5)):
            wait_for("some to begin", lambda done=done: len(stage.witness.order) >= done, timeout_s=60)
            next_shift = tmp_path / "next"
            next_shift.write_text(seconds)
            next_shift.replace(shift)

        expect_all_ended_well(stage)
        assert jumping.metric("gpuyield_controller_early_stops_total") == 0
    finally:
        print(jumping.said()[-4000:])
        jumping.stop()
        enforcer.start()


def test_a_torn_plan_store_is_mended_and_nothing_starts_early(
    stage: Planned, enforcer: Enforcer, client: Client
) -> None:
    enforcer.wait_ready()
    ask_for_six(stage)
    stage.wait_running(*stage.witness.order[:1])
    pointer = client.get(CONFIG_MAP, "gpuyield-plan", HOME)
    piece = pointer["data"]["pieces"].split()[0]

    client.merge(CONFIG_MAP, piece, {"binaryData": {"piece": "AAAA"}}, HOME)
    enforcer.kill()
    enforcer.start()
    client.merge(CONFIG_MAP, "gpuyield-plan", {"data": {"digest": "sha256:none"}}, HOME)

    expect_all_ended_well(stage)
    mended = client.get(CONFIG_MAP, "gpuyield-plan", HOME)["data"]
    assert mended["digest"] != "sha256:none"
    assert mended["by"] == "controller"


def test_a_stopped_controller_gives_up_its_checks_and_gated_jobs_wait_without_quota(
    stage: Planned, enforcer: Enforcer, client: Client
) -> None:
    enforcer.wait_ready()
    wait_for("the check", lambda: is_check_active(client, stage.name))

    code = enforcer.stop()

    try:
        stage.ask("later", seconds=1, expected="3s", deadline="within 10m")
        stage.ask("open", seconds=1, expected="3s", gated=False)
        stage.workload("later"), stage.workload("open")
        assert code == 0
        assert not is_check_active(client, stage.name)
        assert seconds_while(lambda: stage.gpus() == 0, 1.0) >= 1.0
    finally:
        enforcer.start()
    stage.wait_complete("later", "open")
    stage.expect_nothing_stopped()


def test_with_no_replica_alive_gated_jobs_wait_without_quota_and_what_runs_goes_on(
    stage: Planned, enforcer: Enforcer
) -> None:
    enforcer.wait_ready()
    stage.ask("runs", seconds=5, expected="8s", deadline="within 10m")
    stage.wait_running("runs")
    stage.ask("held", 4, seconds=1, expected="3s", deadline="within 20m")
    stage.workload("held")

    enforcer.kill()

    try:
        stage.ask("later", seconds=1, expected="3s", deadline="within 10m")
        stage.workload("later")
        stage.wait_complete("runs")
        quiet = seconds_while(lambda: not any(stage.has(one, "QuotaReserved") for one in ("held", "later")), 3.0)
        assert quiet >= 3.0
    finally:
        enforcer.start()
    stage.wait_complete("held", "later")
    stage.expect_nothing_stopped()
