"""What finished work was said to take, beside what it took: whose word on run times is believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuyield.decide.live.jobs import LiveTerms, declared_length
from gpuyield.declare.selectors import declared_for
from gpuyield.declare.values import parse_length
from gpuyield.errors import DeclarationError
from gpuyield.model.declaration import BatchFamily
from gpuyield.model.kueue import ClusterSnapshot, Work
from gpuyield.model.marks import PREFIX
from gpuyield.plan.online.claims import Claim, learn_claims


def with_claims(terms: LiveTerms, seen: ClusterSnapshot, remembered: Iterable[tuple[str, Claim]] = ()) -> LiveTerms:
    """The terms with what finished work shows; `remembered` are earlier claims by uid of their Workload's job."""
    there = claims_of(seen.work, terms)
    known = {uid for uid, _ in there}
    claims = [*(one for uid, one in remembered if uid not in known), *(one for _, one in there)]
    return replace(terms, claims=learn_claims(claims))


def claims_of(finished: Iterable[Work], terms: LiveTerms) -> list[tuple[str, Claim]]:
    """What finished Workloads were said to take and took, by uid, in the order of their end; failed runs count too."""
    found = []
    for work in sorted((one for one in finished if one.run_ms is not None), key=lambda one: (one.finished_ms, one.uid)):
        family = declared_for(terms.declaration.batch, namespace=work.namespace, labels=work.labels, queue=work.queue)
        claimed_ms = claimed_length(work, family)
        if claimed_ms is not None and work.run_ms is not None:
            name = family.name if family else terms.stem(work.owner or work.name)
            its = Claim(
                namespace=work.namespace, family=name, gpus=work.gpus, claimed_ms=claimed_ms, run_ms=work.run_ms
            )
            found.append((work.uid, its))
    return found


def claimed_length(work: Work, family: BatchFamily | None) -> int | None:
    """How long a Workload is said to run, by itself or by its declared family; None: nobody says."""
    text = {**work.labels, **work.annotations}.get(f"{PREFIX}expected-duration")
    if text is not None:
        try:
            return parse_length(text, label="duration")
        except DeclarationError:
            return None
    lengths = [one for flavor in work.ran_on if (one := declared_length(family, flavor)) is not None]
    return max(lengths, default=None)
