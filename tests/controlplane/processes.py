"""Run the components as processes of their own, and end exactly those.

Every component gets its own session, so that ending its group ends what it started and nothing
else. A state file holds what is needed to end or restart them from another process; a process is
known by its id together with its start time, because ids are used again.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx2

STATE = "state.json"


class ComponentError(Exception):
    """A component did not start, or is not there."""


@dataclass(slots=True, kw_only=True)
class Component:
    """A program, how to start it, and the URL that answers 200 once it is ready."""

    name: str
    command: list[str]
    ready_url: str | None = None
    pid: int = 0
    started: int = 0

    def is_running(self) -> bool:
        """Whether the process started for this component is still alive."""
        return bool(self.pid) and _start_time(self.pid) == self.started


class Supervisor:
    """Starts, watches and ends the components of one control plane."""

    def __init__(self, folder: Path, tls: ssl.SSLContext) -> None:
        self.folder = folder
        self._http = httpx2.Client(verify=tls, timeout=5.0, trust_env=False)
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self.components: dict[str, Component] = {}
        if (folder / STATE).exists():
            stored = json.loads((folder / STATE).read_text())
            self.components = {each["name"]: Component(**each) for each in stored}

    def start(self, component: Component) -> None:
        """Start a component, appending what it prints to NAME.log."""
        with (self.folder / f"{component.name}.log").open("ab") as log:
            child = subprocess.Popen(
                component.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._children[child.pid] = child
        component.pid = child.pid
        component.started = _start_time(child.pid) or 0
        self.components[component.name] = component
        self._save()

    def wait_ready(self, name: str, timeout_s: float = 120.0) -> float:
        """Wait until the component answers, and return the seconds waited.

        Raises:
            ComponentError: It ended, or did not become ready in time; the end of its log follows.
        """
        component = self.components[name]
        began = time.monotonic()
        while component.ready_url and not self._answers(component.ready_url):
            if not component.is_running():
                raise ComponentError(f"{name} ended while starting.\n{self.log_tail(name)}")
            if time.monotonic() - began > timeout_s:
                raise ComponentError(f"{name} was not ready in time.\n{self.log_tail(name)}")
            time.sleep(0.05)
        return time.monotonic() - began

    def end(self, name: str, how: signal.Signals = signal.SIGKILL, grace_s: float = 10.0) -> None:
        """End one component and wait until it is gone; killed outright after `grace_s`."""
        component = self.find(name)
        self._signal(component, how)
        if not self._wait_gone(component, grace_s):
            self._signal(component, signal.SIGKILL)
            self._wait_gone(component, grace_s)

    def find(self, name: str) -> Component:
        """The component of that name."""
        if name not in self.components:
            known = ", ".join(self.components)
            raise ComponentError(f"There is no component {name}; there are {known}.")
        return self.components[name]

    def end_all(self, grace_s: float = 10.0) -> None:
        """End what was started last first, so that nobody loses its server while working."""
        for name in reversed(self.components):
            self.end(name, signal.SIGTERM, grace_s)
        (self.folder / STATE).unlink(missing_ok=True)
        self.components.clear()
        self._http.close()

    def log_tail(self, name: str, lines: int = 15) -> str:
        """The last lines of the component's log, indented."""
        text = (self.folder / f"{name}.log").read_text(errors="replace")
        return "\n".join(f"    {line[:400]}" for line in text.splitlines()[-lines:])

    def memory_bytes(self) -> dict[str, int]:
        """Resident memory of each running component."""
        return {
            name: _resident_bytes(component.pid)
            for name, component in self.components.items()
            if component.is_running()
        }

    def _answers(self, url: str) -> bool:
        try:
            return self._http.get(url).status_code == 200
        except httpx2.HTTPError:
            return False

    def _signal(self, component: Component, how: signal.Signals) -> None:
        if component.is_running():
            os.killpg(component.pid, how)

    def _wait_gone(self, component: Component, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self._is_left(component):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _is_left(self, component: Component) -> bool:
        child = self._children.get(component.pid)
        if child is not None:
            return child.poll() is None
        return component.is_running()

    def _save(self) -> None:
        scratch = self.folder / f"{STATE}.new"
        content = [asdict(each) for each in self.components.values()]
        scratch.write_text(json.dumps(content, indent=1))
        scratch.rename(self.folder / STATE)


class Ports:
    """Free ports on 127.0.0.1, by name, held until their servers start.

    They lie below the range from which the kernel takes ports for outgoing connections, so that a
    server that is restarted finds its port free.
    """

    def __init__(self, names: Sequence[str]) -> None:
        first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        self._candidates = range(10_000, max(first_outgoing, 12_000))
        self._held = {name: self._hold() for name in names}
        self.numbers = {name: held.getsockname()[1] for name, held in self._held.items()}

    def release(self, component: str = "") -> None:
        """Let go of the ports whose names begin with the component's, or of all."""
        for name, holder in self._held.items():
            if name.startswith(component):
                holder.close()

    def _hold(self) -> socket.socket:
        for port in random.sample(self._candidates, k=200):
            holder = socket.socket()
            try:
                holder.bind(("127.0.0.1", port))
            except OSError:
                holder.close()
            else:
                return holder
        raise ComponentError("No free port was found on 127.0.0.1.")


def _start_time(pid: int) -> int | None:
    """Start of the process in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
