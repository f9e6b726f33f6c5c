"""Kueue and what runs jobs, on the objects of the double: gates, quota, checks, eviction, and jobs that end.

It keeps to what was seen on the real Kueue 0.17 (tests/controlplane/contract*.py), as the double in virtual time does:
a gated job has no quota; quota counts from its reservation, in the order of creation; every eviction sets the checks
back to Pending; a Workload that is switched off gives its quota back; while a check is not active its queues reserve
nothing. A job runs for as long as its pods' annotation `fake-kubelet/run-seconds` says.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any  # Objects of the API server are JSON.

from doubles.cluster.objects import ApiObjects
from gpuyield.collect.kubernetes import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    CRON_JOB,
    JOB,
    LOCAL_QUEUE,
    WORKLOAD,
    Invalid,
    Kind,
    NotFound,
)
from gpuyield.collect.kueue.queues import checks_of
from gpuyield.collect.kueue.shapes import Object, condition, is_true, listed
from gpuyield.collect.kueue.work import GATES, QUEUE_LABEL

GPU = "nvidia.com/gpu"
_RUN = "fake-kubelet/run-seconds"
_BEAT_S = 0.05


@dataclass(slots=True)
class KueueDouble:
    """Looks at everything again after each change; `begins` is when a job's pods began, on the monotonic clock."""

    objects: ApiObjects
    honours_gates: bool = True
    begins: dict[str, float] = field(default_factory=dict)
    _minutes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.objects.admissions.append(self._admit)

    def round(self) -> None:
        """What Kueue, the controllers of jobs and the nodes do by themselves."""
        for step in (self._make_cron_jobs, self._make_workloads, self._evict, self._reserve, self._start, self._end):
            step()
        self._tell_queues()

    # The webhook.

    def _admit(self, verb: str, kind: Kind, body: Object) -> None:
        if kind.plural != "jobs":
            return
        meta = body["metadata"]
        gates = listed((meta.get("annotations") or {}).get(GATES, ""))
        if self.honours_gates and any("/" not in one for one in gates):
            raise Invalid(f"metadata.annotations[{GATES}]: Invalid value: a gate needs a domain.")
        if verb == "create" and (meta.get("labels") or {}).get(QUEUE_LABEL):
            body.setdefault("spec", {})["suspend"] = True
            body["spec"].setdefault("parallelism", 1)
            body.setdefault("status", {})

    # Jobs and their Workloads.

    def _make_cron_jobs(self) -> None:
        for cron in self._all(CRON_JOB):
            name, namespace = cron["metadata"]["name"], cron["metadata"]["namespace"]
            minute = int(datetime.now(UTC).timestamp() // 60)
            before = self._minutes.setdefault(cron["metadata"]["uid"], minute)
            if minute == before:
                continue
            self._minutes[cron["metadata"]["uid"]] = minute
            template = cron["spec"]["jobTemplate"]
            meta = {**template.get("metadata", {}), "name": f"{name}-{minute}", "namespace": namespace}
            meta["ownerReferences"] = [_owner("batch/v1", "CronJob", cron)]
            self.objects.create(JOB, {"metadata": meta, "spec": dict(template["spec"])})

    def _make_workloads(self) -> None:
        made = {one["metadata"]["ownerReferences"][0]["uid"] for one in self._all(WORKLOAD) if _is_owned(one)}
        for job in self._all(JOB):
            meta, queue = job["metadata"], (job["metadata"].get("labels") or {}).get(QUEUE_LABEL)
            if not queue or meta["uid"] in made:
                continue
            pod_set = {"name": "main", "count": job["spec"]["parallelism"], "template": job["spec"]["template"]}
            name = f"job-{meta['name']}"
            self.objects.put(
                WORKLOAD,
                {
                    "metadata": {
                        "name": name,
                        "namespace": meta["namespace"],
                        "ownerReferences": [_owner("batch/v1", "Job", job)],
                    },
                    "spec": {"queueName": queue, "active": True, "podSets": [pod_set]},
                    "status": {},
                },
            )

    # Quota.

    def _reserve(self) -> None:
        queues = {one["metadata"]["name"]: one for one in self._all(CLUSTER_QUEUE)}
        local = {
            (one["metadata"]["namespace"], one["metadata"]["name"]): one["spec"]["clusterQueue"]
            for one in self._all(LOCAL_QUEUE)
        }
        for work in self._all(WORKLOAD):
            if _holds(work) or is_true(work, "Finished") or not work["spec"].get("active", True):
                continue
            queue = queues.get(local.get((work["metadata"]["namespace"], work["spec"]["queueName"]), ""))
            if queue is None or not self._is_active(queue) or (self.honours_gates and self._is_gated(work)):
                continue
            flavor = self._fitting(queue, work, queues)
            if flavor is not None:
                self._give(work, queue, flavor)

    def _fitting(self, queue: Object, work: Object, queues: dict[str, Object]) -> str | None:
        """The first flavor whose quota, with what the cohort lends, has room."""
        asked = _gpus(work)
        cohort = queue["spec"].get("cohortName")
        mates = [queue] if not cohort else [one for one in queues.values() if one["spec"].get("cohortName") == cohort]
        names = {one["metadata"]["name"] for one in mates}
        for flavor in _nominal(queue):
            held = sum(_held(one, flavor) for one in self._all(WORKLOAD) if _queue_of(one) in names)
            if held + asked <= sum(_nominal(one).get(flavor, 0) for one in mates):
                return flavor
        return None

    def _give(self, work: Object, queue: Object, flavor: str) -> None:
        count = work["spec"]["podSets"][0]["count"]
        assignment = {
            "name": "main",
            "flavors": {GPU: flavor},
            "resourceUsage": {GPU: str(_gpus(work))},
            "count": count,
        }

        def alter(one: Object) -> None:
            status = one["status"]
            status["admission"] = {"clusterQueue": queue["metadata"]["name"], "podSetAssignments": [assignment]}
            _set(one, "QuotaReserved", "True", "QuotaReserved")
            if is_true(one, "Evicted"):
                _set(one, "Evicted", "False", "QuotaReserved")
            status["admissionChecks"] = [_pending(name) for name in checks_of(queue)]

        self._alter(WORKLOAD, work, alter)

    def _is_active(self, queue: Object) -> bool:
        if (queue["spec"].get("stopPolicy") or "None") != "None":
            return False
        checks = {one["metadata"]["name"]: one for one in self._all(ADMISSION_CHECK)}
        return all(name in checks and is_true(checks[name], "Active") for name in checks_of(queue))

    def _is_gated(self, work: Object) -> bool:
        job = self._job_of(work)
        return job is not None and bool((job["metadata"].get("annotations") or {}).get(GATES))

    def _evict(self) -> None:
        draining = {
            one["metadata"]["name"]
            for one in self._all(CLUSTER_QUEUE)
            if one["spec"].get("stopPolicy") == "HoldAndDrain"
        }
        for work in self._all(WORKLOAD):
            is_off = not work["spec"].get("active", True)
            if not _holds(work) or is_true(work, "Finished") or not (is_off or _queue_of(work) in draining):
                continue

            def alter(one: Object, reason: str = "Deactivated" if is_off else "ClusterQueueStopped") -> None:
                one["status"].pop("admission", None)
                _set(one, "Evicted", "True", reason)
                _set(one, "QuotaReserved", "False", "Pending")
                _set(one, "Admitted", "False", "NoReservation")
                one["status"]["admissionChecks"] = [
                    _pending(entry["name"]) for entry in one["status"].get("admissionChecks") or []
                ]

            self._alter(WORKLOAD, work, alter)
            job = self._job_of(work)
            if job is not None:
                self.begins.pop(job["metadata"]["uid"], None)
                self._alter(JOB, job, _suspended)

    # Running.

    def _start(self) -> None:
        for work in self._all(WORKLOAD):
            entries = work["status"].get("admissionChecks") or []
            if not _holds(work) or is_true(work, "Admitted") or any(one["state"] != "Ready" for one in entries):
                continue
            self._alter(WORKLOAD, work, lambda one: _set(one, "Admitted", "True", "Admitted"))
            job = self._job_of(work)
            if job is not None:
                self.begins[job["metadata"]["uid"]] = time.monotonic()
                self._alter(JOB, job, _started)

    def _end(self) -> None:
        for job in self._all(JOB):
            began, lasts = self.begins.get(job["metadata"]["uid"]), _run_s(job)
            if began is None or lasts is None or time.monotonic() < began + lasts:
                continue
            del self.begins[job["metadata"]["uid"]]
            self._alter(JOB, job, _completed)
            for work in self._all(WORKLOAD):
                if _is_owned(work) and work["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]:
                    self._alter(WORKLOAD, work, lambda one: _set(one, "Finished", "True", "Succeeded"))

    def _tell_queues(self) -> None:
        for queue in self._all(CLUSTER_QUEUE):
            name = queue["metadata"]["name"]
            here = [one for one in self._all(WORKLOAD) if _queue_of(one) == name]
            active = "True" if self._is_active(queue) else "False"

            def alter(one: Object, here: list[Object] = here, active: str = active) -> None:
                one.setdefault("status", {})
                for counter, counted in (
                    ("flavorsReservation", here),
                    ("flavorsUsage", [work for work in here if is_true(work, "Admitted")]),
                ):
                    one["status"][counter] = [
                        {
                            "name": flavor,
                            "resources": [{"name": GPU, "total": str(sum(_held(work, flavor) for work in counted))}],
                        }
                        for flavor in _nominal(one)
                    ]
                _set(one, "Active", active, "Ready")

            self._alter(CLUSTER_QUEUE, queue, alter)

    def _job_of(self, work: Object) -> Object | None:
        reference = work["metadata"]["ownerReferences"][0]
        return self.objects.objects.get(("jobs", work["metadata"]["namespace"], reference["name"]))

    def _all(self, kind: Kind) -> list[Object]:
        return self.objects.all(kind)[0]

    def _alter(self, kind: Kind, of: Object, alter: Any) -> None:
        try:
            self.objects.change(kind, of["metadata"]["name"], of["metadata"].get("namespace"), alter)
        except NotFound:
            return


@contextmanager
def kueue_running(double: KueueDouble) -> Iterator[None]:
    """Let it work in a thread of its own."""
    over = threading.Event()
    failed: list[BaseException] = []

    def work() -> None:
        seen = 0
        try:
            while not over.is_set():
                double.round()
                seen = double.objects.wait(seen, _BEAT_S)
        except BaseException as err:
            failed.append(err)
            raise

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=10)
        assert not failed, failed


def _owner(api_version: str, kind: str, of: Object) -> Object:
    meta = of["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": meta["name"], "uid": meta["uid"], "controller": True}


def _is_owned(work: Object) -> bool:
    return bool(work["metadata"].get("ownerReferences"))


def _holds(work: Object) -> bool:
    return "admission" in work["status"] and is_true(work, "QuotaReserved") and not is_true(work, "Finished")


def _queue_of(work: Object) -> str:
    return str(work["status"].get("admission", {}).get("clusterQueue", ""))


def _held(work: Object, flavor: str) -> int:
    if not _holds(work):
        return 0
    given = work["status"]["admission"]["podSetAssignments"][0]
    return int(given["resourceUsage"][GPU]) if given["flavors"][GPU] == flavor else 0


def _gpus(work: Object) -> int:
    total = 0
    for one in work["spec"]["podSets"]:
        for container in one["template"]["spec"]["containers"]:
            total += int(one["count"]) * int(container["resources"]["limits"][GPU])
    return total


def _nominal(queue: Object) -> dict[str, int]:
    return {
        flavor["name"]: int(flavor["resources"][0]["nominalQuota"])
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
    }


def _run_s(job: Object) -> float | None:
    written = (job["spec"]["template"]["metadata"].get("annotations") or {}).get(_RUN)
    return None if written is None else float(written)


def _pending(name: str) -> Object:
    return {"name": name, "state": "Pending", "message": "", "lastTransitionTime": _now()}


def _suspended(job: Object) -> None:
    job["spec"]["suspend"] = True
    job["status"] = {}


def _started(job: Object) -> None:
    job["spec"]["suspend"] = False
    job["status"] = {"startTime": _now(), "active": 1, "ready": 1}


def _completed(job: Object) -> None:
    begun = job["status"].get("startTime") or _now()
    job["status"] = {"startTime": begun, "completionTime": _now(), "succeeded": 1}
    _set(job, "Complete", "True", "CompletionsReached")


def _set(of: Object, kind: str, status: str, reason: str) -> None:
    found = condition(of, kind)
    if found.get("status") == status:
        return
    rest = [one for one in of.setdefault("status", {}).get("conditions") or [] if one["type"] != kind]
    made = {"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": _now()}
    of["status"]["conditions"] = [*rest, made]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
