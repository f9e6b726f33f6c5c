"""Which declared service or batch family a workload belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from gpuyield.model.declaration import BatchFamily, Selector, Service

Declared = TypeVar("Declared", Service, BatchFamily)


def is_selected(selector: Selector, *, namespace: str, labels: Mapping[str, str], queue: str | None = None) -> bool:
    """Whether all that a selector names is so; an empty one selects nothing."""
    if selector.namespace is None and selector.queue is None and not selector.labels:
        return False
    return (
        selector.namespace in (None, namespace)
        and selector.queue in (None, queue)
        and all(labels.get(key) == value for key, value in selector.labels.items())
    )


def declared_for(
    declared: Sequence[Declared], *, namespace: str, labels: Mapping[str, str], queue: str | None = None
) -> Declared | None:
    """The first service or family, in the order of the file, whose selector takes in a workload; None: nobody's."""
    return next(
        (one for one in declared if is_selected(one.selector, namespace=namespace, labels=labels, queue=queue)),
        None,
    )
