"""The commands with their one-line help and an example. Nothing is imported here: `--help` is printed from it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

PURPOSE = "Get more from the GPUs you have before you buy more."
FIRST = "gpuyield demo --out demo"


class Topic(StrEnum):
    """What a command is about; the order of `--help`."""

    START = "Start"
    SEE = "See what the GPUs do"
    DECIDE = "Plan and decide"
    KEEP = "Keep"


class Command(NamedTuple):
    """A verb: where its function lives, what it is for, a command line that shows it, and more of them."""

    name: str
    place: str
    topic: Topic
    help: str
    example: str
    more: tuple[str, ...] = ()

    @property
    def has_commands(self) -> bool:
        """Whether it has commands of its own."""
        return self.place.endswith(":app")


COMMANDS: tuple[Command, ...] = (
    Command(
        "demo",
        "demo:app",
        Topic.START,
        "A made-up cluster from a seed, through the whole chain, to the decision page.",
        "gpuyield demo --out demo",
    ),
    Command(
        "init",
        "init:init",
        Topic.START,
        "Look around read-only and draft gpuyield.yaml.",
        "gpuyield init --prometheus http://127.0.0.1:9090",
    ),
    Command(
        "check",
        "check:check",
        Topic.START,
        "Validate gpuyield.yaml: every mistake at once, with its fix.",
        "gpuyield check -f gpuyield.yaml",
    ),
    Command(
        "schema",
        "schema:schema",
        Topic.START,
        "Print the JSON Schema of gpuyield.yaml, for completion in editors.",
        "gpuyield schema > gpuyield.schema.json",
    ),
    Command(
        "doctor",
        "doctor:doctor",
        Topic.START,
        "Which sources answer, what is missing, and what each gap costs in certainty.",
        "gpuyield doctor",
    ),
    Command(
        "collect",
        "collect:collect",
        Topic.SEE,
        "Read the sources into the ledger; run it as often as you like.",
        "gpuyield collect --window 14d",
    ),
    Command(
        "outcomes",
        "outcomes:app",
        Topic.SEE,
        "Import what came of the work: outcomes and verdicts.",
        "gpuyield outcomes import --format jsonl outcomes/evals.jsonl",
    ),
    Command(
        "account",
        "account:account",
        Topic.SEE,
        "Where every GPU-hour went, and who holds what.",
        "gpuyield account --window 14d --by team",
    ),
    Command(
        "queue",
        "queue:queue",
        Topic.SEE,
        "Why work waited: waiting GPU time by cause.",
        "gpuyield queue --window 14d --by team",
        more=("gpuyield queue",),
    ),
    Command(
        "services",
        "services:services",
        Topic.SEE,
        "Objectives kept round the clock, and the headroom left.",
        "gpuyield services --window 14d",
    ),
    Command(
        "cost",
        "cost:cost",
        Topic.SEE,
        "Cost per verified outcome, and the reconciled bill.",
        "gpuyield cost --window 2026-11 --by team",
    ),
    Command(
        "plan",
        "plan:app",
        Topic.DECIDE,
        "When each job runs, or why that is impossible, and the fewest GPUs.",
        "gpuyield plan --jobs jobs.yaml --gpus 4 --origin 2026-11-30T21:00:00Z --out night.json",
    ),
    Command(
        "what-if",
        "what_if:what_if",
        Topic.DECIDE,
        "The same plan with changes, and what they do.",
        "gpuyield what-if --jobs jobs.yaml --gpus 4+4 --origin 2026-11-30T21:00:00Z --drop nightly",
    ),
    Command(
        "explain",
        "explain:explain",
        Topic.DECIDE,
        "A job, a lever or a figure: its path to the evidence.",
        "gpuyield explain nightly-eval --document plan.json",
    ),
    Command(
        "decide",
        "decide:decide",
        Topic.DECIDE,
        "Do we need to buy GPUs? The levers in order.",
        "gpuyield decide --gate",
    ),
    Command(
        "measure",
        "measure:measure",
        Topic.DECIDE,
        "The highest rate that a service really sustains: certified, refuted, and what lies between.",
        "gpuyield measure --url http://127.0.0.1:8000/v1 --model double --objective 'ttft p95 800ms'",
        (
            "gpuyield measure --service support-chat --trace requests.csv --profile ledger --out chat.html --apply",
            "gpuyield measure --service support-chat --trace requests.csv --replay --scale 10 --apply",
            "gpuyield measure --service chat --objective 'judge 0.7 for 90%' --judge-url http://j/v1 --judge-model big",
            "gpuyield measure --compare before.json after.json",
            "gpuyield measure --service support-chat --in-cluster --image IMAGE --claim records --out round.yaml",
        ),
    ),
    Command(
        "controller",
        "controller:app",
        Topic.DECIDE,
        "Make the plan real on Kueue: jobs start when the plan says so.",
        "gpuyield controller manifests --out gpuyield-controller.yaml",
    ),
    Command(
        "verify",
        "verify:verify",
        Topic.DECIDE,
        "Check a plan or decision again, from its inputs alone.",
        "gpuyield verify demo/plan.json",
    ),
    Command(
        "report",
        "report:report",
        Topic.KEEP,
        "One page: the answer, and how each number was made.",
        "gpuyield report --out report.html",
    ),
    Command(
        "ledger",
        "ledger:app",
        Topic.KEEP,
        "Digest and housekeeping of what was collected.",
        "gpuyield ledger digest",
    ),
)

LATER = {
    "serve": "the live page",
    "backtest": "replaying the past",
    "receipt": "promises and what came true",
    "export": "exports for other tools",
}
"""Commands of later versions: named in an honest error, not listed."""
