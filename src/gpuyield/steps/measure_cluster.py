"""The search beyond one machine, a probe at a time: the next round as manifests, and a round's records merged.

A search is a sequence: each probe follows from those before it. So each Job is one probe, and what was merged so far
says which comes next. Between two rounds nothing runs and nothing has to be kept up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from gpuyield.errors import DeclarationError, SourceError
from gpuyield.measure.judge import judge
from gpuyield.measure.manifests import RECORDS_PATH, Place, manifests
from gpuyield.measure.protocols.choices import Choices
from gpuyield.measure.search import conclude, next_probe
from gpuyield.measure.shards import MOST_SHARDS, Round, mistakes_of, run_of
from gpuyield.measure.witness import Readings, other_gpus, witness_of
from gpuyield.model.declaration import Declaration
from gpuyield.model.document import schema_name
from gpuyield.model.measure import ProbePlan, Stop
from gpuyield.report.answer import Answer, Next
from gpuyield.report.screens.measure import probe_line
from gpuyield.steps.documents import write
from gpuyield.steps.measure_answer import answer_of
from gpuyield.steps.measure_asked import Asked, read_question, with_recorded
from gpuyield.steps.measure_collected import Collected
from gpuyield.steps.measure_document import Found
from gpuyield.steps.measure_gpus import store_of
from gpuyield.steps.measure_kept import Kept
from gpuyield.steps.measure_options import check_gate
from gpuyield.steps.measure_orders import settings_of
from gpuyield.steps.measure_profile import KeptProfile
from gpuyield.steps.measure_question import Question, same_question
from gpuyield.steps.measure_round import (
    ROUND_FILE,
    check_round,
    new_round,
    read_round,
    read_shards,
    round_bytes,
    trace_name,
    with_round,
)
from gpuyield.steps.setting import wall_clock_ms
from gpuyield.units import format_duration, format_instant, parse_duration

_SHORTEST_LEAD_MS = 10_000
_LONGEST_LEAD_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """What is told of the cluster. `out` is the file of the manifests."""

    image: str | None
    namespace: str
    claim: str | None
    shards: int
    start_in: str
    requests_map: str | None
    trace_map: str | None
    token_secret: str | None
    out: Path | None


def next_round(
    question: Question, declared: Declaration, options: ClusterOptions, *, file: Path, ledger_root: Path, apply: bool
) -> Answer:
    """The next probe of a search as a Job: written, and given to the cluster with `apply`.

    Raises:
        DeclarationError: All mistakes of the question and of the options.
        SourceError: kubectl does not take it.
    """
    found = Collected()
    place = found.value(lambda: _place(question, options))
    lead_ms = found.value(lambda: _lead_ms(options.start_in))
    asked = found.value(lambda: read_question(question, declared))
    if place is None or lead_ms is None or asked is None:
        raise DeclarationError.of(found.mistakes)
    folder = ledger_root / "measure"
    profile = KeptProfile(folder, question, asked)
    asked = with_recorded(asked, question, profile.of(question, asked, file=file, ledger_root=ledger_root))
    step = next_probe(settings_of(asked), Kept(folder, asked, None).probes())
    if isinstance(step, Stop):
        raise DeclarationError("this search is decided.", where=str(folder), fix="Merge its last round again.")
    told = new_round(asked, question, step, shards=options.shards, start_at_ms=wall_clock_ms() + lead_ms)
    data = {ROUND_FILE: round_bytes(told).decode()}
    if asked.where.ca_pem:
        data["ca.pem"] = asked.where.ca_pem
    objects = manifests(told.round, place, data, lead_s=lead_ms // 1000, trace=told.trace)
    text = yaml.safe_dump_all(objects, sort_keys=False, allow_unicode=True)
    if options.out is not None:
        write(options.out, text.encode())
    if apply:
        _kubectl(text, options.namespace)
    name, round_ = told.round.name, told.round
    start = format_instant(round_.start_at_ms)
    load = f"{step.phase} at {step.rate_rps:g} requests a second, never more, on {asked.target.url}"
    headline = (
        f"{load}: {round_.shards} pods of {place.cores} cores, from {start} on, for {_length(step)}.",
        f"The Job {name} was given to the cluster." if apply else "Nothing was sent, and the cluster was not touched.",
    )
    manifest = str(options.out) if options.out is not None else "FILE"
    return Answer(
        document={
            "schema": schema_name("measure-round-announcement"),
            "round": name,
            "phase": str(step.phase),
            "rate_rps": step.rate_rps,
            "shards": round_.shards,
            "start_at": start,
            "namespace": place.namespace,
            "image": place.image,
            "manifests": objects,
            "applied": apply,
        },
        headline=headline,
        notes=(
            *filter(None, [profile.note]),
            *(() if apply or options.out is not None else ("--out FILE writes the manifests; so does -o json.",)),
        ),
        next=_commands(name, place, manifest, same_question(question), apply=apply),
    )


def merge(
    question: Question,
    declared: Declaration,
    records: Path,
    *,
    file: Path,
    gate: bool,
    ledger_root: Path,
    out: Path | None,
    say: Callable[[str], None],
) -> Answer:
    """Take a round's records as one probe, and say what comes next: another round, or the answer.

    Raises:
        DeclarationError: They belong to another question, or were merged before, or a gate has no rate to judge by.
        SourceError: A shard is missing, doubled, torn, or not its part; nothing was kept.
    """
    check_gate(question, gate=gate)
    read = read_question(question, declared)
    told = read_round(records / ROUND_FILE)
    asked, round_ = with_round(read, question, told), told.round
    arrivals = check_round(asked, round_, where=str(records))
    folder = ledger_root / "measure"
    kept = Kept(folder, asked, None)
    settings = settings_of(asked)
    before = kept.probes()
    if next_probe(settings, before) != round_.plan:
        raise DeclarationError(
            f"this round is probe {round_.plan.number}, and the search is at probe {len(before)}.",
            where=str(records),
            fix="Merge each round once, in order.",
        )
    shards = read_shards(records)
    mistakes = mistakes_of(round_, arrivals, shards, where=str(records))
    if mistakes:
        raise SourceError.of(mistakes)
    run = run_of(round_, arrivals, shards, lag_limit_s=asked.lag_limit_s)
    report = shards[0].report
    witness = witness_of(_gpu_readings(asked, declared, file.parent, round_), round_.plan, run.records)
    changed = run.changed or kept.same_service(report.served) or other_gpus([one.witness for one in before], witness)
    run = replace(run, changed=changed, witness=witness)
    probe = judge(round_.plan, run, settings.objectives)
    kept.record(round_.plan, arrivals, run.records)
    kept.keep(probe)
    say(probe_line(probe))
    step = next_probe(settings, (*before, probe))
    if not isinstance(step, Stop):
        return Answer(
            document={
                "schema": schema_name("measure-merged"),
                "round": round_.name,
                "status": str(probe.status),
                "reason": probe.reason,
                "next_rate_rps": step.rate_rps,
            },
            headline=(probe_line(probe), f"Next: {step.phase} at {step.rate_rps:g} requests a second."),
            next=(
                Next(
                    command=f"gpuyield measure {same_question(question)} --in-cluster --image IMAGE --claim CLAIM",
                    why="makes the next round",
                ),
            ),
        )
    spoken = asked.spoken
    if isinstance(spoken, Choices) and report.usage is not None:
        asked = replace(asked, spoken=replace(spoken, usage=report.usage))
    found = Found(
        asked=asked,
        served=report.served,
        settings=settings,
        measurement=conclude(settings, (*before, probe), step),
        kept=kept,
        started_at_ms=round_.start_at_ms,
    )
    answer = answer_of(found, gate=gate, ledger_root=ledger_root, out=out)
    kept.forget()
    KeptProfile(folder, question, read).forget()
    return answer


def _gpu_readings(asked: Asked, declared: Declaration, folder: Path, round_: Round) -> Readings:
    """What the declared store has of the service's GPUs during a round; nobody reads a page beside it."""
    namespace = None if asked.service is None else asked.service.selector.namespace
    store = store_of(namespace, declared, folder)
    if store is None:
        return Readings()
    lasted_ms = (round_.plan.sending_ns + round_.plan.drain_ns) // 1_000_000
    return store.between(round_.start_at_ms, round_.start_at_ms + lasted_ms)


def _place(question: Question, options: ClusterOptions) -> Place:
    found, image, claim = Collected(), options.image, options.claim
    if not image:
        found.wrong("no image is named.", "--image", "Name one that holds gpuyield.")
    if not claim:
        fix = "Name a PersistentVolumeClaim of the namespace to which all pods may write (ReadWriteMany)."
        found.wrong("no volume for the records is named.", "--claim", fix)
    if not 1 <= options.shards <= MOST_SHARDS:
        found.wrong(f"{options.shards} shards.", "--shards", f"Write a number from 1 to {MOST_SHARDS}.")
    if question.requests is not None and options.requests_map is None:
        fix = "kubectl create configmap NAME --from-file=requests.jsonl=FILE, and add --requests-map NAME."
        found.wrong("the pods do not have this file.", "--requests", fix)
    if question.trace is not None and options.trace_map is None:
        name = trace_name(question.trace)
        fix = f"kubectl create configmap NAME --from-file={name}=FILE, and add --trace-map NAME."
        found.wrong("the pods do not have this file.", "--trace", fix)
    if (question.token_file is not None or question.key) and options.token_secret is None:
        fix = "kubectl create secret generic NAME --from-file=token=FILE, and add --token-secret NAME."
        found.wrong("the pods do not have the key.", "--token-secret", fix)
    if found.mistakes or not image or not claim:
        raise DeclarationError.of(found.mistakes)
    return Place(
        image=image,
        namespace=options.namespace,
        claim=claim,
        requests_map=options.requests_map,
        trace_map=options.trace_map,
        token_secret=options.token_secret,
        cores=question.workers,
    )


def _lead_ms(text: str) -> int:
    lead_ms = parse_duration(text)
    if not _SHORTEST_LEAD_MS <= lead_ms <= _LONGEST_LEAD_MS:
        raise DeclarationError(f'"{text[:20]}" is out of range.', where="--start-in", fix="Write 3m, or up to 24h.")
    return lead_ms


def _length(plan: ProbePlan) -> str:
    return format_duration(max(1, plan.sending_ns // 10**9) * 1000)


def _kubectl(text: str, namespace: str) -> None:
    try:
        done = subprocess.run(
            ["kubectl", "apply", "--namespace", namespace, "-f", "-"],
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        raise SourceError(
            f"kubectl cannot be used: {err}.", where="--apply", fix="Leave --apply out, and apply the file yourself."
        ) from err
    if done.returncode:
        said = " ".join(done.stderr.split())[:300]
        raise SourceError(f"kubectl refused: {said}", where="--apply", fix="May you create Jobs in this namespace?")


def _commands(name: str, place: Place, manifest: str, again: str, *, apply: bool) -> tuple[Next, ...]:
    told = f"--namespace {place.namespace}"
    commands = [] if apply else [Next(command=f"kubectl apply {told} -f {manifest}", why="sends this load")]
    return (
        *commands,
        Next(command=f"kubectl wait {told} --for=condition=complete job/{name} --timeout=24h", why="until it was sent"),
        Next(command=f"kubectl cp {told} {name}-files:{RECORDS_PATH}/{name} {name}", why="fetches the records"),
        Next(command=f"gpuyield measure {again} --merge {name}", why="makes one probe of them"),
        Next(command=f"kubectl delete {told} job/{name}", why="stops it at once"),
    )
