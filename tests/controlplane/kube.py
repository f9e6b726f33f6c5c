"""A small Kubernetes client over HTTP: what the tests need, and nothing hidden.

Objects are plain dictionaries, as the API server sends them.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import yaml

T = TypeVar("T")
Object = dict[str, Any]  # A decoded JSON object; its shape belongs to the API, not to us.

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, asked: str, message: str) -> None:
        super().__init__(f"{asked}: {status}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object by its API version and plural, such as `batch/v1` and `jobs`."""

    api_version: str
    plural: str

    @classmethod
    def of(cls, manifest: Mapping[str, Any]) -> Resource:
        """The resource that a manifest's `apiVersion` and `kind` belong to (English plural)."""
        kind = str(manifest["kind"]).lower()
        plural = re.sub(r"y$", "ie", re.sub(r"s$", "se", kind)) + "s"
        return cls(str(manifest["apiVersion"]), plural)

    def path(self, name: str | None, namespace: str | None, subresource: str | None = None) -> str:
        """The URL path of one object, or of the collection when `name` is None."""
        root = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{scope}/{self.plural}{tail}"


NAMESPACE = Resource("v1", "namespaces")
NODE = Resource("v1", "nodes")
POD = Resource("v1", "pods")
JOB = Resource("batch/v1", "jobs")
LEASE = Resource("coordination.k8s.io/v1", "leases")
WORKLOAD = Resource("kueue.x-k8s.io/v1beta2", "workloads")
CLUSTER_QUEUE = Resource("kueue.x-k8s.io/v1beta2", "clusterqueues")
LOCAL_QUEUE = Resource("kueue.x-k8s.io/v1beta2", "localqueues")
ADMISSION_CHECK = Resource("kueue.x-k8s.io/v1beta2", "admissionchecks")
RESOURCE_FLAVOR = Resource("kueue.x-k8s.io/v1beta2", "resourceflavors")
JOB_SET = Resource("jobset.x-k8s.io/v1alpha2", "jobsets")


class Client:
    """Requests to one API server as one user; safe to share between threads."""

    def __init__(self, kubeconfig: Path, timeout_s: float = 30.0) -> None:
        self.kubeconfig = kubeconfig
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        user = config["users"][0]["user"]
        self.server = str(cluster["server"])
        self.tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
        if user:
            self.tls.load_cert_chain(user["client-certificate"], user["client-key"])
        self._http = httpx2.Client(base_url=self.server, verify=self.tls, timeout=timeout_s, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """Read one object."""
        return self._send("GET", resource.path(name, namespace))

    def list(self, resource: Resource, namespace: str | None = None, **query: str) -> list[Object]:
        """Read all objects, of all namespaces when `namespace` is None."""
        answer = self._send("GET", resource.path(None, namespace), query=query)
        items: list[Object] = answer["items"]
        return items

    def create(self, manifest: Object, *, dry_run: bool = False) -> Object:
        """Create an object, or only try whether it would be accepted, and how it would look."""
        path = Resource.of(manifest).path(None, manifest["metadata"].get("namespace"))
        return self._send("POST", path, body=manifest, query=_trial(dry_run))

    def apply(
        self,
        manifest: Object,
        *,
        manager: str = "controlplane-test",
        subresource: str | None = None,
    ) -> Object:
        """Server-side apply with `force`, as a controller does with fields that it owns."""
        metadata = manifest["metadata"]
        path = Resource.of(manifest).path(metadata["name"], metadata.get("namespace"), subresource)
        query = {"fieldManager": manager, "force": "true"}
        return self._send("PATCH", path, body=manifest, content_type=APPLY, query=query)

    def merge(
        self,
        resource: Resource,
        name: str,
        change: Object,
        namespace: str | None = None,
        subresource: str | None = None,
        *,
        dry_run: bool = False,
    ) -> Object:
        """Apply a JSON merge patch; None removes a field."""
        path = resource.path(name, namespace, subresource)
        query = _trial(dry_run)
        return self._send("PATCH", path, body=change, content_type=MERGE, query=query)

    def delete(self, resource: Resource, name: str, namespace: str | None = None, **options: Any) -> None:
        """Delete an object, its dependents in the background; gone already is fine."""
        body = {"propagationPolicy": "Background", **options}
        try:
            self._send("DELETE", resource.path(name, namespace), body=body)
        except ApiError as error:
            if error.status != 404:
                raise

    def delete_manifest(self, manifest: Object) -> None:
        """Delete the object that a manifest describes."""
        metadata = manifest["metadata"]
        self.delete(Resource.of(manifest), metadata["name"], metadata.get("namespace"))

    def raw(self, method: str, path: str, body: Object | None = None) -> Object:
        """Any other request that answers JSON."""
        return self._send(method, path, body=body)

    def text(self, path: str) -> str:
        """A plain-text answer, such as that of `/readyz`."""
        return self._checked(self._http.get(path)).text

    def watch(self, resource: Resource, namespace: str | None = None, **query: str) -> Iterator[tuple[str, Object]]:
        """List, then watch, for ever; list again after any interruption.

        Yields ("ADDED", object) for what the list finds, so after an interruption objects can come
        twice, and a deletion that fell into the gap is not told.
        """
        while True:
            try:
                yield from self._watch_once(resource.path(None, namespace), query)
            except (httpx2.HTTPError, ApiError):
                time.sleep(0.3)

    def _watch_once(self, path: str, query: Mapping[str, str]) -> Iterator[tuple[str, Object]]:
        found = self._send("GET", path, query=query)
        yield from (("ADDED", item) for item in found["items"])
        params = {
            **query,
            "watch": "true",
            "resourceVersion": found["metadata"]["resourceVersion"],
            "timeoutSeconds": "300",
        }
        timeout = httpx2.Timeout(30.0, read=310.0)
        with self._http.stream("GET", path, params=params, timeout=timeout) as answer:
            if answer.is_error:
                answer.read()
            self._checked(answer)
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> Object:
        content = None if body is None else json.dumps(body)
        headers = {"content-type": content_type}
        answer = self._http.request(method, path, content=content, headers=headers, params=query)
        decoded: Object = self._checked(answer).json()
        return decoded

    @staticmethod
    def _checked(answer: httpx2.Response) -> httpx2.Response:
        if not answer.is_error:
            return answer
        try:
            status = answer.json()
        except ValueError:
            status = {}
        message = status.get("message", answer.text[:256])
        asked = f"{answer.request.method} {answer.request.url.path}"
        raise ApiError(answer.status_code, asked, message)


def _trial(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def condition(of: Object, kind: str) -> Object:
    """The object's status condition of that type; an empty object when there is none."""
    conditions: list[Object] = of.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def is_true(of: Object, kind: str) -> bool:
    """Whether the object's status condition of that type is True."""
    return bool(condition(of, kind).get("status") == "True")


def wait_for(what: str, probe: Callable[[], T | None], timeout_s: float = 30.0) -> T:
    """Ask until the answer is neither None nor False, and return it.

    Raises:
        TimeoutError: It stayed None or False; the message says what was waited for.
    """
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        answer = probe()
        if answer is not None and answer is not False:
            return answer
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not within {timeout_s:.0f} s")
