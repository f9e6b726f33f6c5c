"""Gangs of which no two fit side by side: one after the other they outlast a span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuyield.model.plan import Certificate
from gpuyield.plan.instance.board import Board, Steps
from gpuyield.plan.instance.profile import NEVER, most_between
from gpuyield.plan.instance.windows import Windows
from gpuyield.plan.proof.overload import Forced, forced_gpu_ms, tightest


def one_at_a_time(
    board: Board, steps: Sequence[Steps], windows: Windows, by_resource: Sequence[Forced]
) -> Certificate | None:
    """The certificate of gangs, of those forced on a resource, that exclude each other; None where there are none."""
    for resource, name in enumerate(board.resources):
        forced = by_resource[resource]
        if len(forced) < 2:
            continue
        most = most_between(steps[resource], 0, NEVER)
        wide = 2 * forced.demands > most
        narrower = np.unique(forced.demands[~wide])[::-1][:4]
        for least in (0, *(int(one) for one in narrower)):
            keep = wide if not least else forced.demands > most - least
            if least:
                extra = np.flatnonzero(forced.demands == least)
                keep = keep.copy()
                keep[extra[np.argmax(forced.durations[extra])]] = True
            if keep.sum() < 2:
                continue
            kept = forced.only(keep)
            span = tightest(kept.demanding(np.ones_like(kept.demands)), ((0, 1),))
            if span:
                inside = forced_gpu_ms(board, windows, resource, span.from_ms, span.to_ms)
                members = [int(at) for at in forced.tasks[keep] if int(at) in inside]
                return {
                    "kind": "wide-gangs",
                    "resource": name,
                    "from_ms": span.from_ms,
                    "to_ms": span.to_ms,
                    "jobs": [{"id": one} for one in sorted(board.tasks[at].job.id for at in members)],
                }
    return None
