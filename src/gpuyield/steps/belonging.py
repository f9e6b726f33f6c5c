"""Which declared service or batch family a pod or job belongs to, by its labels and its name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypeVar

from gpuyield.account.pod_facts import label_key
from gpuyield.account.pods import Holding
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import RUNS, RunKind
from gpuyield.model.declaration import BatchFamily, Selector, Service

Declared = TypeVar("Declared", Service, BatchFamily)

PodKey = tuple[str, str]
"""Namespace and name of a pod."""


class Labels:
    """Labels of the pods that hold or await GPUs; keys are compared as exporters print them."""

    def __init__(self, by_pod: Mapping[PodKey, Mapping[str, str]]) -> None:
        self._by_pod = by_pod

    @classmethod
    def read(cls, ledger: Ledger, days: Sequence[str]) -> Labels:
        """The labels of some days."""
        rows = ledger.read(
            RUNS, days=days, columns=["namespace", "pod", "detail", "text"], where=f"kind = '{RunKind.POD_LABEL}'"
        )
        found: dict[PodKey, dict[str, str]] = defaultdict(dict)
        for namespace, pod, detail, text in zip(
            *(rows[name].tolist() for name in ("namespace", "pod", "detail", "text")), strict=True
        ):
            found[namespace, pod][label_key(detail)] = text
        return cls(found)

    def of(self, namespace: str, pod: str) -> Mapping[str, str]:
        """The labels of one pod under their printed keys."""
        return self._by_pod.get((namespace, pod), {})

    def service_of(self, holding: Holding, services: Sequence[Service]) -> Service | None:
        """The declared service of a pod: the first whose selector takes it in, else one named like its workload."""
        return _declared(services, holding.namespace, holding.owner.workload, self.of(holding.namespace, holding.pod))

    def service_of_pod(self, namespace: str, pod: str, services: Sequence[Service]) -> Service | None:
        """The declared service of a pod that may hold no GPU: by its labels where they are known, else by its name."""
        return _declared(services, namespace, pod, self.of(namespace, pod))

    def family_of(
        self, namespace: str, pod: str, workload: str, name: str, families: Sequence[BatchFamily]
    ) -> BatchFamily | None:
        """The declared family of a job with this pod, workload and name."""
        labels = self.of(namespace, pod)
        found = _declared(families, namespace, workload, labels)
        return found if found is not None else _declared(families, namespace, name, labels)


def _declared(
    declared: Sequence[Declared], namespace: str, workload: str, labels: Mapping[str, str]
) -> Declared | None:
    for one in declared:
        if is_selected(one.selector, namespace, labels):
            return one
    inside = [one for one in declared if one.selector.namespace in (None, namespace)]
    named = [one for one in inside if workload == one.name or workload.startswith(f"{one.name}-")]
    return max(named, key=lambda one: len(one.name)) if named else None


def is_selected(selector: Selector, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a selector's labels say so (a namespace alone says nothing of a single workload)."""
    return (
        bool(selector.labels)
        and selector.namespace in (None, namespace)
        and all(labels.get(label_key(key)) == text for key, text in selector.labels.items())
    )
