"""How each component is started: command line, configuration file, and the sign that it is ready.

The flags are the fewest that work. A comment stands where leaving one out costs an afternoon.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import binaries
import yaml
from kube import Object
from manifests import Operator
from processes import Component

HERE = Path(__file__).resolve().parent
LAYOUT = "layout.json"
PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kueue-webhook",
    "kueue-health",
    "kueue-metrics",
    "jobset-webhook",
    "jobset-health",
    "jobset-metrics",
)
CONTROLLERS = (
    "job-controller",
    "cronjob-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
    "pod-garbage-collector-controller",
    "node-lifecycle-controller",
    "taint-eviction-controller",
    "root-ca-certificate-publisher-controller",
    "validatingadmissionpolicy-status-controller",
)
# Kinds whose webhooks are installed. What an operator does not serve answers 404, and with
# `failurePolicy: Fail` that would refuse every Pod, Deployment, and so on.
WEBHOOKS = {
    "kueue": frozenset({"job", "jobset", "workload", "clusterqueue", "resourceflavor", "cohort"}),
    "jobset": frozenset({"jobset", "pod"}),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """The folder of one control plane, and the ports on 127.0.0.1 that it uses."""

    folder: Path
    ports: Mapping[str, int]

    @classmethod
    def load(cls, folder: Path) -> Layout:
        """The layout that `save` left in the folder."""
        return cls(folder, json.loads((folder / LAYOUT).read_text())["ports"])

    def save(self) -> None:
        """Keep the layout for a later process."""
        content = {**asdict(self), "folder": str(self.folder)}
        (self.folder / LAYOUT).write_text(json.dumps(content, indent=1))

    def url(self, name: str, path: str = "", scheme: str = "https") -> str:
        """The URL of a port by its name in `PORTS`."""
        return f"{scheme}://127.0.0.1:{self.ports[name]}{path}"

    def file(self, name: str) -> str:
        """The path of a file in the folder, for a command line."""
        return str(self.folder / name)


def etcd(layout: Layout) -> Component:
    """The store. It never waits for the disk: nothing here has to survive a power cut."""
    client, peer = (layout.url(name, scheme="http") for name in ("etcd", "etcd-peer"))
    command = [
        str(binaries.program("etcd")),
        f"--data-dir={layout.file('etcd')}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--log-level=warn",
        "--unsafe-no-fsync",
    ]
    return Component(name="etcd", command=command, ready_url=f"{client}/health")


def apiserver(layout: Layout) -> Component:
    """The API server, with role-based access control and certificates for users."""
    command = [
        str(binaries.program("kube-apiserver")),
        f"--etcd-servers={layout.url('etcd', scheme='http')}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={layout.ports['kube-apiserver']}",
        *_serving(layout),
        f"--client-ca-file={layout.file('ca.crt')}",
        f"--service-account-key-file={layout.file('service-account.pub')}",
        f"--service-account-signing-key-file={layout.file('service-account.key')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        "--endpoint-reconciler-type=none",
    ]
    ready = layout.url("kube-apiserver", "/readyz")
    return Component(name="kube-apiserver", command=command, ready_url=ready)


def controller_manager(layout: Layout, kubeconfig: Path) -> Component:
    """The controllers that jobs, pods and nodes need."""
    extra = [
        f"--controllers={','.join(CONTROLLERS)}",
        f"--service-account-private-key-file={layout.file('service-account.key')}",
        f"--root-ca-file={layout.file('ca.crt')}",
        # Under one identity for all, the garbage collector may not touch Kueue's objects.
        "--use-service-account-credentials=true",
        # A silent node is noticed after 12 s instead of 50.
        "--node-monitor-grace-period=12s",
        "--node-monitor-period=2s",
    ]
    return _kube_program("kube-controller-manager", layout, kubeconfig, extra)


def scheduler(layout: Layout, kubeconfig: Path) -> Component:
    """The scheduler that binds pods to nodes."""
    return _kube_program("kube-scheduler", layout, kubeconfig, [])


def operator(name: str, layout: Layout, kubeconfig: Path) -> Component:
    """Kueue or JobSet. It is ready when it serves its webhooks."""
    command = [
        str(binaries.program(name)),
        f"--config={layout.file(f'{name}.yaml')}",
        f"--kubeconfig={kubeconfig}",
    ]
    ready = layout.url(f"{name}-health", "/readyz", scheme="http")
    return Component(name=name, command=command, ready_url=ready)


def fake_kubelet(kubeconfig: Path, nodes: Sequence[str]) -> Component:
    """The nodes."""
    command = [sys.executable, str(HERE / "fake_kubelet.py"), "--kubeconfig", str(kubeconfig)]
    return Component(name="fake-kubelet", command=[*command, "--nodes", *nodes])


def operator_manifests(name: str, layout: Layout) -> Operator:
    """What has to be in the cluster before Kueue or JobSet starts."""
    return Operator(
        name=name,
        folder=binaries.manifests(name),
        webhook_url=layout.url(f"{name}-webhook"),
        authority_pem=(layout.folder / "ca.crt").read_text(),
        webhooks=WEBHOOKS[name],
        pod_label="jobset.sigs.k8s.io/jobset-name",
    )


def write_kueue_config(layout: Layout, gates: Mapping[str, bool]) -> None:
    """Kueue's configuration file: batch jobs, and JobSets when JobSet is built."""
    frameworks = ["batch/job"]
    if binaries.is_built("jobset"):
        frameworks.append("jobset.x-k8s.io/jobset")
    config = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "namespace": "kueue-system",
        "integrations": {"frameworks": frameworks},
        "featureGates": dict(gates),
        # As in Kueue's own manifests; without it, 20 requests a second.
        "clientConnection": {"qps": 50, "burst": 100},
        # Left on, with our certificates in place: switched off, Kueue demands files under /etc.
        "internalCertManagement": {"enable": True},
        **_operator_config("kueue", layout),
    }
    config["metrics"]["enableClusterQueueResources"] = True
    (layout.folder / "kueue.yaml").write_text(yaml.safe_dump(config))


def read_gates(folder: Path) -> dict[str, bool]:
    """The feature gates that Kueue was last started with."""
    gates: dict[str, bool] = yaml.safe_load((folder / "kueue.yaml").read_text())["featureGates"]
    return gates


def write_jobset_config(layout: Layout) -> None:
    """JobSet's configuration file."""
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        # Left off: its rotator writes to one fixed folder, which two control planes would share.
        "internalCertManagement": {"enable": False},
        **_operator_config("jobset", layout),
    }
    (layout.folder / "jobset.yaml").write_text(yaml.safe_dump(config))


def _operator_config(name: str, layout: Layout) -> Object:
    return {
        "kind": "Configuration",
        "webhook": {
            "host": "127.0.0.1",
            "port": layout.ports[f"{name}-webhook"],
            "certDir": str(layout.folder),
        },
        "health": {"healthProbeBindAddress": f"127.0.0.1:{layout.ports[f'{name}-health']}"},
        "metrics": {"bindAddress": f"127.0.0.1:{layout.ports[f'{name}-metrics']}"},
        "leaderElection": {"leaderElect": False},
    }


def _kube_program(name: str, layout: Layout, kubeconfig: Path, extra: list[str]) -> Component:
    command = [
        str(binaries.program(name)),
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.ports[name]}",
        *_serving(layout),
        # Otherwise they wait for a request-header authority that nobody publishes here.
        "--authentication-skip-lookup=true",
        "--leader-elect=false",
        *extra,
    ]
    return Component(name=name, command=command, ready_url=layout.url(name, "/healthz"))


def _serving(layout: Layout) -> list[str]:
    return [
        f"--tls-cert-file={layout.file('tls.crt')}",
        f"--tls-private-key-file={layout.file('tls.key')}",
    ]
