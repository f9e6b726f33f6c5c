"""The kinds of work that policies look at: where each keeps its metadata and its pods, in CEL.

A Workload's job can be of other kinds, too; these are the ones that can be held by the gate, and CronJobs, which make
Jobs. A kind that the cluster does not have is no mistake: its policy has nothing to do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of work. `meta` is a CEL expression of the metadata that counts, `pods` of a list of pod specs.

    A TrainJob names its GPUs without a pod: for it `pods` is a list of things with containers that look like one.
    """

    name: str
    group: str
    versions: tuple[str, ...]
    plural: str
    pods: str
    meta: str = "metadata"
    templates: tuple[str, ...] = ()

    @property
    def is_recurring(self) -> bool:
        """Whether it makes jobs, instead of being one."""
        return self.plural == "cronjobs"

    def rule(self, *operations: str, status: bool = False) -> dict[str, list[str]]:
        """The resource rule that matches it."""
        resources = [self.plural, f"{self.plural}/status"] if status else [self.plural]
        return {
            "apiGroups": [self.group],
            "apiVersions": list(self.versions),
            "operations": list(operations),
            "resources": resources,
        }


JOB = Kind(
    name="job",
    group="batch",
    versions=("v1",),
    plural="jobs",
    pods="[object.spec.template.spec]",
    templates=("spec.template.metadata",),
)
CRON_JOB = Kind(
    name="cronjob",
    group="batch",
    versions=("v1",),
    plural="cronjobs",
    meta="spec.jobTemplate.metadata",
    pods="[object.spec.jobTemplate.spec.template.spec]",
    templates=("spec.jobTemplate.spec.template.metadata",),
)
JOB_SET = Kind(
    name="jobset",
    group="jobset.x-k8s.io",
    versions=("*",),
    plural="jobsets",
    pods="object.spec.replicatedJobs.map(each, each.template.spec.template.spec)",
)
RAY_JOB = Kind(
    name="rayjob",
    group="ray.io",
    versions=("*",),
    plural="rayjobs",
    pods=(
        "object.spec.?rayClusterSpec.?headGroupSpec.?template.?spec.optMap(head, [head]).orValue([]) +\n"
        "object.spec.?rayClusterSpec.?workerGroupSpecs.orValue([]).map(group, group.template.spec)"
    ),
)
TRAIN_JOB = Kind(
    name="trainjob",
    group="trainer.kubeflow.org",
    versions=("*",),
    plural="trainjobs",
    pods="[{'containers': [{'resources': object.spec.?trainer.?resourcesPerNode.orValue({})}]}]",
)

HELD = (JOB, JOB_SET, RAY_JOB, TRAIN_JOB)
"""Kinds that the gate holds."""
ALL = (*HELD, CRON_JOB)
