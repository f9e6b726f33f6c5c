"""The answer of `gpuyield account`: the waterfall, its rows by key, and who holds idle GPUs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from gpuyield.model.evidence import Gap
from gpuyield.model.waterfall import ALLOCATED, BUSY, LOST, UNJUDGED, Account, GpuClass, Holder
from gpuyield.report.answer import Answer, Next
from gpuyield.report.documents import account_document
from gpuyield.report.sentences import (
    account_headline,
    count,
    gpu_hours,
    has_outcomes,
    idle_sentence,
    key_word,
    window_words,
)
from gpuyield.report.tables import Cell, Column, Kind, Table, format_local, format_span
from gpuyield.report.waterfall import waterfall_table
from gpuyield.units import parse_instant


def account_answer(account: Account, *, zone: tzinfo, judged: bool | None = None) -> Answer:
    """The waterfall without a key, the rows where one was asked for; `judged`: whether outcomes were imported."""
    if judged is None:
        judged = has_outcomes(account.waterfall)
    headline = [account_headline(account, judged=judged)]
    idle = idle_sentence(account)
    if idle:
        headline.append(idle)
    tables = [rows_table(account, judged=judged, zone=zone)] if account.by else []
    tables.append(account_waterfall(account, zone=zone))
    if account.holders:
        tables.append(holders_table(account, zone=zone))
    return Answer(
        document=account_document(account),
        headline=tuple(headline),
        tables=tuple(tables),
        csv=leaves_table(account),
        notes=gap_notes(account.gaps, zone=zone),
        next=_next(account, judged=judged),
        zone=zone,
    )


def account_waterfall(account: Account, *, zone: tzinfo) -> Table:
    """The waterfall with the holders of idle GPUs beside their class."""
    remarks = {}
    now = [one for one in account.holders if one.gpus_now]
    if now:
        remarks["idle_held"] = ", ".join(_holder_words(one, zone) for one in now[:3])
    return waterfall_table(account.waterfall, title=f"GPU time, {window_words(account.window, zone)}", remarks=remarks)


def _holder_words(holder: Holder, zone: tzinfo) -> str:
    gpus = count(holder.gpus_now, "GPU")
    if holder.since_ms is None:
        return f"{holder.namespace}/{holder.workload} {gpus}"
    since = "before " if holder.open_start else ""
    return f"{holder.namespace}/{holder.workload} {gpus} since {since}{format_local(holder.since_ms, zone)}"


def rows_table(account: Account, *, judged: bool, zone: tzinfo) -> Table:
    """One row per key, the most allocated GPU time first; without outcomes what they would say is not known."""
    keyed = sorted(
        account.rows, key=lambda row: (-row.waterfall.gpu_ms(*ALLOCATED), [str(part) for part in row.key.values()])
    )
    if account.by == ("hour",):
        keyed = sorted(account.rows, key=lambda row: str(row.key["hour"]))
    rows: list[tuple[Cell, ...]] = []
    for row in keyed:
        fall = row.waterfall
        if not fall.gpu_ms(*ALLOCATED) and account.by != ("hour",):
            # Free and unavailable time is in the waterfall, and in the CSV.
            continue
        rows.append(
            (
                *(_key_cell(name, row.key.get(name)) for name in account.by),
                fall.gpu_ms(*ALLOCATED),
                fall.gpu_ms(GpuClass.STARTING),
                fall.gpu_ms(GpuClass.IDLE_HELD),
                fall.gpu_ms(GpuClass.UNDERUSED),
                fall.gpu_ms(GpuClass.UNOBSERVED),
                fall.gpu_ms(*BUSY),
                fall.gpu_ms(GpuClass.PRODUCTIVE) if judged else None,
                fall.gpu_ms(*LOST) if judged else None,
                fall.gpu_ms(*UNJUDGED),
            )
        )
    return Table(
        title=f"GPU-hours by {' and '.join(account.by)}, {window_words(account.window, zone)}",
        columns=(
            *(Column(name, name, Kind.INSTANT if name == "hour" else Kind.TEXT) for name in account.by),
            Column("allocated_gpu_ms", "allocated", Kind.GPU_TIME),
            Column("starting_gpu_ms", "starting", Kind.GPU_TIME),
            Column("idle_held_gpu_ms", "idle, held", Kind.GPU_TIME),
            Column("underused_gpu_ms", "underused", Kind.GPU_TIME),
            Column("unobserved_gpu_ms", "unobserved", Kind.GPU_TIME),
            Column("busy_gpu_ms", "busy", Kind.GPU_TIME),
            Column("productive_gpu_ms", "productive", Kind.GPU_TIME),
            Column("lost_gpu_ms", "lost", Kind.GPU_TIME),
            Column("unjudged_gpu_ms", "unjudged", Kind.GPU_TIME),
        ),
        rows=tuple(rows),
        zone=zone,
    )


def _key_cell(name: str, value: str | None) -> Cell:
    """A part of a row's key; an hour is read as its start in the reader's zone."""
    return parse_instant(value) if name == "hour" and value is not None else key_word(name, value)


def holders_table(account: Account, *, zone: tzinfo) -> Table:
    """Who holds idle GPUs, and since when."""
    return Table(
        title="Whole GPUs held idle",
        columns=(
            Column("workload", "workload"),
            Column("team", "team"),
            Column("flavor", "flavor"),
            Column("gpus_now", "GPUs idle now", Kind.COUNT),
            Column("gpus", "most at once", Kind.COUNT),
            Column("since", "since"),
            Column("longest_ms", "longest span", Kind.DURATION),
            Column("idle_gpu_ms", "GPU-hours idle", Kind.GPU_TIME),
        ),
        rows=tuple(
            (
                f"{one.namespace}/{one.workload}",
                one.team,
                one.flavor,
                one.gpus_now,
                one.gpus,
                _since(one, zone),
                one.longest.length_ms,
                one.idle_gpu_ms,
            )
            for one in account.holders
        ),
        zone=zone,
    )


def _since(holder: Holder, zone: tzinfo) -> str | None:
    if holder.since_ms is None:
        return None
    return ("before " if holder.open_start else "") + format_local(holder.since_ms, zone)


def leaves_table(account: Account) -> Table:
    """Every leaf of every row, exact: what goes into a spreadsheet."""
    rows: list[tuple[Cell, ...]] = []
    keyed = [(row.key, row.waterfall) for row in account.rows] or [({}, account.waterfall)]
    for key, fall in keyed:
        for leaf in fall.leaves:
            names = tuple(key.get(name) for name in account.by)
            money = leaf.money
            rows.append(
                (
                    *names,
                    str(leaf.gpu_class),
                    leaf.gpu_ms,
                    leaf.lo,
                    leaf.hi,
                    str(leaf.evidence),
                    None if money is None else money.amount,
                    None if money is None else money.currency,
                )
            )
    return Table(
        title="",
        columns=(
            *(Column(name, name) for name in account.by),
            Column("class", "class"),
            Column("gpu_ms", "GPU-ms", Kind.GPU_TIME),
            Column("lo", "lo", Kind.GPU_TIME),
            Column("hi", "hi", Kind.GPU_TIME),
            Column("evidence", "evidence"),
            Column("money", "money", Kind.MONEY),
            Column("currency", "currency"),
        ),
        rows=tuple(rows),
    )


def gap_notes(gaps: tuple[Gap, ...], *, zone: tzinfo, most: int = 6) -> tuple[str, ...]:
    """The gaps as lines, the largest first after what the whole window lacks; beyond `most` they are counted."""
    ordered = sorted(gaps, key=lambda gap: (gap.where != "window", -(gap.gpu_ms or 0)))
    notes = [gap_words(gap, zone=zone) for gap in ordered[:most]]
    if len(ordered) > most:
        notes.append(f"{count(len(ordered) - most, 'more gap')}: -o json lists all.")
    return tuple(f"gap: {note}" for note in notes)


def zone_of_gaps(gaps: Iterable[Gap], zone: tzinfo) -> tzinfo | None:
    """The zone in which gaps are told; None where none of them has a time."""
    return zone if any(gap.window is not None for gap in gaps) else None


def gap_words(gap: Gap, *, zone: tzinfo) -> str:
    """A gap as a line: where, why, when, how much."""
    text = f"{gap.where}: {gap.reason}" if gap.where else gap.reason
    if gap.window is not None:
        begin, end = format_local(gap.window.from_ms, zone), format_local(gap.window.to_ms, zone)
        text += f" ({begin} to {end}, {format_span(gap.window.length_ms)})" if gap.window.length_ms else f" ({begin})"
    if gap.gpu_ms:
        text += f", {gpu_hours(gap.gpu_ms)}"
    return text


def _next(account: Account, *, judged: bool) -> tuple[Next, ...]:
    steps = [Next(command="gpuyield queue", why="why work waited")]
    if not judged:
        steps.append(Next(command="gpuyield outcomes import --help", why="say what came of the work"))
    if not account.by:
        steps.append(Next(command="gpuyield account --by team", why="the same by team"))
    return tuple(steps)
