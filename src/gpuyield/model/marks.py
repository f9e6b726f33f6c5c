"""The names by which gpuyield is known in a cluster, and the marks that it leaves there."""

from __future__ import annotations

PREFIX = "gpuyield.dev/"
"""Every label and annotation of ours begins with it."""
PLAN = f"{PREFIX}plan"
"""The gate, the controllerName of our AdmissionChecks, and the manager of the fields that we write."""
PARKED = f"{PREFIX}parked"
"""On a Workload that we switched off: until when. What somebody else switched off is not ours to switch on."""
PARKED_WHY = f"{PREFIX}parked-because"
PLANNED_START = f"{PREFIX}planned-start"
FIRST_PLANNED_START = f"{PREFIX}first-planned-start"
START_WHY = f"{PREFIX}started-because"
"""On a Workload that we let begin: the start that the plan in force gave it, the first one that any plan gave, and why
it began when it did."""
WANTED_QUEUE = f"{PREFIX}queue"
"""Where gates are not honoured: the queue that a job in a LocalQueue on hold is for."""
MANAGED = f"{PREFIX}managed"
"""The label by which a namespace opts in, with the value `true`."""

NAMESPACE = "gpuyield-system"
CONTROLLER = "gpuyield-controller"
"""The controller: its service account, its Lease, and the component that its events name."""
CHECK = "gpuyield"
BREAK_GLASS = "gpuyield:break-glass"
"""The group that may take the gate off, too; shipped without members."""
