"""What a service really gets, from the ledger, its own metrics page or a file, and how far what was sent is from it."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path

import numpy as np

from gpuyield.account.served import demand_of
from gpuyield.collect.http import HttpClient
from gpuyield.errors import DeclarationError, SourceError
from gpuyield.ledger import Ledger
from gpuyield.ledger.tables import OUTCOMES
from gpuyield.ledger.whole import write_whole
from gpuyield.measure.recorded import Recorded, recorded_document, recorded_of_document
from gpuyield.measure.representative import (
    FEWEST_REQUESTS,
    Profile,
    dispersion_of,
    lengths_of,
    lengths_of_buckets,
)
from gpuyield.steps import measure_load
from gpuyield.steps.evidence import gather_chosen
from gpuyield.steps.measure_asked import Asked
from gpuyield.steps.measure_kept import question_key
from gpuyield.steps.measure_load import recorded_from, recorded_of_page
from gpuyield.steps.measure_pages import WATCH_PATIENCE
from gpuyield.steps.measure_question import Question
from gpuyield.steps.measure_service import above_v1
from gpuyield.steps.services import serving_rows
from gpuyield.steps.setting import chosen_window, read_setting
from gpuyield.units import format_instant

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


class KeptProfile:
    """What a search found recorded when it began.

    Counters and ledgers move on, and a search that was stopped, or goes on in rounds, must send the same load.
    """

    def __init__(self, folder: Path, question: Question, asked: Asked) -> None:
        self._path = folder / f"profile-{question_key(asked, None)}.json"
        self.note = ""
        """What is to be said of a profile that was kept."""
        self._moves = question.profile in (measure_load.LEDGER, measure_load.SERVER)

    def of(self, question: Question, asked: Asked, *, file: Path, ledger_root: Path) -> Recorded | None:
        """What is kept, else what is recorded now, which is then kept.

        Raises:
            DeclarationError: It cannot be read, or tells nothing.
            SourceError: The server's page is out of reach, or the ledger is damaged.
        """
        if not self._moves:
            return recorded_of(question, asked, file=file, ledger_root=ledger_root)
        try:
            found = recorded_of_document(json.loads(self._path.read_bytes()))
            at = format_instant(int(self._path.stat().st_mtime) * 1000)
            self.note = (
                f"The load follows what {found.source} told at {at}, when this search began. Anew: remove {self._path}"
            )
            return found
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as err:
            raise SourceError(
                "it is no profile.", where=str(self._path), fix="Remove it: it is then made anew."
            ) from err
        fresh = recorded_of(question, asked, file=file, ledger_root=ledger_root)
        if fresh is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._path, json.dumps(recorded_document(fresh)).encode())
        return fresh

    def forget(self) -> None:
        """The search has ended."""
        self._path.unlink(missing_ok=True)


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
