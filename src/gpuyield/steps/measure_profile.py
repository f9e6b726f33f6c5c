"""What a service really gets, from the ledger, its own metrics page or a file, and how far what was sent is from it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol  # Documents are JSON.

import numpy as np

from gpuyield.account.served import demand_of
from gpuyield.collect.http import HttpClient
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import OUTCOMES
from gpuyield.measure.recorded import Recorded, representative_document
from gpuyield.measure.representative import (
    FEWEST_REQUESTS,
    Profile,
    dispersion_of,
    distance,
    lengths_of,
    lengths_of_buckets,
)
from gpuyield.model.evidence import Gap
from gpuyield.model.measure import NANOS, Arrivals, Phase, ProbePlan, Run
from gpuyield.steps import measure_load
from gpuyield.steps.evidence import gather_chosen
from gpuyield.steps.measure_asked import Asked
from gpuyield.steps.measure_load import recorded_from, recorded_of_page
from gpuyield.steps.measure_question import Question
from gpuyield.steps.measure_service import above_v1
from gpuyield.steps.measure_watch import WATCH_PATIENCE
from gpuyield.steps.services import serving_rows
from gpuyield.steps.setting import chosen_window, read_setting

_PROMPT, _OUTPUT = "prompt_tokens", "output_tokens"


def recorded_of(question: Question, asked: Asked, *, file: Path, ledger_root: Path) -> Recorded | None:
    """What the question names as recorded; None where it names nothing.

    Raises:
        DeclarationError: It cannot be read, or tells nothing.
        SourceError: The server's page is out of reach, or the ledger is damaged.
    """
    match question.profile:
        case None:
            return None
        case measure_load.LEDGER:
            return _from_ledger(asked, file=file, ledger_root=ledger_root)
        case measure_load.SERVER:
            return _from_server(asked)
        case path:
            return recorded_from(Path(path))


def _from_server(asked: Asked) -> Recorded:
    where = above_v1(asked.where)
    answer = HttpClient(where, patience=WATCH_PATIENCE).get("/metrics")
    if answer.status != 200:
        raise SourceError(
            f"its metrics page answered {answer.status}.", where=where.base_url, fix="Name a file with --profile."
        )
    source = "the server's own counters since it started"
    return recorded_of_page(answer.body.decode("utf-8", "replace"), source=source, where=f"{where.base_url}/metrics")


def _from_ledger(asked: Asked, *, file: Path, ledger_root: Path) -> Recorded:
    """Outcomes tell each request; where there are none, what servers counted in five minutes does."""
    setting = read_setting(file, ledger_root)
    evidence = gather_chosen(setting, chosen_window(setting, window=None, begin=None, end=None))
    rows = serving_rows(evidence, setting.declaration.services).get(asked.name, [])
    demand = demand_of(rows, evidence.window)
    found = _logged(setting.ledger, asked.name, from_us=evidence.window.from_ms * 1000)
    buckets: dict[str, dict[float, float]] = {_PROMPT: defaultdict(float), _OUTPUT: defaultdict(float)}
    for row in rows:
        if row.kind in buckets:
            buckets[row.kind][row.edge_s] += row.value
    counted = {
        kind: lengths_of_buckets(sorted(of), [of[edge] for edge in sorted(of)]) if math.inf in of else None
        for kind, of in buckets.items()
    }
    logged = found.profile if found is not None else Profile()
    profile = Profile(
        peak_rps=logged.peak_rps if demand is None else demand.peak_rps,
        prompt=logged.prompt or counted[_PROMPT],
        output=logged.output or counted[_OUTPUT],
        dispersion=logged.dispersion,
    )
    if profile == Profile():
        raise DeclarationError(
            f"nothing is known of what {asked.name} gets.",
            where="--profile ledger",
            fix="Run gpuyield collect, or import a log of its requests with gpuyield outcomes import.",
        )
    return Recorded(profile=profile, source="the ledger", requests=None if found is None else found.requests)


def _logged(ledger: Ledger, service: str, *, from_us: int) -> Recorded | None:
    """Of the outcomes of a service; None of too few."""
    columns = ("service", "started_us", "input_tokens", "output_tokens")
    read = ledger.read(OUTCOMES, columns=columns, where=f"started_us >= {from_us}")
    inside = read["service"] == service
    if int(inside.sum()) < FEWEST_REQUESTS:
        return None
    at_ns = np.sort(read["started_us"][inside].astype(np.int64)) * 1000
    profile = Profile(
        prompt=lengths_of(read["input_tokens"][inside].astype(np.int64)),
        output=lengths_of(read["output_tokens"][inside].astype(np.int64)),
        dispersion=dispersion_of(at_ns),
    )
    return Recorded(profile=profile, source="the ledger", requests=len(at_ns))


class Counting(Protocol):
    """A bench that counts prompt tokens of its last run."""

    input_tokens: NANOS

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Run a probe."""
        ...


@dataclass(slots=True)
class SentLoad:
    """What the steady probes of this run sent, one list of columns a probe."""

    scheduled_ns: list[NANOS] = field(default_factory=list)
    prompt_tokens: list[NANOS] = field(default_factory=list)
    output_tokens: list[NANOS] = field(default_factory=list)

    def add(self, plan: ProbePlan, run: Run, input_tokens: NANOS) -> None:
        """Those of a probe; a burst has no steady state."""
        if plan.phase is not Phase.CEILING and len(run.records):
            self.scheduled_ns.append(run.records.scheduled_ns)
            self.prompt_tokens.append(input_tokens)
            self.output_tokens.append(run.records.output_tokens)

    def profile(self, *, rate_rps: float | None) -> Profile:
        """All probes together; bursts are the mean of theirs, weighted by how long they are in requests."""
        found = [(len(one), spread) for one in self.scheduled_ns if (spread := dispersion_of(one)) is not None]
        weight = sum(count for count, _ in found)
        return Profile(
            peak_rps=rate_rps,
            prompt=lengths_of(np.concatenate(self.prompt_tokens)),
            output=lengths_of(np.concatenate(self.output_tokens)),
            dispersion=sum(count * spread for count, spread in found) / weight if found else None,
        )


class Noting:
    """The same bench, which notes what it sent."""

    def __init__(self, bench: Any, counting: Counting, sent: SentLoad) -> None:
        self._bench = bench
        self._counting = counting
        self._sent = sent

    def run(self, plan: ProbePlan, arrivals: Arrivals) -> Run:
        """Run a probe and note it."""
        run: Run = self._bench.run(plan, arrivals)
        self._sent.add(plan, run, self._counting.input_tokens)
        return run


def compared(
    recorded: Recorded | None, sent: SentLoad | None, *, rate_rps: float | None
) -> tuple[Mapping[str, Any] | None, tuple[Gap, ...]]:
    """How far what was sent is from what was recorded, as a document has it, and what of it is not known."""
    if recorded is None:
        reason = "the load was not compared with what the service really gets: name that with --profile"
        return None, (Gap(reason=reason, where="representative"),)
    if sent is None or not sent.scheduled_ns:
        return None, (Gap(reason="no steady probe of this run tells what was sent", where="representative"),)
    ours = sent.profile(rate_rps=rate_rps)
    found = distance(ours, recorded.profile)
    told = {"prompt lengths": found.prompt, "output lengths": found.output, "bursts": found.burst_ratio}
    unknown = [name for name, value in told.items() if value is None]
    gaps = (
        (Gap(reason=f"{', '.join(unknown)} of the service or of the load are not known", where="representative"),)
        if unknown
        else ()
    )
    return representative_document(ours, recorded, found), gaps
