"""The controller itself: its namespace, account, settings, pods, and who may reach them."""

from __future__ import annotations

from gpuyield.controller.manifests.settings import PORT, Object, Settings, meta
from gpuyield.model.marks import CHECK, CONTROLLER, PLAN
from gpuyield.model.pods import CONTAINER_SECURITY, POD_SECURITY

_CONFIG = "gpuyield-config"
_CONFIG_PATH = "/etc/gpuyield"
_METRICS = "gpuyield-controller-metrics"
_LABELS = {"app.kubernetes.io/name": "gpuyield", "app.kubernetes.io/component": "controller"}


def namespace(settings: Settings) -> Object:
    """The controller's own namespace, for restricted pods only."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta(settings.namespace, **labels)}


def check() -> Object:
    """The AdmissionCheck that planned ClusterQueues name."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "AdmissionCheck",
        "metadata": meta(CHECK),
        "spec": {"controllerName": PLAN},
    }


def controller(settings: Settings) -> list[Object]:
    """Account, settings, Deployment with what protects it, and its metrics."""
    space = settings.namespace
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta(CONTROLLER, space)},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta(_CONFIG, space),
            "data": {"gpuyield.yaml": settings.config} if settings.config else {},
        },
        _deployment(settings),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta(CONTROLLER, space),
            "spec": {
                "maxUnavailable": 1,
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
                "selector": {"matchLabels": _LABELS},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta(_METRICS, space, **{"app.kubernetes.io/component": "controller"}),
            "spec": {
                "selector": _LABELS,
                "ports": [{"name": "metrics", "port": PORT, "targetPort": "metrics", "protocol": "TCP"}],
            },
        },
        _network(space),
    ]


def _network(space: str) -> Object:
    """In: metrics and health alone. Out: names, and the API server, whose address no policy can know."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta(CONTROLLER, space),
        "spec": {
            "podSelector": {"matchLabels": _LABELS},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"ports": [{"port": PORT, "protocol": "TCP"}]}],
            "egress": [
                {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]},
                {"ports": [{"port": 443, "protocol": "TCP"}, {"port": 6443, "protocol": "TCP"}]},
            ],
        },
    }


def _deployment(settings: Settings) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(CONTROLLER, settings.namespace, **{"app.kubernetes.io/component": "controller"}),
        "spec": {
            # One leads, the others stand by and see to it that no queue waits for a dead leader.
            "replicas": settings.replicas,
            "selector": {"matchLabels": _LABELS},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}},
            "template": {"metadata": {"labels": _LABELS}, "spec": _pod(settings)},
        },
    }


def _pod(settings: Settings) -> Object:
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": _LABELS},
    }
    return {
        "serviceAccountName": CONTROLLER,
        "enableServiceLinks": False,
        "priorityClassName": "system-cluster-critical",
        "terminationGracePeriodSeconds": 30,
        "topologySpreadConstraints": [spread],
        "securityContext": dict(POD_SECURITY),
        "containers": [_container(settings)],
        "volumes": [
            {"name": "config", "configMap": {"name": _CONFIG}},
            {"name": "state", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
        ],
    }


def _container(settings: Settings) -> Object:
    def asked(path: str, **more: int) -> Object:
        return {"httpGet": {"path": path, "port": "metrics"}, **more}

    return {
        "name": "controller",
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "args": ["controller", "run", "--file", f"{_CONFIG_PATH}/gpuyield.yaml", "--ledger", "/var/lib/gpuyield"],
        "env": [
            {"name": "HOME", "value": "/tmp"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
        ],
        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "200m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
        "livenessProbe": asked("/healthz", periodSeconds=10, failureThreshold=6),
        # A replica that stands by is ready to take over; /readyz tells who enforces.
        "readinessProbe": asked("/healthz", periodSeconds=5),
        "securityContext": dict(CONTAINER_SECURITY),
        "volumeMounts": [
            {"name": "config", "mountPath": _CONFIG_PATH, "readOnly": True},
            {"name": "state", "mountPath": "/var/lib/gpuyield"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
