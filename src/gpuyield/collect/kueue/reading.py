"""Reads the objects of a cluster with Kueue from its API server: lists in pages, with what may not be read named.

What planning cannot do without must be readable; the rest becomes a gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from gpuyield.collect.kueue.shapes import Object, plural_of, text
from gpuyield.collect.probe import KUEUE, ApiServer, Forbidden
from gpuyield.errors import Mistake, SourceError
from gpuyield.model.evidence import Gap

VERSIONS = ("v1beta2", "v1beta1")
"""The versions of Kueue's API that are understood, best first."""

NEEDED = ("resourceflavors", "clusterqueues", "localqueues", "workloads")
OF_RUNS = ("workloads", "jobs")
"""What tells which work has begun and finished, how long it ran, and what made it."""

_COST = {
    f"cohorts.{KUEUE}": "Cohorts count as if they had no parent and no quota of their own.",
    f"admissionchecks.{KUEUE}": "Which queues are planned queues is not known.",
    "jobs.batch": "The annotations of jobs are not known, only those of their pods.",
    "cronjobs.batch": "Jobs that come again are not planned ahead.",
    "nodes": "How many GPUs exist is not known, only quotas.",
    "pods": "What is free on each node is not known.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The objects of one cluster by plural, as the API server sends them; a plural that is absent was not read.

    `owners` are the objects behind Workloads that are no Jobs.
    """

    api_version: str
    lists: Mapping[str, list[Object]]
    owners: tuple[Object, ...] = ()
    gaps: tuple[Gap, ...] = field(default=())


def serves_kueue(server: ApiServer) -> str | None:
    """The version of Kueue's API to read with; None where Kueue is not installed.

    Raises:
        SourceError: Out of reach, not allowed, or only versions that are not understood.
    """
    served = server.versions(KUEUE)
    if served is None:
        return None
    found = next((one for one in VERSIONS if one in served), None)
    if found is None:
        raise SourceError(
            f"Kueue serves {', '.join(served)} only.",
            where=f"context {server.context}",
            fix=f"gpuyield reads {' and '.join(VERSIONS)}: Kueue 0.6 or later.",
        )
    return found


def read_objects(server: ApiServer, version: str, *, only: Collection[str] = ()) -> Objects:
    """All objects that a snapshot is made of, or `only` those of these plurals (with the owners of Workloads).

    Raises:
        SourceError: Out of reach, or what is needed may not be listed: every right that lacks, and how to grant it.
    """
    lists: dict[str, list[Object]] = {}
    refused: list[str] = []
    lacking: list[str] = []
    root = f"/apis/{KUEUE}/{version}"
    for plural in (one for one in NEEDED if not only or one in only):
        try:
            lists[plural] = server.objects(f"{root}/{plural}", f"{plural}.{KUEUE}")
        except Forbidden as err:
            if "(401)" in err.mistakes[0].what:
                raise
            refused.append(f"{plural}.{KUEUE}")
    optional: tuple[tuple[str, str, str, dict[str, str]], ...] = (
        ("cohorts", f"{root}/cohorts", f"cohorts.{KUEUE}", {}),
        ("admissionchecks", f"{root}/admissionchecks", f"admissionchecks.{KUEUE}", {}),
        ("jobs", "/apis/batch/v1/jobs", "jobs.batch", {}),
        ("cronjobs", "/apis/batch/v1/cronjobs", "cronjobs.batch", {}),
        ("nodes", "/api/v1/nodes", "nodes", {}),
        ("pods", "/api/v1/pods", "pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}),
    )
    for plural, path, what, query in (one for one in optional if not only or one[0] in only):
        try:
            lists[plural] = server.objects(path, what, query=query)
        except Forbidden:
            lacking.append(what)
    if refused:
        raise _missing_rights(server, refused, lacking)
    if lists.get("cohorts") == [] and version == "v1beta1":
        # Until 0.12 Kueue had them in v1alpha1 alone.
        lists["cohorts"] = server.objects(f"/apis/{KUEUE}/v1alpha1/cohorts", f"cohorts.{KUEUE}")
    gaps = [Gap(reason=f"May not list {one}. {_COST[one]} {grant([one])}", where=one) for one in lacking]
    owners, missing = _owners(server, lists.get("workloads", ()))
    return Objects(api_version=version, lists=lists, owners=owners, gaps=(*gaps, *missing))


def grant(resources: list[str]) -> str:
    """The commands that grant reading, and nothing else."""
    listed = ",".join(resources)
    return (
        f"Grant it: kubectl create clusterrole gpuyield-read --verb=get,list,watch --resource={listed} && "
        "kubectl create clusterrolebinding gpuyield-read --clusterrole=gpuyield-read "
        "--serviceaccount=NAMESPACE:NAME (or --user=NAME)."
    )


def _missing_rights(server: ApiServer, refused: list[str], lacking: list[str]) -> Forbidden:
    where = f"context {server.context}"
    rest = [*refused, *lacking]
    return Forbidden.of(
        [
            *(Mistake(what=f"may not list {one} (403).", where=where) for one in refused[:-1]),
            Mistake(what=f"may not list {refused[-1]} (403).", where=where, fix=grant(rest)),
        ]
    )


def _owners(server: ApiServer, workloads: Iterable[Object]) -> tuple[tuple[Object, ...], tuple[Gap, ...]]:
    """Objects that own Workloads and are no Jobs, each kind listed once."""
    kinds = {
        (text(owner, "apiVersion"), text(owner, "kind"))
        for one in workloads
        for owner in one.get("metadata", {}).get("ownerReferences") or ()
        if owner.get("controller")
    }
    found: list[Object] = []
    gaps: list[Gap] = []
    for version, kind in sorted(kinds):
        if kind in ("Job", "Pod", "") or "/" not in version:
            continue
        plural = plural_of(kind)
        what = f"{plural}.{version.partition('/')[0]}"
        try:
            found += server.objects(f"/apis/{version}/{plural}", what)
        except SourceError as err:
            reason = f"{err.mistakes[0].what} The annotations of each {kind} are not known, only those of its pods."
            gaps.append(Gap(reason=f"{reason} {grant([what])}" if isinstance(err, Forbidden) else reason, where=what))
    return tuple(found), tuple(gaps)
