"""A plan replayed on nodes, as a table."""

from __future__ import annotations

from gpuyield.report.facts import Document
from gpuyield.report.sentences import listed
from gpuyield.report.tables import Cell, Column, Kind, Table


def nodes_table(plan: Document) -> Table | None:
    """What the nodes of each flavor hold of the plan; None where no nodes are named."""
    found = list(plan.get("placement") or ())
    if not found:
        return None
    rows: list[tuple[Cell, ...]] = [
        (
            str(one["flavor"]),
            one["nodes"],
            one["gpus"],
            len(one["unplaced"]),
            one["spare_nodes"],
            len(one["unused"]),
            one["fragmentation"]["most_gpus"],
            one["fragmentation"]["share"],
            listed([str(job) for job in one["unplaced"]]) if one["unplaced"] else None,
        )
        for one in found
    ]
    return Table(
        title="On nodes",
        columns=(
            Column("flavor", "flavor"),
            Column("nodes", "nodes", Kind.COUNT),
            Column("gpus", "GPUs", Kind.COUNT),
            Column("unplaced", "jobs without a node", Kind.COUNT),
            Column("spare_nodes", "more nodes that would do", Kind.COUNT),
            Column("unused", "nodes never needed", Kind.COUNT),
            Column("stranded", "most free on partly used nodes", Kind.COUNT),
            Column("stranded_share", "of GPU time", Kind.RATIO),
            Column("jobs", "which jobs"),
        ),
        rows=tuple(rows),
    )
