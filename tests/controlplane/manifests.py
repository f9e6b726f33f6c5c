"""Turn an operator's in-cluster manifests into ones for an operator that runs outside.

Kueue and JobSet ship kustomize folders that expect a Deployment behind a Service. Here the same
files, read from the module that the program was built from, are pointed at 127.0.0.1 instead.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from kube import Object

# The roles an operator runs with; the viewer and editor roles for people are left out.
_RBAC_FILES = (
    "service_account",
    "role",
    "role_binding",
    "leader_election_role",
    "leader_election_role_binding",
    "manager_secrets_role",
    "manager_secrets_role_binding",
    "metrics_auth_role",
    "metrics_auth_role_binding",
    "metrics_reader_role",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator that runs as a process and serves its webhooks on 127.0.0.1."""

    name: str
    folder: Path
    webhook_url: str
    authority_pem: str
    webhooks: frozenset[str]
    """Webhooks to install, by kind. A webhook whose kind the operator does not serve answers 404,
    and with `failurePolicy: Fail` that refuses every object of that kind."""
    pod_label: str = ""
    """Pod webhooks are asked about pods with this label only, so that the others do without."""

    @property
    def namespace(self) -> str:
        """The namespace that the operator's secrets and leases live in."""
        return f"{self.name}-system"

    @property
    def service_account(self) -> str:
        """The user name of the operator's service account."""
        return f"system:serviceaccount:{self.namespace}:{self.name}-controller-manager"

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups that Kubernetes puts this service account into."""
        return ("system:serviceaccounts", f"system:serviceaccounts:{self.namespace}")

    def namespace_object(self) -> Object:
        """The operator's namespace."""
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}

    def definitions(self) -> Iterator[Object]:
        """The custom resource definitions, conversions pointed at the operator."""
        kustomization = next(_documents(self.folder / "crd" / "kustomization.yaml"))
        patched = {Path(each["path"]).stem for each in kustomization["patches"]}
        for path in sorted((self.folder / "crd" / "bases").glob("*.yaml")):
            for manifest in _documents(path):
                converts = f"webhook_in_{manifest['spec']['names']['plural']}" in patched
                if converts and len(manifest["spec"]["versions"]) > 1:
                    manifest["spec"]["conversion"] = self._conversion()
                yield manifest

    def roles(self) -> Iterator[Object]:
        """Service account, roles and bindings, renamed as the kustomization would."""
        for stem in _RBAC_FILES:
            path = self.folder / "rbac" / f"{stem}.yaml"
            for manifest in _documents(path) if path.exists() else ():
                yield self._renamed(manifest)

    def webhook_configurations(self) -> Iterator[Object]:
        """The mutating and validating webhooks of the kinds in `webhooks`."""
        for manifest in _documents(self.folder / "webhook" / "manifests.yaml"):
            manifest["metadata"]["name"] = f"{self.name}-{manifest['metadata']['name']}"
            manifest["webhooks"] = [
                self._rewired(each)
                for each in manifest["webhooks"]
                if each["name"][1:].removesuffix(".kb.io") in self.webhooks
            ]
            yield manifest

    def _conversion(self) -> Object:
        return {
            "strategy": "Webhook",
            "webhook": {
                "conversionReviewVersions": ["v1"],
                "clientConfig": self._client_config("/convert"),
            },
        }

    def _rewired(self, webhook: Object) -> Object:
        path = webhook["clientConfig"]["service"]["path"]
        changed = {**webhook, "clientConfig": self._client_config(path)}
        if path.endswith("--v1-pod"):
            has_label = {"key": self.pod_label, "operator": "Exists"}
            changed["objectSelector"] = {"matchExpressions": [has_label]}
        return changed

    def _client_config(self, path: str) -> Object:
        bundle = base64.b64encode(self.authority_pem.encode()).decode()
        return {"url": f"{self.webhook_url}{path}", "caBundle": bundle}

    def _renamed(self, manifest: Object) -> Object:
        """Add the name prefix and the namespace that the files leave to kustomize."""
        manifest["metadata"]["name"] = f"{self.name}-{manifest['metadata']['name']}"
        if manifest["kind"] in ("ServiceAccount", "Role", "RoleBinding"):
            manifest["metadata"]["namespace"] = self.namespace
        if "roleRef" in manifest:
            manifest["roleRef"]["name"] = f"{self.name}-{manifest['roleRef']['name']}"
        for subject in manifest.get("subjects", []):
            subject["name"] = f"{self.name}-{subject['name']}"
            subject["namespace"] = self.namespace
        return manifest


def _documents(path: Path) -> Iterator[Object]:
    """The YAML documents of a file."""
    yield from (each for each in yaml.load_all(path.read_text(), yaml.CSafeLoader) if each)
