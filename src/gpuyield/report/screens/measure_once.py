"""The answer of a run that is no search: what would be sent, what happened, and that nothing is certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any  # Documents are JSON.

from gpuyield.model.document import schema_name
from gpuyield.report.answer import Answer, Next
from gpuyield.report.tables import Column, Kind, Table
from gpuyield.units import format_duration

NOT_CERTIFIED = {
    "replay": "A replay is one run of one load: it certifies nothing.",
    "closed_loop": (
        "A closed loop waits for answers before it sends more, so that a slow service gets less load: it is a "
        "diagnostic and certifies nothing."
    ),
}


def announced_once(about: Mapping[str, Any], *, command: str) -> Answer:
    """The answer without --apply."""
    model = f", model {about['model']}" if about["model"] else ""
    if about["mode"] == "closed_loop":
        what = f"{about['at_once']:,} requests at once, {about['requests']:,} in all."
    else:
        length = format_duration(max(1, round(about["seconds"])) * 1000)
        what = (
            f"{about['requests']:,} recorded requests in {length}, {about['scale']:g} times as fast as recorded: "
            f"{about['mean_rps']:.4g} a second, {about['busiest_second']:,} in the busiest one."
        )
    return Answer(
        document={"schema": schema_name("measure-once-announcement"), **about, "applied": False},
        headline=(
            "Nothing was sent.",
            f"Load for {about['url']}{model}: {what}",
            f"Requests: {about['requests_from']}.",
            NOT_CERTIFIED[about["mode"]],
        ),
        next=(Next(command=command, why="sends this load"),),
    )


def once_answer(document: Mapping[str, Any], *, exit_code: int, notes: Sequence[str], next_: Sequence[Next]) -> Answer:
    """The answer from the document."""
    sender = document["sender"]
    answered = "" if document["answered_rps"] is None else f", {document['answered_rps']:.4g} a second"
    completed, requests, failed = (document[key] for key in ("completed", "requests", "failed"))
    lines = [
        NOT_CERTIFIED[document["mode"]],
        f"{completed:,} of {requests:,} requests were answered rightly{answered}; {failed:,} failed.",
    ]
    if document["mode"] == "replay" and sender["late_p99_s"] is not None:
        order = "in the order of the trace"
        if sender["overtaken"]:
            most = _ms(sender["overtaken_most_s"])
            order += f" but for {sender['overtaken']:,} overtaken by others due up to {most} later (new connections)"
        lines.append(
            f"{sender['sent']:,} were sent {order}, {_ms(sender['late_p50_s'])} late in the median, "
            f"{_ms(sender['late_p99_s'])} at the 99th percentile, {_ms(sender['late_max_s'])} at most."
        )
    lines += [
        f"{name} was kept by {kept * 100:.2f} % of the requests."
        for name, kept in document["kept"].items()
        if kept is not None
    ]
    remarks = [one for one in (sender["why"], sender["changed"]) if one]
    problems = [f"{count:,} times: {problem}" for problem, count in list(document["problems"].items())[:5]]
    return Answer(
        document=document,
        headline=tuple(lines),
        tables=(_latencies(document),),
        notes=(*notes, *remarks, *problems),
        next=tuple(next_),
        exit_code=exit_code,
    )


def _latencies(document: Mapping[str, Any]) -> Table:
    names = ("p50", "p90", "p95", "p99")
    columns = (Column("metric", "metric"), *(Column(f"{name}_ms", f"{name} ms", Kind.NUMBER) for name in names))
    rows = tuple(
        (metric, *(float(f"{found[name] * 1000:.4g}") for name in names))
        for metric in ("ttft", "tpot", "itl", "e2e")
        if (found := document[f"{metric}_s"]) is not None
    )
    since = "from sending" if document["mode"] == "closed_loop" else "from the scheduled time"
    return Table(title=f"Latencies, {since}", columns=columns, rows=rows)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms"
