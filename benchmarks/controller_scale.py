"""The controller with many Workloads: its memory, and how soon it decides rightly after a restart.

    python benchmarks/controller_scale.py [--workloads 10000] [--sample RESTARTS]

The API server is the double of the tests, in this process; the controller is a process of its own, as it is run. Each
restart is a kill; while nobody lives a job that has its turn is given quota, and the clock runs from the start of the
process to its answer.
"""

from __future__ import annotations

import argparse
import compileall
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import gpuyield
from doubles.cluster.kueue import KueueDouble
from doubles.cluster.objects import ApiObjects
from doubles.cluster.serving import NAMESPACE, serving_objects
from gpuyield.collect.kubernetes import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    JOB,
    LOCAL_QUEUE,
    NODE,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from gpuyield.collect.kueue.shapes import Object
from ports import free_port

GPU, HOME = "nvidia.com/gpu", "gpuyield-system"
NODES, EACH = 64, 8
IN_THE_IMAGE = {"MALLOC_ARENA_MAX": "2", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""As deploy/Containerfile sets them."""
GATES = "kueue.x-k8s.io/admission-gated-by"
Running = tuple["subprocess.Popen[bytes]", int]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workloads", type=int, default=10_000)
    options.add_argument("--sample", type=int, default=5, help="restarts")
    chosen = options.parse_args()
    # As pip does when it installs: nothing is compiled at a start.
    compileall.compile_dir(Path(gpuyield.__file__).parent, quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        look(chosen.workloads, chosen.sample, Path(folder))


def look(count: int, restarts: int, folder: Path) -> None:
    """Fill the cluster, start the controller, and kill it again and again."""
    objects = ApiObjects()
    fill(objects, count)
    with serving_objects(objects, folder) as kubeconfig:
        began = time.monotonic()
        running = start(kubeconfig, folder)
        wait(partial(is_ready, running), 600)
        print(f"controller.{count}.first_plan {time.monotonic() - began:.1f} s")
        answers, memory = [], []
        for number in range(restarts):
            wait_quiet(objects)
            memory.append(peak_mib(running[0].pid))
            stop(running[0])
            name = give_quota(objects, number)
            began = time.monotonic()
            running = start(kubeconfig, folder)
            wait(partial(is_answered, objects, name), 120)
            answers.append(time.monotonic() - began)
            wait(partial(is_ready, running), 120)
        stop(running[0])
    print(f"controller.{count}.memory {max(memory):.0f} MiB (300, 150)")
    print(f"controller.{count}.restart {median(answers):.2f} s, at most {max(answers):.2f} (5, 2)")


def fill(objects: ApiObjects, count: int) -> None:
    """A planned queue of 512 GPUs on 64 nodes, and so many gated jobs with deadlines."""
    chance = random.Random(1)
    KueueDouble(objects)  # For its webhook: the gate is honoured.
    objects.put(NAMESPACE, {"metadata": {"name": HOME}})
    objects.put(ADMISSION_CHECK, {"metadata": {"name": "gpuyield"}, "spec": {"controllerName": "gpuyield.dev/plan"}})
    objects.put(RESOURCE_FLAVOR, {"metadata": {"name": "h100"}, "spec": {}})
    flavor = {"name": "h100", "resources": [{"name": GPU, "nominalQuota": str(NODES * EACH)}]}
    groups = [{"coveredResources": [GPU], "flavors": [flavor]}]
    spec = {"resourceGroups": groups, "admissionChecksStrategy": {"admissionChecks": [{"name": "gpuyield"}]}}
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    objects.put(CLUSTER_QUEUE, {"metadata": {"name": "main"}, "spec": spec, "status": active})
    objects.put(LOCAL_QUEUE, {"metadata": {"name": "main", "namespace": "evals"}, "spec": {"clusterQueue": "main"}})
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {GPU: str(EACH)}}
    for number in range(NODES):
        objects.put(NODE, {"metadata": {"name": f"n{number}"}, "spec": {}, "status": ready})
    for number in range(count):
        add_job(objects, f"job-{number:05}", chance)


def add_job(objects: ApiObjects, name: str, chance: random.Random) -> None:
    """A job as people submit it, with all that a pod's template holds, and its Workload."""
    ours = {
        "gpuyield.dev/expected-duration": f"{chance.randint(10, 240)}m",
        "gpuyield.dev/deadline": f"within {chance.randint(8, 400)}h",
    }
    container = {
        "name": "main",
        "image": "registry.example/team/evals:2026-11-30",
        "command": ["python", "-m", "evals", "--suite", name],
        "env": [{"name": f"SETTING_{at}", "value": f"value {at}"} for at in range(20)],
        "resources": {"limits": {GPU: str(chance.choice([1, 2, 4, 8])), "cpu": "8", "memory": "64Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "cache", "mountPath": "/cache"}],
    }
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in ("data", "cache")]
    template = {
        "metadata": {"labels": {"team": "evals"}, "annotations": ours},
        "spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes},
    }
    meta = {
        "name": name,
        "namespace": "evals",
        "annotations": {GATES: "gpuyield.dev/plan", **ours},
        "labels": {"kueue.x-k8s.io/queue-name": "main"},
    }
    spec = {"parallelism": 1, "suspend": True, "template": template}
    made = objects.put(JOB, {"metadata": meta, "spec": spec, "status": {}})
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": made["metadata"]["uid"], "controller": True}
    pod_set = {"name": "main", "count": 1, "template": template}
    work = {
        "metadata": {"name": name, "namespace": "evals", "ownerReferences": [owner]},
        "spec": {"queueName": "main", "active": True, "podSets": [pod_set]},
        "status": {},
    }
    objects.put(WORKLOAD, work)


def give_quota(objects: ApiObjects, number: int) -> str:
    """Kueue gives quota to one of the jobs that were let go; its name."""
    free = [one["metadata"]["name"] for one in objects.all(JOB)[0] if GATES not in one["metadata"]["annotations"]]
    name = str(free[number])

    def alter(one: Object) -> None:
        asked = one["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU]
        given = {"name": "main", "flavors": {GPU: "h100"}, "resourceUsage": {GPU: asked}, "count": 1}
        at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "lastTransitionTime": at}
        one["status"] = {
            "admission": {"clusterQueue": "main", "podSetAssignments": [given]},
            "conditions": [reserved],
            "admissionChecks": [{"name": "gpuyield", "state": "Pending", "message": "", "lastTransitionTime": at}],
        }

    objects.change(WORKLOAD, name, "evals", alter)
    return name


def is_answered(objects: ApiObjects, name: str) -> bool:
    """Whether our check lets a job begin."""
    return bool(objects.get(WORKLOAD, name, "evals")["status"]["admissionChecks"][0]["state"] == "Ready")


def start(kubeconfig: Path, folder: Path) -> Running:
    """A replica, and its port."""
    port = free_port()
    command = [sys.executable, "-m", "gpuyield", "controller", "run", "--bind", "127.0.0.1", "--port", str(port)]
    environment = {
        **os.environ,
        **IN_THE_IMAGE,
        "KUBECONFIG": str(kubeconfig),
        "POD_NAME": "replica",
        "POD_NAMESPACE": HOME,
    }
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log), port


def is_ready(running: Running) -> bool:
    """Whether it leads and acts on a plan."""
    if running[0].poll() is not None:
        raise SystemExit(f"the controller ended with {running[0].returncode}")
    try:
        return httpx2.get(f"http://127.0.0.1:{running[1]}/readyz", trust_env=False, timeout=5).status_code == 200
    except httpx2.HTTPError:
        return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill it."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def peak_mib(pid: int) -> float:
    """The most memory that a process held."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def wait_quiet(objects: ApiObjects) -> None:
    """Until no job is let go for some seconds; what is told of jobs goes on."""
    while True:
        before = len(objects.writes)
        time.sleep(5)
        if not [one for one in objects.writes[before:] if one.startswith("patch jobs")]:
            return


def wait(until: Callable[[], bool], seconds: float) -> None:
    """Until it holds."""
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise SystemExit("it took too long")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
