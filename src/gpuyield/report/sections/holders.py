"""Who holds whole GPUs that do nothing, and since when."""

from __future__ import annotations

from gpuyield.model.waterfall import GpuClass
from gpuyield.report.facts import Facts
from gpuyield.report.page import Section
from gpuyield.report.screens.account import holders_table
from gpuyield.report.sentences import count, gpu_hours

_HOW = (
    "A whole, unshared device whose activity stays below the threshold, without a break or a gap, for at least the "
    "declared time counts as idle from its first such sample. Only these can be reclaimed: low activity of running "
    "work cannot."
)


def holders_section(facts: Facts) -> Section | None:
    """The holders of idle GPUs."""
    account = facts.account
    if account is None or not account.waterfall.capacity_gpu_ms:
        return None
    idle = account.waterfall.gpu_ms(GpuClass.IDLE_HELD)
    if not account.holders:
        return Section(
            id="idle", kicker="Idle GPUs", title="No whole GPU was held idle for long", lead=(), tables=(), how=_HOW
        )
    now = sum(one.gpus_now for one in account.holders)
    workloads = count(len(account.holders), "workload")
    if now:
        title = f"{count(now, 'GPU')} sit idle now; {workloads} held {gpu_hours(idle)} idle in this window"
    else:
        title = f"{workloads} held {gpu_hours(idle)} idle in this window, none at its end"
    table = holders_table(account, zone=facts.zone)
    return Section(id="idle", kicker="Idle GPUs", title=title, tables=(table,), open_tables=1, how=_HOW)
