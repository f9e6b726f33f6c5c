"""A real Kubernetes control plane with real Kueue, as plain processes on 127.0.0.1.

As a context manager, in tests:

    with ControlPlane(tmp_path, nodes=["1x4"]) as stack:
        jobs = stack.client().list(JOB)

As a command:

    python controlplane.py up --dir DIR --nodes 1x4 --kubeconfig-out FILE
    python controlplane.py down --dir DIR
"""

from __future__ import annotations

import argparse
import base64
import shutil
import signal
import ssl
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import binaries
import components
from certificates import (
    Authority,
    key_pem,
    new_key,
    public_pem,
    write_kubeconfig,
    write_pair,
    write_private,
)
from components import Layout
from fake_kubelet import parse_nodes
from kube import NODE, ApiError, Client, Object, Resource, is_true, wait_for
from manifests import Operator
from processes import STATE, Component, ComponentError, Ports, Supervisor

GATES: Mapping[str, bool] = {
    "AdmissionGatedBy": True,  # Alpha in Kueue 0.17: without it the annotation is ignored.
    "VisibilityOnDemand": False,  # Its server writes certificates to a fixed folder.
}
DEFINITION = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
ADMINISTRATORS = ("system:masters",)


class ControlPlane:
    """One control plane in one folder: certificates, state, logs, and the processes.

    Args:
        folder: Made if missing. Two control planes side by side need two folders.
        nodes: What the fake kubelet plays, each `COUNTxGPUS[:LABEL=VALUE,...]`.
        gates: Feature gates of Kueue, on top of `GATES`; read again at each start of Kueue.
    """

    def __init__(
        self,
        folder: Path,
        *,
        nodes: Sequence[str] = ("1x4",),
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self.nodes = tuple(nodes)
        self.gates = {**GATES, **(gates or {})}
        self.timings_s: dict[str, float] = {}
        self._clients: dict[str, Client] = {}
        self._supervisor: Supervisor | None = None
        self._layout: Layout | None = None

    @classmethod
    def attach(cls, folder: Path) -> ControlPlane:
        """The control plane that another process left running in the folder.

        Raises:
            ComponentError: None runs there.
        """
        stack = cls(folder)
        if not (stack.folder / STATE).exists():
            raise ComponentError(f"No control plane runs in {stack.folder}.")
        stack._layout = Layout.load(stack.folder)
        stack._supervisor = Supervisor(stack.folder, stack._tls())
        stack.gates = components.read_gates(stack.folder)
        return stack

    def __enter__(self) -> ControlPlane:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def supervisor(self) -> Supervisor:
        """The processes."""
        if self._supervisor is None:
            raise ComponentError("The control plane is not up.")
        return self._supervisor

    @property
    def layout(self) -> Layout:
        """The folder and the ports."""
        if self._layout is None:
            raise ComponentError("The control plane is not up.")
        return self._layout

    def up(self) -> None:
        """Start everything and wait until jobs can be created; on failure, end what was started.

        Raises:
            ComponentError: A component did not start, or the folder is in use.
            BuildError: A program has not been built.
        """
        self._prepare_folder()
        try:
            self._start_all()
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End every process that this control plane started; logs and data stay."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        if self._supervisor is not None:
            self._supervisor.end_all()
            self._supervisor = None

    def client(self, user: str = "admin", groups: Sequence[str] = ADMINISTRATORS) -> Client:
        """A client with the rights of a user: the administrator, or anyone else by name."""
        if user not in self._clients:
            self._clients[user] = Client(self.kubeconfig(user, groups))
        return self._clients[user]

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] = ADMINISTRATORS) -> Path:
        """A kubeconfig for the user, whose certificate is made on first use."""
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        if not path.exists():
            pair = Authority.read(self.folder).user(user, groups)
            write_pair(pair, self.folder, path.stem)
            write_kubeconfig(path, self.layout.url("kube-apiserver"), path.stem)
        return path

    def kill(self, name: str) -> None:
        """End one component without warning (SIGKILL), as a crash would."""
        self.supervisor.end(name, signal.SIGKILL)

    def start(self, name: str) -> float:
        """Start a component again; returns the seconds until it was ready."""
        if name == "kueue":
            components.write_kueue_config(self.layout, self.gates)
        self.supervisor.start(self.supervisor.find(name))
        return self.supervisor.wait_ready(name)

    # Set-up, in the order in which it happens.

    def _prepare_folder(self) -> None:
        if (self.folder / STATE).exists():
            raise ComponentError(f"{self.folder} is in use. Run: python controlplane.py down --dir {self.folder}")
        for name in ("etcd", "kube-apiserver", "kueue"):
            binaries.program(name)
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder / "etcd", ignore_errors=True)
        for left in (*self.folder.glob("*.kubeconfig"), *self.folder.glob("*.log")):
            left.unlink()

    def _start_all(self) -> None:
        self._ports = Ports(components.PORTS)
        self._layout = Layout(self.folder, self._ports.numbers)
        self._layout.save()
        with self._timed("certificates"):
            self._make_certificates()
        self._supervisor = Supervisor(self.folder, self._tls())
        self._start_server()
        self._start_controllers(self._install_operators())
        with self._timed("nodes"):
            self._start_nodes()
        self._ports.release()

    def _make_certificates(self) -> None:
        authority = Authority.create()
        write_pair(authority.pair, self.folder, "ca")
        names = [f"{each}-webhook-service.{each}-system.svc" for each in ("kueue", "jobset")]
        # Kueue and JobSet look for `tls.crt` and `tls.key`; one certificate serves them all.
        write_pair(authority.server(["kubernetes.default.svc", *names]), self.folder, "tls")
        key = new_key()
        write_private(self.folder / "service-account.key", key_pem(key))
        (self.folder / "service-account.pub").write_text(public_pem(key))

    def _start_server(self) -> None:
        for component in (components.etcd(self.layout), components.apiserver(self.layout)):
            with self._timed(component.name):
                self._launch(component)
                self.supervisor.wait_ready(component.name)

    def _install_operators(self) -> list[Operator]:
        """Install what Kueue and JobSet need in the cluster.

        All of it comes before the controllers: Kueue looks for JobSets only at its start, and the
        garbage collector notices new kinds of objects only every 30 s.
        """
        names = ["kueue", "jobset"] if binaries.is_built("jobset") else ["kueue"]
        operators = [components.operator_manifests(name, self.layout) for name in names]
        for operator in operators:
            with self._timed(f"{operator.name} manifests"):
                self._install(operator)
        return operators

    def _start_controllers(self, operators: Sequence[Operator]) -> None:
        """Start all that watch the API server, then wait for all."""
        components.write_kueue_config(self.layout, self.gates)
        components.write_jobset_config(self.layout)
        started = [components.operator(each.name, self.layout, self._account(each)) for each in operators]
        for name, make in (
            ("kube-controller-manager", components.controller_manager),
            ("kube-scheduler", components.scheduler),
        ):
            started.append(make(self.layout, self.kubeconfig(f"system:{name}", groups=())))
        for component in started:
            self._launch(component)
        for component in started:
            with self._timed(component.name):
                self.supervisor.wait_ready(component.name)

    def _account(self, operator: Operator) -> Path:
        return self.kubeconfig(operator.service_account, operator.groups)

    def _start_nodes(self) -> None:
        self.supervisor.start(components.fake_kubelet(self.kubeconfig(), self.nodes))
        client = self.client()
        names = {node.name for node in parse_nodes(self.nodes)}
        wait_for("nodes to be ready", lambda: _are_ready(client.list(NODE), names), timeout_s=60)

    def _launch(self, component: Component) -> None:
        self._ports.release(component.name)
        self.supervisor.start(component)

    def _install(self, operator: Operator) -> None:
        client = self.client()
        definitions = list(operator.definitions())
        client.apply(operator.namespace_object())
        client.apply(self._webhook_secret(operator))
        for manifest in (*operator.roles(), *definitions, *operator.webhook_configurations()):
            client.apply(manifest)
        wait_for(
            f"the definitions of {operator.name}",
            lambda: all(is_true(each, "Established") for each in client.list(DEFINITION)),
        )

    def _webhook_secret(self, operator: Operator) -> Object:
        """The certificates, where the operator's rotator looks before it makes its own."""
        names = ("ca.crt", "ca.key", "tls.crt", "tls.key")
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"{operator.name}-webhook-server-cert",
                "namespace": operator.namespace,
            },
            "data": {name: base64.b64encode((self.folder / name).read_bytes()).decode() for name in names},
        }

    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.folder / "ca.crt")

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.timings_s[what] = time.monotonic() - began


def _are_ready(nodes: Sequence[Object], names: AbstractSet[str]) -> bool:
    """Whether the named nodes all exist, are Ready and have lost the node controller's start-up taint."""
    ready = {node["metadata"]["name"] for node in nodes if is_true(node, "Ready") and not node["spec"].get("taints")}
    return names <= ready


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (ComponentError, binaries.BuildError, ApiError, TimeoutError) as error:
        print(f"controlplane: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.add_argument("--dir", type=Path, required=True, help="folder of the control plane")
        added.set_defaults(run=run)
        return added

    up = command("up", _up, "Start a control plane and leave it running.")
    up.add_argument("--nodes", nargs="+", default=["1x4"], help="COUNTxGPUS[:LABEL=VALUE,...]")
    up.add_argument("--kubeconfig-out", type=Path, help="where to copy the kubeconfig")
    command("down", _down, "End all its processes; logs and data stay.")
    command("status", _status, "Show its processes and their memory.")
    kill = command("kill", _kill, "Kill one component, as a crash would.")
    start = command("start", _start, "Start one component again.")
    for each in (kill, start):
        each.add_argument("component")
    return parser


def _up(options: argparse.Namespace) -> None:
    stack = ControlPlane(options.dir, nodes=options.nodes)
    stack.up()
    kubeconfig = stack.kubeconfig()
    if options.kubeconfig_out:
        shutil.copyfile(kubeconfig, options.kubeconfig_out)
        kubeconfig = options.kubeconfig_out
    for name, seconds in stack.timings_s.items():
        print(f"{name:<26} {seconds:6.2f} s")
    print(f"{'total':<26} {sum(stack.timings_s.values()):6.2f} s")
    print(f"export KUBECONFIG={kubeconfig}")


def _down(options: argparse.Namespace) -> None:
    if (options.dir / STATE).exists():
        ControlPlane.attach(options.dir).down()
    else:
        print(f"nothing runs in {options.dir}")


def _status(options: argparse.Namespace) -> None:
    supervisor = ControlPlane.attach(options.dir).supervisor
    memory = supervisor.memory_bytes()
    for name, component in supervisor.components.items():
        size = f"{memory[name] / 2**20:6.0f} MiB" if name in memory else "not running"
        print(f"{name:<26} {component.pid:>8} {size}")
    print(f"{'total':<26} {'':>8} {sum(memory.values()) / 2**20:6.0f} MiB")


def _kill(options: argparse.Namespace) -> None:
    ControlPlane.attach(options.dir).kill(options.component)


def _start(options: argparse.Namespace) -> None:
    waited = ControlPlane.attach(options.dir).start(options.component)
    print(f"{options.component} ready after {waited:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
