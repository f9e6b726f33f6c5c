"""Reaching a source through the API server: kubeconfig files, a pod's own account, the service proxy."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from collect.test_days import prometheus_double
from doubles.answers import Asked, Said, answering
from doubles.exposition_text import steady
from gpuyield.collect.connect import prometheus, resolve
from gpuyield.collect.kubeconfig import find_cluster
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.model.declaration import Endpoint
from gpuyield.units import HOUR_MS, Window

PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def kubeconfig(folder: Path, user: dict[str, object], cluster: dict[str, object] | None = None) -> Path:
    document = {
        "current-context": "prod-gpu",
        "contexts": [
            {"name": "prod-gpu", "context": {"cluster": "c", "user": "u"}},
            {"name": "broken", "context": {"cluster": "absent", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://192.0.2.5:6443"}}],
        "users": [{"name": "u", "user": user}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(document))
    return file


def test_server_authority_and_token_come_from_the_current_context(tmp_path: Path) -> None:
    authority: dict[str, object] = {
        "server": "https://192.0.2.5:6443",
        "certificate-authority-data": base64.b64encode(PEM.encode()).decode(),
    }
    file = kubeconfig(tmp_path, {"token": "s3cr3t"}, authority)

    cluster = find_cluster(None, environment={"KUBECONFIG": str(file)}, home=tmp_path)

    assert (cluster.name, cluster.server, cluster.ca_pem) == ("prod-gpu", "https://192.0.2.5:6443", PEM)
    assert cluster.secrets.headers == (("Authorization", "Bearer s3cr3t"),)
    assert "s3cr3t" not in repr(cluster)


def test_files_beside_the_kubeconfig_are_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    (tmp_path / "ca.pem").write_text(PEM)
    file = kubeconfig(tmp_path, {"tokenFile": "token"}, {"server": "https://x", "certificate-authority": "ca.pem"})

    cluster = find_cluster("prod-gpu", environment={"KUBECONFIG": str(file)}, home=tmp_path)

    assert cluster.secrets.headers == (("Authorization", "Bearer from-file"),)
    assert cluster.ca_pem == PEM


def test_a_client_certificate_is_taken_with_its_key(tmp_path: Path) -> None:
    packed = base64.b64encode(PEM.encode()).decode()
    file = kubeconfig(tmp_path, {"client-certificate-data": packed, "client-key-data": packed})

    cluster = find_cluster("prod-gpu", environment={"KUBECONFIG": str(file)}, home=tmp_path)

    assert cluster.secrets.client_certificate == PEM + PEM


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({"exec": {"command": "/usr/bin/aws-iam", "args": ["secret"]}}, None, r"runs a program to log in \(aws-iam\)"),
        ({"auth-provider": {"name": "gcp"}}, None, r"runs a program to log in \(gcp\)"),
        ({"token": "t"}, {"server": "https://x", "insecure-skip-tls-verify": True}, "gives up checking"),
        ({"token": "t"}, {"server": "https://x", "proxy-url": "http://p"}, "asks for a proxy"),
        ({"token": "t"}, {"server": "https://x", "certificate-authority-data": "%%"}, "is not base64"),
        ({"tokenFile": "absent"}, None, "cannot read"),
    ],
)
def test_a_way_in_that_gpuyield_does_not_take_is_refused(
    user: dict[str, object], cluster: dict[str, object] | None, words: str, tmp_path: Path
) -> None:
    file = kubeconfig(tmp_path, user, cluster)

    with pytest.raises(DeclarationError, match=words) as caught:
        find_cluster(None, environment={"KUBECONFIG": str(file)}, home=tmp_path)

    assert caught.value.mistakes[0].fix
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("context", "words"),
    [("absent", r'no context "absent".*prod-gpu, broken'), ("broken", "names a cluster that is not")],
)
def test_a_context_that_is_not_there_is_named_with_those_that_are(context: str, words: str, tmp_path: Path) -> None:
    file = kubeconfig(tmp_path, {"token": "t"})

    with pytest.raises(DeclarationError, match=words):
        find_cluster(context, environment={"KUBECONFIG": str(file)}, home=tmp_path)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(DeclarationError):
        find_cluster(None, environment={"KUBECONFIG": str(file)}, home=tmp_path)


def test_without_any_kubeconfig_the_error_names_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match=r"no kubeconfig at .*\.kube/config"):
        find_cluster(None, environment={}, home=tmp_path)


def test_inside_a_pod_its_own_account_is_used(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_text(PEM)
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}

    cluster = find_cluster(None, environment=environment, home=tmp_path, account_folder=tmp_path)

    assert (cluster.name, cluster.server) == ("in-cluster", "https://[fd00::1]:443")
    assert cluster.secrets.headers == (("Authorization", "Bearer pod-token"),)


def test_prometheus_is_read_through_the_service_proxy(tmp_path: Path) -> None:
    window = Window(1_794_000_000_000, 1_794_000_000_000 + HOUR_MS)
    whole = prometheus_double([steady("up", 1, range(window.from_ms, window.to_ms, 60_000))])
    prefix = "/api/v1/namespaces/monitoring/services/prometheus-operated:9090/proxy"

    def answer(asked: Asked) -> Said:
        allowed = asked.method == "GET" and asked.headers.get("Authorization") == "Bearer t0ken"
        return whole(asked) if allowed and asked.path.startswith(prefix) else Said(status=403, body=b"{}")

    with answering(answer) as talk:
        file = kubeconfig(tmp_path, {"token": "t0ken"}, {"server": talk.url})
        source = prometheus(
            Endpoint(service="monitoring/prometheus-operated:9090"),
            context=None,
            folder=tmp_path,
            environment={"KUBECONFIG": str(file)},
            home=tmp_path,
        )
        found = source.raw("up", (), window)
        source.http.close()

    assert len(found[0].ts_ms) == 60


def test_a_refusal_of_the_api_server_says_which_right_is_missing(tmp_path: Path) -> None:
    body = b'{"kind":"Status","message":"services \\"prometheus-operated:9090\\" is forbidden"}'
    with answering([Said(status=403, body=body)]) as talk:
        file = kubeconfig(tmp_path, {"token": "t0ken"}, {"server": talk.url})
        source = prometheus(
            Endpoint(service="monitoring/prometheus-operated:9090"),
            context="prod-gpu",
            folder=tmp_path,
            environment={"KUBECONFIG": str(file)},
            home=tmp_path,
        )
        with pytest.raises(SourceError) as caught:
            source.build()
        source.http.close()

    assert "is forbidden" in str(caught.value)
    assert "Context prod-gpu needs get on services/proxy in namespace monitoring" in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("service", ["prometheus:9090", "a/b", "a/b:9090:1", "A/b:9090", "a/../b:80", ""])
def test_a_service_of_another_form_is_refused(service: str, tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="is not a service"):
        resolve(
            Endpoint(service=service),
            product="Prometheus",
            declared_at="sources.prometheus",
            hint="",
            context=None,
            folder=tmp_path,
            environment={},
            home=tmp_path,
        )
