"""Names of metrics and labels, old and new, with their units: data, in the order of preference.

What a ledger table calls by one name has had many in exporters. Which of them was read is recorded.
Source: dcgm-exporter's counters and recorded pages of its versions 2.0 to 4.8; kube-state-metrics 1.0 to 2.19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuyield.ledger.tables import Activity, RunKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivityName:
    """A metric that says how busy a device is; `full` is the value of a fully busy one (1 ratio, 100 percent)."""

    name: str
    activity: Activity
    full: float
    preview: bool = False


_RATIO, _PERCENT = 1.0, 100.0

ACTIVITY_NAMES: tuple[ActivityName, ...] = tuple(
    ActivityName(name=name, activity=activity, full=full, preview=preview)
    for activity, full, preview, names in (
        (
            Activity.SM_ACTIVE,
            _RATIO,
            False,
            ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_UTIL_RATIO", "dcgm_fi_prof_sm_active", "dcgm_sm_active"),
        ),
        (
            Activity.GR_ENGINE_ACTIVE,
            _RATIO,
            False,
            (
                "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
                "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
                "dcgm_fi_prof_gr_engine_active",
                "dcgm_gr_engine_active",
            ),
        ),
        (
            Activity.GPU_UTIL,
            _PERCENT,
            False,
            ("DCGM_FI_DEV_GPU_UTIL", "dcgm_fi_dev_gpu_util", "dcgm_gpu_utilization"),
        ),
        (Activity.GPU_UTIL, _PERCENT, True, ("gpu_gfx_activity", "GPU_GFX_ACTIVITY", "gpu_usage")),
    )
    for name in names
)
"""Best activity first, and the best name of each first."""

GPU_RESOURCES = "nvidia_com_gpu(_.+)?|nvidia_com_mig_.+|amd_com_gpu(_.+)?"
"""Regular expression of resources that are devices, as kube-state-metrics prints them (no gpumem, no gpucores)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateName:
    """A metric of kube-state-metrics and what it becomes.

    `matchers` narrows the query; `scale` turns its unit into ours (seconds into epoch ms). `fixed` says that the
    series of one object hardly ever changes its value.
    """

    name: str
    kind: RunKind
    matchers: tuple[str, ...] = ()
    resource: str = ""
    scale: float = 1.0
    fixed: bool = False


_GPU_ONLY = (f'resource=~"{GPU_RESOURCES}"',)
_MS = 1000.0

NODE_DEVICE_NAMES: tuple[StateName, ...] = (
    StateName(name="kube_node_status_capacity", kind=RunKind.NODE_CAPACITY, matchers=_GPU_ONLY),
    StateName(name="kube_node_status_capacity_nvidia_gpu_cards", kind=RunKind.NODE_CAPACITY, resource="nvidia_com_gpu"),
    StateName(name="kube_node_status_allocatable", kind=RunKind.NODE_ALLOCATABLE, matchers=_GPU_ONLY),
    StateName(
        name="kube_node_status_allocatable_nvidia_gpu_cards", kind=RunKind.NODE_ALLOCATABLE, resource="nvidia_com_gpu"
    ),
)
NODE_LABEL_NAME = StateName(name="kube_node_labels", kind=RunKind.NODE_LABEL)
NODE_STATE_NAMES: tuple[StateName, ...] = (
    StateName(name="kube_node_spec_unschedulable", kind=RunKind.NODE_CORDONED),
    StateName(
        name="kube_node_status_condition", kind=RunKind.NODE_READY, matchers=('condition="Ready"', 'status="true"')
    ),
)

REQUEST_NAMES: tuple[StateName, ...] = (
    StateName(name="kube_pod_container_resource_requests", kind=RunKind.POD_REQUEST, matchers=_GPU_ONLY),
    StateName(
        name="kube_pod_container_resource_requests_nvidia_gpu_devices",
        kind=RunKind.POD_REQUEST,
        resource="nvidia_com_gpu",
    ),
    StateName(name="kube_pod_init_container_resource_requests", kind=RunKind.POD_INIT_REQUEST, matchers=_GPU_ONLY),
)

POD_NAMES: tuple[StateName, ...] = (
    StateName(name="kube_pod_status_phase", kind=RunKind.POD_PHASE),
    StateName(name="kube_pod_created", kind=RunKind.POD_CREATED, scale=_MS, fixed=True),
    StateName(name="kube_pod_status_scheduled_time", kind=RunKind.POD_SCHEDULED, scale=_MS, fixed=True),
    StateName(name="kube_pod_start_time", kind=RunKind.POD_STARTED, scale=_MS, fixed=True),
    StateName(name="kube_pod_completion_time", kind=RunKind.POD_COMPLETED, scale=_MS, fixed=True),
    StateName(name="kube_pod_container_state_started", kind=RunKind.CONTAINER_STARTED, scale=_MS, fixed=True),
    StateName(
        name="kube_pod_container_status_last_terminated_timestamp",
        kind=RunKind.CONTAINER_TERMINATED,
        scale=_MS,
        fixed=True,
    ),
    StateName(name="kube_pod_init_container_info", kind=RunKind.POD_SIDECAR, fixed=True),
    StateName(name="kube_pod_owner", kind=RunKind.POD_OWNER, fixed=True),
    StateName(name="kube_pod_labels", kind=RunKind.POD_LABEL, fixed=True),
    StateName(name="kube_pod_annotations", kind=RunKind.POD_LABEL, fixed=True),
    StateName(name="kube_pod_info", kind=RunKind.POD_NODE, fixed=True),
)

JOB_NAMES: tuple[StateName, ...] = (
    StateName(name="kube_job_created", kind=RunKind.JOB_CREATED, scale=_MS, fixed=True),
    StateName(name="kube_job_status_start_time", kind=RunKind.JOB_STARTED, scale=_MS, fixed=True),
    StateName(name="kube_job_status_completion_time", kind=RunKind.JOB_COMPLETED, scale=_MS, fixed=True),
    StateName(name="kube_job_status_failed", kind=RunKind.JOB_FAILED),
    StateName(name="kube_job_failed", kind=RunKind.JOB_FAILED, matchers=('condition="true"',)),
    StateName(name="kube_job_status_suspended", kind=RunKind.JOB_SUSPENDED),
    StateName(name="kube_job_spec_suspended", kind=RunKind.JOB_SUSPENDED),
    StateName(name="kube_job_owner", kind=RunKind.JOB_OWNER, fixed=True),
    StateName(name="kube_job_labels", kind=RunKind.JOB_LABEL, fixed=True),
    StateName(name="kube_job_annotations", kind=RunKind.JOB_LABEL, fixed=True),
)

REPLICASET_OWNER = "kube_replicaset_owner"

STATE_NAMES: tuple[StateName, ...] = (
    *NODE_DEVICE_NAMES,
    NODE_LABEL_NAME,
    *NODE_STATE_NAMES,
    *REQUEST_NAMES,
    *POD_NAMES,
    *JOB_NAMES,
)

ALL_NAMES: tuple[str, ...] = (
    *(one.name for one in ACTIVITY_NAMES),
    *dict.fromkeys(one.name for one in STATE_NAMES),
    REPLICASET_OWNER,
)

NODE_LABEL_DETAILS: Mapping[str, tuple[str, ...]] = {
    "gpu.count": ("label_nvidia_com_gpu_count",),
    "gpu.product": ("label_nvidia_com_gpu_product", "label_amd_com_gpu_product_name"),
    "gpu.replicas": ("label_nvidia_com_gpu_replicas",),
    "gpu.memory": ("label_nvidia_com_gpu_memory",),
    "mig.strategy": ("label_nvidia_com_mig_strategy",),
    "mig.capable": ("label_nvidia_com_mig_capable",),
    "flavor": (
        "label_gpuyield_dev_flavor",
        "label_cloud_google_com_gke_accelerator",
        "label_k8s_amazonaws_com_accelerator",
        "label_karpenter_k8s_aws_instance_gpu_name",
        "label_gpu_nvidia_com_model",
        "label_gpu_nvidia_com_class",
    ),
    "instance-type": ("label_node_kubernetes_io_instance_type", "label_beta_kubernetes_io_instance_type"),
}
"""Detail of a node label run -> labels that kube-state-metrics may be allowed to print, best first."""

_KUBERNETES_LABELS = (
    *(
        f"gpuyield.dev/{word}"
        for word in (
            *("deadline", "due", "earliest-start", "expected-duration", "weight", "after", "preemptible", "outcome"),
            *("flavor", "team"),
        )
    ),
    *(f"app.kubernetes.io/{word}" for word in ("name", "instance", "component", "part-of", "version", "managed-by")),
    *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class", "kueue.x-k8s.io/job-uid"),
    *("batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid", "job-name", "controller-uid"),
    *("jobset.sigs.k8s.io/jobset-name", "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster"),
    *("training.kubeflow.org/job-name", "notebook-name", "serving.kserve.io/inferenceservice"),
    *("pod-template-hash", "statefulset.kubernetes.io/pod-name", "cost-center", "cost_center"),
)
KUBERNETES_LABELS: Mapping[str, str] = {
    "".join(one if one.isalnum() else "_" for one in key): key for key in reversed(_KUBERNETES_LABELS)
}
"""Printed label key (every other character is `_`) -> the key in Kubernetes, where it is known."""

# Labels of an activity series. The first that is there and not empty counts.
CARD_LABELS = ("UUID", "uuid", "GPU_UUID", "gpu_uuid")
SLOT_LABELS = ("gpu", "GPU", "gpu_id", "device", "minor_number")
INSTANCE_LABELS = ("GPU_I_ID", "gpu_i_id")
PROFILE_LABELS = ("GPU_I_PROFILE", "gpu_i_profile")
MODEL_LABELS = ("modelName", "modelname", "model_name", "card_series", "card_model")
VGPU_LABELS = ("vgpu",)
NODE_NAME_LABELS = ("node", "kubernetes_node", "nodename", "k8s_node_name", "node_name", "exported_node")
HOST_LABELS = ("Hostname", "hostname", "exported_hostname")
UID_LABELS = ("exported_pod_uid", "pod_uid", "exported_uid", "k8s_pod_uid")
WORKLOAD_DIALECTS: tuple[tuple[str, str, str], ...] = (
    ("exported_pod", "exported_namespace", "exported_container"),
    ("pod_name", "pod_namespace", "container_name"),
    ("pod", "namespace", "container"),
    ("k8s_pod_name", "k8s_namespace_name", "k8s_container_name"),
)
"""Labels that name a workload's pod; the first dialect whose pod label is there counts."""

EXPORTER_POD_MARKS = ("dcgm-exporter", "dcgm_exporter", "device-metrics-exporter", "gpu-metrics-exporter")
EXPORTER_CONTAINERS = frozenset(
    {"exporter", "dcgm-exporter", "nvidia-dcgm-exporter", "dcgm", "nvidia-dcgm", "device-metrics-exporter"}
)
"""How an exporter's own pod is told from a workload's."""
