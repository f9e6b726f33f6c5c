"""What `controller manifests` prints: safe pods, roles apart, opt-in everywhere, and the chart and base of the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuyield.cli.controller_deploy import IMAGE
from gpuyield.controller.manifests.chart import templates
from gpuyield.controller.manifests.everything import objects, yaml_text
from gpuyield.controller.manifests.settings import Deadlines, Gate, Hold, Settings, checked
from gpuyield.errors import DeclarationError

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "gpuyield"
EVERY = [
    Settings(image=IMAGE, deadlines=deadlines, gate=gate, hold=hold)
    for deadlines in Deadlines
    for gate in Gate
    for hold in Hold
]


def of_kind(made: list[Object], kind: str) -> list[Object]:
    return [one for one in made if one["kind"] == kind]


@pytest.mark.parametrize("settings", EVERY, ids=lambda one: f"{one.deadlines}-{one.gate}-{one.hold}")
def test_yaml_reads_back_as_the_objects_that_were_meant(settings: Settings) -> None:
    made = objects(settings)

    read = list(yaml.safe_load_all(yaml_text(made)))

    assert read == made
    assert len({(one["kind"], one["metadata"]["name"]) for one in made}) == len(made)


@pytest.mark.parametrize("settings", EVERY, ids=lambda one: f"{one.deadlines}-{one.gate}-{one.hold}")
def test_policies_on_users_look_only_at_namespaces_that_opted_in_and_never_at_kube_system(settings: Settings) -> None:
    made = objects(settings)

    for one in [*of_kind(made, "ValidatingAdmissionPolicyBinding"), *of_kind(made, "MutatingAdmissionPolicyBinding")]:
        name, selector = one["metadata"]["name"], one["spec"].get("matchResources", {}).get("namespaceSelector")
        if name.startswith(("gpuyield-own-", "gpuyield-plans")):
            assert selector is None, "what limits us limits us everywhere"
            continue
        assert selector["matchLabels"] == {"gpuyield.dev/managed": "true"}
        (never,) = selector["matchExpressions"]
        assert (never["key"], never["operator"], never["values"]) == (
            "kubernetes.io/metadata.name",
            "NotIn",
            ["kube-system"],
        )


def test_policies_on_ourselves_speak_of_our_account_alone() -> None:
    made = objects(Settings(image=IMAGE, namespace="elsewhere"))

    policies = [one for one in of_kind(made, "ValidatingAdmissionPolicy") if "-own-" in one["metadata"]["name"]]
    conditions = {one["metadata"]["name"]: one["spec"]["matchConditions"][0]["expression"] for one in policies}
    assert len(conditions) >= 4
    assert set(conditions.values()) == {
        "request.userInfo.username == 'system:serviceaccount:elsewhere:gpuyield-controller'"
    }


def test_each_policy_has_its_binding_and_fails_closed() -> None:
    for settings in EVERY:
        made = objects(settings)
        for kind in ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"):
            policies = of_kind(made, kind)
            bound = [one["spec"]["policyName"] for one in of_kind(made, f"{kind}Binding")]
            assert sorted(one["metadata"]["name"] for one in policies) == sorted(bound)
            assert all(one["spec"]["failurePolicy"] == "Fail" for one in policies)


def test_reading_and_enforcing_are_apart_and_no_role_has_a_wildcard() -> None:
    made = objects(Settings(image=IMAGE))
    roles = {(one["kind"], one["metadata"]["name"]): one["rules"] for one in made if one["kind"].endswith("Role")}

    for rules in roles.values():
        for rule in rules:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"]
    reading = {verb for rule in roles["ClusterRole", "gpuyield-read"] for verb in rule["verbs"]}
    enforcing = {verb for rule in roles["ClusterRole", "gpuyield-controller"] for verb in rule["verbs"]}
    assert reading == {"get", "list", "watch"}
    assert enforcing == {"create", "patch"}
    assert all(set(rule["verbs"]) == reading for rule in roles["ClusterRole", "gpuyield-submitter"])


def test_the_pods_are_restricted_and_two() -> None:
    made = objects(Settings(image=IMAGE))
    (deployment,) = of_kind(made, "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert deployment["spec"]["replicas"] == 2
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    (space,) = of_kind(made, "Namespace")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_what_reaches_the_pods_selects_them() -> None:
    made = objects(Settings(image=IMAGE))
    labels = of_kind(made, "Deployment")[0]["spec"]["template"]["metadata"]["labels"]

    assert of_kind(made, "Service")[0]["spec"]["selector"] == labels
    assert of_kind(made, "PodDisruptionBudget")[0]["spec"]["selector"]["matchLabels"] == labels
    assert of_kind(made, "NetworkPolicy")[0]["spec"]["podSelector"]["matchLabels"] == labels


def test_the_controller_gets_the_declaration_that_was_given_and_none_by_default() -> None:
    (without,) = of_kind(objects(Settings(image=IMAGE)), "ConfigMap")
    (given,) = of_kind(objects(Settings(image=IMAGE, config="kind: Cluster\n")), "ConfigMap")

    assert (without["data"], given["data"]) == ({}, {"gpuyield.yaml": "kind: Cluster\n"})


def test_settings_that_cannot_be_used_are_named_all_at_once() -> None:
    with pytest.raises(DeclarationError) as caught:
        checked(Settings(image="no image", namespace="kube-system", replicas=0))

    assert [one.where for one in caught.value.mistakes] == ["--image", "--namespace", "--replicas"]


def test_the_chart_is_made_of_the_same_objects() -> None:
    written = {one.name: one.read_text() for one in (CHART / "templates").glob("*.yaml")}

    assert written == templates(), "run python -m gpuyield.controller.manifests.chart deploy"


def test_the_chart_has_the_defaults_and_the_version_of_the_command() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    default = Settings(image=IMAGE)

    version = IMAGE.rpartition(":")[2]
    assert (about["version"], about["appVersion"]) == (version, version)
    assert values["image"] == IMAGE
    assert (values["deadlines"], values["gate"], values["hold"]) == (default.deadlines, default.gate, default.hold)
    assert (values["replicas"], values["config"]) == (default.replicas, default.config)


def test_the_image_has_the_version_of_the_package() -> None:
    from gpuyield import __version__

    assert f"gpuyield:{__version__}" == IMAGE
