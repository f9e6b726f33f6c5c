"""The highest rate that a service really sustains: found with load that is shown first, and sent only with --apply."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from gpuyield.errors import SourceError
from gpuyield.measure.rules import RULES, expected_s, judged_s
from gpuyield.measure.search import search
from gpuyield.measure.sender.attained import Attained
from gpuyield.measure.sender.bench import Flight, LiveBench
from gpuyield.measure.sender.ceiling import self_test
from gpuyield.model.declaration import Objective
from gpuyield.model.measure import Phase, Probe
from gpuyield.report.answer import Answer
from gpuyield.report.screens.measure import Announcement, announced_answer, announcement, probe_line
from gpuyield.steps.measure_answer import answer_of
from gpuyield.steps.measure_asked import Asked, read_question, with_recorded
from gpuyield.steps.measure_document import Found
from gpuyield.steps.measure_gpus import GpuWatch, gpus_of
from gpuyield.steps.measure_kept import Kept
from gpuyield.steps.measure_load import SERVER
from gpuyield.steps.measure_options import check_gate
from gpuyield.steps.measure_orders import orders_of, settings_of
from gpuyield.steps.measure_profile import KeptProfile, recorded_of
from gpuyield.steps.measure_question import Question, same_question
from gpuyield.steps.measure_service import first_answer, looker
from gpuyield.steps.measure_watch import watched
from gpuyield.steps.setting import read_declaration, wall_clock_ms
from gpuyield.units import format_duration

Say = Callable[[str], None]


def measure(
    question: Question, *, file: Path, ledger_root: Path, apply: bool, gate: bool, out: Path | None, say: Say, tell: Say
) -> Answer:
    """The answer of `gpuyield measure`; without `apply` it says what it would send, and sends nothing."""
    check_gate(question, gate=gate)
    declared = read_declaration(file, required=question.service is not None)
    asked = read_question(question, declared)
    folder = ledger_root / "measure"
    profile = KeptProfile(folder, question, asked)
    if apply:
        asked = with_recorded(asked, question, profile.of(question, asked, file=file, ledger_root=ledger_root))
        if profile.note:
            say(profile.note)
    elif question.profile != SERVER:
        asked = with_recorded(asked, question, recorded_of(question, asked, file=file, ledger_root=ledger_root))
    if not apply:
        ends = ["--gate"] if gate else []
        ends += ["--out", shlex.quote(str(out))] if out is not None else []
        command = " ".join(["gpuyield measure", same_question(question), *ends, "--apply"])
        return announced_answer(announce(asked, e2e_s=1.0), command=command)
    namespace = None if asked.service is None else asked.service.selector.namespace
    gpus = gpus_of(asked.gpus, namespace, declared, file.parent)
    found = find(asked, folder=folder, gpus=gpus, say=say, tell=tell)
    answer = answer_of(found, gate=gate, ledger_root=ledger_root, out=out)
    # Of whatever end: invalid probes that were kept would end the next search before it begins.
    found.kept.forget()
    profile.forget()
    return answer


def find(asked: Asked, *, folder: Path, say: Say, tell: Say, gpus: GpuWatch | None = None) -> Found:
    """Send the load, until the search is decided.

    Raises:
        SourceError: The service is out of reach, or an abort condition holds.
        KeyboardInterrupt: Everything was stopped; the probes so far are kept.
    """
    for line in announcement(announce(asked, e2e_s=1.0)):
        say(line)
    started_at_ms = wall_clock_ms()
    look = looker(asked)
    tell("asking the service")
    served = look()
    if served.models and asked.model and asked.model not in served.models:
        raise SourceError(
            f'the service knows no model "{asked.model[:60]}".',
            where=asked.target.url,
            fix=f"Write --model {served.models[0]}.",
        )
    first = first_answer(asked)
    asked = replace(asked, spoken=first.spoken)
    expected = announce(asked, e2e_s=first.e2e_s)
    length = format_duration(max(1, round(expected.expected_s)) * 1000)
    say(f"A first request took {first.e2e_s:.3f} s: about {length} in all. Ctrl-C stops at once.")
    if asked.judge is not None:
        asked.judge.tell = tell
        say(asked.judge.tried(asked.lines[0], expected=expected.judge))
    tell("testing the sender itself")
    cost = self_test()
    kept = Kept(folder, asked, served)
    before = kept.probes()
    if before:
        say(f"Going on after {len(before)} probes of a run that was stopped.")

    attained = Attained(asked.objectives)

    def keep(probe: Probe) -> None:
        kept.keep(probe)
        say(probe_line(probe))

    orders = replace(
        orders_of(asked, cost=cost, e2e_s=first.e2e_s),
        look=look,
        tell=lambda flight: tell(_progress(flight, attained.shares(flight.plan.number, flight.told))),
    )
    settings = settings_of(asked)
    try:
        with LiveBench(orders) as bench:
            measurement = search(
                kept.recording(watched(bench, asked, gpus, before)),
                asked.schedule.arrivals,
                settings,
                kept=before,
                keep=keep,
            )
    except KeyboardInterrupt as err:
        raise KeyboardInterrupt("Nothing is sent any more. The same command goes on after the last probe.") from err
    return Found(
        asked=asked,
        served=served,
        settings=settings,
        measurement=measurement,
        kept=kept,
        started_at_ms=started_at_ms,
    )


def announce(asked: Asked, *, e2e_s: float) -> Announcement:
    """What would be sent, for a service whose responses take so long."""
    return Announcement(
        url=asked.target.url,
        model=asked.model,
        tls=asked.target.tls,
        objectives=[_objective_words(one) for one in asked.objectives],
        level=asked.level,
        max_rps=asked.max_rps,
        arrivals=asked.schedule.name,
        requests=asked.requests_words,
        expected_s=expected_s(RULES[asked.level], asked.objectives, e2e_s),
        e2e_s=e2e_s,
        max_duration_s=asked.max_duration_s,
        judge=None if asked.judge is None else asked.judge.announced(_judged(asked, e2e_s)),
    )


def _judged(asked: Asked, e2e_s: float) -> float:
    """How many answers are judged at most, when all is sent at the highest rate."""
    return asked.max_rps * judged_s(RULES[asked.level], asked.objectives, e2e_s)


def _objective_words(one: Objective) -> str:
    share = f"{(one.share * 100).normalize():f} %"
    if one.at_most_us is not None:
        return f"{one.name} within {one.at_most_us / 1000:g} ms for {share}"
    if one.score_at_least is not None:
        return f"{one.name} at least {one.score_at_least} for {share}"
    return f"{one.name} for {share}"


def _progress(flight: Flight, kept: Mapping[str, float]) -> str:
    """Rate, answers, what they kept so far, requests in flight, and the time left; bursts are to be missed."""
    failed = f", {flight.failed} failed" if flight.failed else ""
    shares = [f", {name} kept by {share * 100:.1f} %" for name, share in kept.items()]
    left = f"{format_duration(round(flight.left_s) * 1000)} left" if flight.left_s >= 0.5 else "waiting for the last"
    return (
        f"{flight.plan.phase} at {flight.plan.rate_rps:g} requests/s: {flight.done} of {flight.sent} answered{failed}"
        f"{'' if flight.plan.phase is Phase.CEILING else ''.join(shares)}, {flight.in_flight} in flight, {left}"
    )
