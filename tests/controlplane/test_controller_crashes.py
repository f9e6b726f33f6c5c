"""Whatever dies in the middle of a plan: nothing starts early, nothing is stopped, nothing is stuck."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from enforcement import CONFIG_MAP, HOME, Enforcer, Planned, is_check_active
from kube import Client, wait_for
from scenario import seconds_until, seconds_while

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
