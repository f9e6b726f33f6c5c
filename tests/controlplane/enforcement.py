"""The controller on a real control plane: started, killed, stopped; and a witness of all that happens meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx2
from kube import JOB, WORKLOAD, ApiError, Client, Object, Resource, condition, is_true, wait_for
from scenario import OUR_GATE, Scenario

from ports import free_port

CONFIG_MAP = Resource("v1", "configmaps")
EVENT = Resource("v1", "events")
HOME = "gpuyield-system"
COMMAND = [sys.executable, "-m", "gpuyield", "controller", "run"]


class Enforcer:
    """One replica of the controller, as a process."""

    def __init__(self, kubeconfig: Path, folder: Path, name: str, *, command: Sequence[str] = COMMAND) -> None:
        self.kubeconfig, self.folder, self.name, self.command = kubeconfig, folder, name, command
        self.port = free_port()
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it leads, or stands by."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "--bind", "127.0.0.1", "--port", str(self.port)],
                env={
                    **os.environ,
                    "KUBECONFIG": str(self.kubeconfig),
                    "POD_NAME": self.name,
                    "POD_NAMESPACE": HOME,
                },
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )

    def wait_ready(self) -> None:
        """Wait until it leads and acts on a plan."""
        wait_for(f"{self.name} to enforce", self.is_ready, timeout_s=60)

    def wait_alive(self) -> None:
        """Wait until it goes its rounds, leading or not."""
        wait_for(f"{self.name} to live", lambda: self._asked("healthz") == 200, timeout_s=60)

    def is_ready(self) -> bool:
        """Whether it says that it leads and acts."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"{self.name} ended with {self._process.returncode}: {self.said()[-2000:]}")
        return self._asked("readyz") == 200

    def _asked(self, page: str) -> int:
        try:
            return httpx2.get(f"http://127.0.0.1:{self.port}/{page}", trust_env=False, timeout=5).status_code
        except httpx2.HTTPError:
            return 0

    def metric(self, name: str) -> float:
        """One figure without labels of its page."""
        page = httpx2.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False, timeout=5).text
        return next(float(line.split()[1]) for line in page.splitlines() if line.startswith(f"{name} "))

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM, and its exit code."""
        return self._end(signal.SIGTERM)

    def said(self) -> str:
        """Its log so far."""
        return self.log.read_text(errors="replace")

    def _end(self, how: signal.Signals) -> int:
        process = self._process
        if process is None:
            return 0
        process.send_signal(how)
        code = process.wait(timeout=30)
        self._process = None
        return code


@dataclass
class Witness:
    """Watches the Workloads of one namespace: who held quota, who was asked, who ran, and in what order.

    Instants, such as those at which quota was reserved that we are asked about, are of the monotonic clock.
    """

    client: Client
    namespace: str
    order: list[str] = field(default_factory=list)
    reserved_s: list[float] = field(default_factory=list)
    answers_s: list[float] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)
    peak: int = 0
    _asked: dict[str, float] = field(default_factory=dict)
    _held: dict[str, int] = field(default_factory=dict)
    _ended: bool = False

    def start(self) -> Witness:
        """Watch in a thread of its own, until the end of the process."""
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def end(self) -> None:
        """What comes from now on does not count."""
        self._ended = True

    def _watch(self) -> None:
        try:
            for kind, workload in self.client.watch(WORKLOAD, self.namespace):
                if self._ended:
                    return
                self._see(kind, workload)
        except RuntimeError:
            # The client was closed with the control plane: there is nothing more to see.
            return

    def _see(self, kind: str, workload: Object) -> None:
        job = next((one["name"] for one in workload["metadata"].get("ownerReferences", ())), "")
        held = is_true(workload, "Admitted") and not is_true(workload, "Finished") and kind != "DELETED"
        if held and job not in self._held:
            self.order.append(job)
            self._held[job] = _gpus(workload)
            self.peak = max(self.peak, sum(self._held.values()))
        elif not held and job in self._held:
            del self._held[job]
            if not is_true(workload, "Finished") and kind != "DELETED":
                self.stopped.append(job)
        self._note_answer(workload)

    def _note_answer(self, workload: Object) -> None:
        """From quota with a question of ours to an answer: Ready, or parked."""
        uid = workload["metadata"]["uid"]
        entries = workload.get("status", {}).get("admissionChecks") or []
        is_asked = (
            is_true(workload, "QuotaReserved")
            and not is_true(workload, "Evicted")
            and workload["spec"].get("active", True)
            and any(one["state"] == "Pending" for one in entries)
        )
        if is_asked and uid not in self._asked:
            self._asked[uid] = time.monotonic()
            self.reserved_s.append(self._asked[uid])
        elif uid in self._asked and not is_asked:
            self.answers_s.append(time.monotonic() - self._asked.pop(uid))


def _gpus(workload: Object) -> int:
    return sum(
        int(one["count"]) * int(one["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        for one in workload["spec"]["podSets"]
    )


class Planned(Scenario):
    """A scenario whose jobs the controller plans, with a witness."""

    witness: Witness

    def set_up(self, quota: Mapping[str, int], **spec: object) -> None:
        """As any scenario, but the check is made active by the controller."""
        super().set_up(quota, **spec)
        self.witness = Witness(self.client, self.name).start()

    def activate_check(self) -> None:
        """The controller does that."""

    def ask(
        self,
        name: str,
        gpus: int = 2,
        *,
        seconds: float = 3,
        expected: str = "6s",
        gated: bool = True,
        queue: str = "main",
        **ours: str,
    ) -> None:
        """Submit a job with our annotations."""
        written = {"expected-duration": expected, **{key.replace("_", "-"): text for key, text in ours.items()}}
        annotations = {f"gpuyield.dev/{key}": text for key, text in written.items() if text}
        self.submit(name, gpus, gated=gated, seconds=seconds, queue=queue, annotations=annotations)

    def wait_complete(self, *jobs: str, timeout_s: float = 60) -> None:
        """Wait until all these jobs have succeeded."""
        for job in jobs:
            wait_for(f"{job} to complete", partial(self.is_complete, job), timeout_s=timeout_s)

    def wait_running(self, *jobs: str, timeout_s: float = 30) -> None:
        """Wait until all these jobs run."""
        for job in jobs:
            wait_for(f"{job} to run", partial(self.is_running, job), timeout_s=timeout_s)

    def completed_at(self, job: str) -> str:
        """When a job ended, as Kubernetes writes it."""
        return str(self.job(job)["status"]["completionTime"])

    def started_at(self, job: str) -> str:
        """When a job started, as Kubernetes writes it."""
        return str(self.job(job)["status"]["startTime"])

    def events(self, job: str) -> list[str]:
        """Reasons and sentences of the events of a job that are ours."""
        return [
            f"{one['reason']}: {one['message']}"
            for one in self.client.list(EVENT, self.name)
            if one["involvedObject"]["name"] == job and one.get("reportingComponent", "").startswith("gpuyield")
        ]

    def expect_nothing_stopped(self, *, by_others: tuple[str, ...] = ()) -> None:
        """Nothing was started and stopped but what somebody else stopped."""
        self.witness.end()
        assert [one for one in self.witness.stopped if one not in by_others] == []


def with_home(client: Client) -> Client:
    """The same, with the namespace of the controller made."""
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
    return client


@contextmanager
def planned(client: Client, name: str, gpus: int = 4, **spec: object) -> Iterator[Planned]:
    """A planned scenario with one flavor of `gpus`, torn down at the end."""
    stage = Planned(client, name)
    stage.set_up({name: gpus}, **spec)
    try:
        yield stage
    finally:
        stage.witness.end()
        stage.tear_down()


def wait_seen(stage: Scenario, *jobs: str) -> None:
    """Wait until Kueue has made the Workloads of these jobs."""
    for job in jobs:
        stage.workload(job)


def is_check_active(client: Client, name: str) -> bool:
    """Whether an AdmissionCheck says that its controller is there."""
    try:
        return is_true(client.get(Resource("kueue.x-k8s.io/v1beta2", "admissionchecks"), name), "Active")
    except ApiError:
        return False


__all__ = [
    "CONFIG_MAP",
    "HOME",
    "JOB",
    "OUR_GATE",
    "Enforcer",
    "Planned",
    "Witness",
    "condition",
    "is_check_active",
    "planned",
    "wait_seen",
    "with_home",
]
