"""The answer of `gpuyield demo`: the decision, what an outcome costs, why work waited, where the GPU time went."""

from __future__ import annotations

from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.assemble import assemble
from gpuyield.report.facts import Facts
from gpuyield.report.screens.account import account_waterfall
from gpuyield.report.screens.cost import unit_table
from gpuyield.report.screens.queue import queue_table
from gpuyield.report.sentences import count
from gpuyield.report.tables import Table
from gpuyield.report.twin import page_document


def demo_answer(facts: Facts, *, folder: str, gpus: int, days: int, seed: int) -> Answer:
    """The screen of the first five minutes."""
    page = assemble(facts)
    teams = {row.key.get("team") for row in facts.by_team.rows if row.key.get("team")} if facts.by_team else set()
    made_up = (
        f"A made-up cluster: {count(gpus, 'GPU')}, {count(len(teams), 'team')}, {count(days, 'day')}, seed {seed}. "
        "Nothing is sent anywhere."
    )
    tables: list[Table] = []
    if facts.cost is not None:
        tables.append(unit_table(facts.cost))
    if facts.queue is not None:
        tables.append(queue_table(facts.queue))
    if facts.account is not None:
        tables.append(account_waterfall(facts.account, zone=facts.zone))
    return Answer(
        document={
            "schema": schema_name("demo"),
            "folder": folder,
            "seed": seed,
            "gpus": gpus,
            "days": days,
            "files": ["gpuyield.yaml", ".gpuyield", "outcomes/demo.jsonl", "plan.json", "decide.json", "report.html"],
            "report": page_document(page),
        },
        headline=(made_up, "", page.headline, *page.lead),
        tables=tuple(tables),
        notes=(f"Page: {folder}/report.html",),
        next=(
            Next(command=f"gpuyield verify {folder}/decide.json", why="check the proof again"),
            Next(command=f"gpuyield explain reclaim --document {folder}/decide.json", why="why these GPUs"),
            Next(command="gpuyield init", why="connect your own Prometheus"),
        ),
        zone=facts.zone,
    )
