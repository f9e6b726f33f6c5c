"""What one namespace may be told of the others: that there is another team's job, and never which."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any  # Documents are JSON.

ANOTHER = "another team's job"
_ID = re.compile(r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?")


class Foreign:
    """The jobs of a cluster that are not of `own` namespaces."""

    def __init__(self, jobs: Iterable[str], *, own: Collection[str]) -> None:
        self._hidden = {one for one in jobs if one.partition("/")[0] not in own}

    def __contains__(self, job: str) -> bool:
        return job in self._hidden

    def name(self, job: str) -> str:
        """The job's name, or that it is another team's."""
        return ANOTHER if job in self._hidden else job

    def text(self, said: str) -> str:
        """A sentence without the names of others' jobs; several of them in a row are told once."""
        found = _ID.sub(lambda one: self.name(one[0]), said)
        return re.sub(rf"{ANOTHER}(?:(?:,| and) {ANOTHER})+", "other teams' jobs", found)

    def document(self, of: Any) -> Any:
        """A document without them."""
        if isinstance(of, str):
            return self.text(of)
        if isinstance(of, Mapping):
            return {self.text(str(key)): self.document(value) for key, value in of.items()}
        if isinstance(of, list | tuple):
            return [self.document(one) for one in of]
        return of
