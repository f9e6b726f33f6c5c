"""`controller lint`: each setting that breaks a plan is found, with a patch that mends it; sound queues are let be."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest

from doubles.kueue_objects import local_queue, queue
from gpuyield.controller.lint import Settings, Severity, lint
from gpuyield.controller.linting import answer_of

Object = dict[str, Any]

CHECKED = {"admissionChecksStrategy": {"admissionChecks": [{"name": "gpuyield"}]}}
QUOTA = {"h100": {"nominalQuota": 8}}


def check(*, active: bool = True) -> Object:
    conditions = [{"type": "Active", "status": str(active)}]
    return {
        "metadata": {"name": "gpuyield"},
        "spec": {"controllerName": "gpuyield.dev/plan"},
        "status": {"conditions": conditions},
    }


def namespace(name: str, *, managed: bool = True) -> Object:
    return {"metadata": {"name": name, "labels": {"gpuyield.dev/managed": "true"} if managed else {}}}


def seen(*queues: Object, **more: Any) -> Settings:
    given = {"checks": [check()], "local_queues": [local_queue("main", "batch")], "namespaces": [namespace("evals")]}
    return Settings(queues=queues, **(given | more))


def rules(settings: Settings) -> list[str]:
    return [one.rule for one in lint(settings)]


def mended(of: Object, patch: str) -> Object:
    """The object after the kubectl command of a finding; JSON and merge patches of the small kind that are printed."""
    words = shlex.split(patch)
    change = json.loads(words[words.index("-p") + 1])
    made: Object = json.loads(json.dumps(of))
    if "--type=merge" in words:
        _merge(made, change)
        return made
    for one in change:
        *path, last = [int(word) if word.isdigit() else word for word in one["path"].split("/")[1:]]
        place: Any = made
        for word in path:
            place = place[word]
        if one["op"] == "remove":
            del place[last]
        else:
            place[last] = one["value"]
    return made


def _merge(of: Object, change: Object) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(of.get(key), dict):
            _merge(of[key], value)
        else:
            of[key] = value


@pytest.mark.parametrize(
    ("rule", "spec"),
    [
        ("preempts-within-queue", {"preemption": {"withinClusterQueue": "LowerPriority"}}),
        ("reclaims-in-cohort", {"preemption": {"reclaimWithinCohort": "Any"}}),
        ("preempts-to-borrow", {"preemption": {"borrowWithinCohort": {"policy": "LowerPriority"}}}),
        ("strict-fifo", {"queueingStrategy": "StrictFIFO"}),
        ("stopped", {"stopPolicy": "Hold"}),
        (
            "check-not-on-all-flavors",
            {"admissionChecksStrategy": {"admissionChecks": [{"name": "gpuyield", "onFlavors": ["a100"]}]}},
        ),
    ],
)
def test_a_setting_that_breaks_a_plan_is_found_and_its_patch_mends_it(rule: str, spec: Object) -> None:
    broken = queue("batch", QUOTA, **(CHECKED | spec))

    (finding,) = lint(seen(broken))

    assert (finding.rule, finding.where) == (rule, "ClusterQueue batch")
    assert rules(seen(mended(broken, finding.patch))) == []


def test_quota_that_is_lent_outside_the_plan_is_found_and_its_patch_mends_it() -> None:
    ours = queue("batch", QUOTA, cohortName="all", **CHECKED)
    other = queue("other", QUOTA, cohortName="all")

    (finding,) = lint(seen(ours, other))

    assert finding.rule == "lends-planned-quota"
    assert "other" in finding.what
    assert rules(seen(mended(ours, finding.patch), other)) == []


def test_quota_that_planned_queues_lend_each_other_is_fine() -> None:
    queues = [queue(name, QUOTA, cohortName="all", **CHECKED) for name in ("batch", "night")]

    assert rules(seen(*queues)) == []


def test_quota_is_lent_by_way_of_a_parent_cohort_too() -> None:
    ours = queue("batch", QUOTA, cohortName="left", **CHECKED)
    other = queue("other", QUOTA, cohortName="right")
    cohorts = [{"metadata": {"name": name}, "spec": {"parentName": "root"}} for name in ("left", "right")]

    assert rules(seen(ours, other, cohorts=cohorts)) == ["lends-planned-quota"]
    assert rules(seen(ours, other)) == []


def test_borrowed_quota_that_its_owner_takes_back_is_found_and_its_patch_mends_it() -> None:
    ours = queue("batch", {"h100": {"nominalQuota": 8, "lendingLimit": 0}}, cohortName="all", **CHECKED)
    taker = queue("other", QUOTA, cohortName="all", preemption={"reclaimWithinCohort": "Any"})

    (finding,) = lint(seen(ours, taker))

    assert finding.rule == "borrows-what-is-reclaimed"
    assert rules(seen(mended(ours, finding.patch), taker)) == []


def test_queues_that_are_not_planned_are_nobodys_business() -> None:
    wild = queue("wild", QUOTA, preemption={"withinClusterQueue": "LowerPriority"}, queueingStrategy="StrictFIFO")

    assert rules(seen(queue("batch", QUOTA, **CHECKED), wild)) == []


def test_namespaces_and_planned_queues_belong_together() -> None:
    planned = queue("batch", QUOTA, **CHECKED)
    local = [local_queue("main", "batch", name) for name in ("evals", "forgot", "kube-system")]
    spaces = [namespace("evals"), namespace("forgot", managed=False), namespace("kube-system"), namespace("alone")]

    found = {one.where: one.rule for one in lint(seen(planned, local_queues=local, namespaces=spaces))}

    assert found == {
        "Namespace forgot": "namespace-not-opted-in",
        "Namespace kube-system": "system-namespace",
        "Namespace alone": "namespace-without-planned-queue",
    }


def test_a_check_without_its_controller_is_told() -> None:
    (finding,) = lint(seen(queue("batch", QUOTA, **CHECKED), checks=[check(active=False)]))

    assert (finding.rule, finding.severity) == ("check-inactive", Severity.ODD)


def test_the_gate_fails_on_what_breaks_a_plan_and_not_on_what_is_odd() -> None:
    sound, broken = queue("batch", QUOTA, **CHECKED), queue("batch", QUOTA, queueingStrategy="StrictFIFO", **CHECKED)
    odd = seen(sound, checks=[check(active=False)])

    codes = [answer_of(one, lint(one), gate=True).exit_code for one in (seen(sound), odd, seen(broken))]

    assert codes == [0, 0, 10]
    assert answer_of(seen(broken), lint(seen(broken)), gate=False).exit_code == 0


def test_without_a_planned_queue_it_says_how_to_plan_one() -> None:
    settings = seen(queue("batch", QUOTA), local_queues=[], namespaces=[])

    answer = answer_of(settings, lint(settings), gate=True)

    assert re.search("nothing is planned", answer.headline[0])
    assert '"name":"gpuyield"' in answer.next[0].command
