"""Make a scenario: the whole truth about a cluster from a seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuyield.demo.activity import UNIT, pod_activity
from gpuyield.demo.cluster import BatchJob, Exporter, Node, Pod, Scenario, Scrapes, Silence, Steps
from gpuyield.demo.placement import Placed, free_spans, place
from gpuyield.demo.results import judge_jobs
from gpuyield.demo.story import Dice, JobFacts, make_story
from gpuyield.units import DAY_MS, HOUR_MS, MINUTE_MS, Window

_FLAVORS = {"h100": ("NVIDIA-H100-80GB-HBM3", 81_559, 8), "a100": ("NVIDIA-A100-SXM4-40GB", 40_960, 4)}


def make_scenario(*, seed: int = 7, gpus: int = 32, days: int = 14, end_ms: int, grid: bool = True) -> Scenario:
    """A cluster of `gpus` over the `days` before `end_ms` (taken to the minute below).

    With `grid` every change falls on a scrape, every 60 s. Without it starts and ends are continuous, scrapes
    jitter by 2 s and 2 % of them are lost, the interval changes once from 60 to 30 s, and Prometheus is restarted.
    """
    dice = Dice(seed, MINUTE_MS if grid else 1)
    to_ms = end_ms - end_ms % MINUTE_MS
    window = Window(to_ms - days * DAY_MS, to_ms)
    nodes = _with_closures(_nodes(gpus, dice), dice, window)
    widest: dict[str, int] = {}
    for node in nodes:
        widest[node.flavor] = max(widest.get(node.flavor, 0), len(node.cards))
    story = make_story(dice, window, gpus, widest)
    placed = place(story.asks, nodes, dice, window.to_ms)
    pods = tuple(one.pod for one in placed if one.pod.deleted_ms is None or one.pod.deleted_ms > window.from_ms)
    jobs = _jobs(placed)
    outcomes, verdicts = judge_jobs(jobs, pods, dice)
    return Scenario(
        seed=seed,
        window=window,
        grid=grid,
        nodes=nodes,
        pods=(*pods, *_exporter_pods(nodes, window, dice)),
        jobs=jobs,
        services=story.services,
        outcomes=outcomes,
        verdicts=verdicts,
        activity=_activity(placed, nodes, window, dice),
        silences=_silences(nodes, pods, dice, window, grid=grid),
        scrapes=_scrapes(window, dice, grid=grid),
    )


def _nodes(gpus: int, dice: Dice) -> tuple[Node, ...]:
    """Three quarters H100 in nodes of 8, the rest A100 in nodes of 4; a small cluster is all H100."""
    small = gpus // 4 if gpus >= 16 else 0
    made: list[Node] = []
    for flavor, count in (("h100", gpus - small), ("a100", small)):
        product, memory_mib, size = _FLAVORS[flavor]
        for first in range(0, count, size):
            number = len(made)
            name = f"gpu-{number:02d}"
            die = dice.of(f"cards/{name}")
            cards = tuple(_uuid(die.getrandbits(128)) for _ in range(min(size, count - first)))
            made.append(Node(name=name, flavor=flavor, product=product, memory_mib=memory_mib, cards=cards))
    return tuple(made)


def _uuid(bits: int) -> str:
    digits = f"{bits:032x}"
    return "-".join(("GPU", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _with_closures(nodes: Sequence[Node], dice: Dice, window: Window) -> tuple[Node, ...]:
    """One node is cordoned for a working day, another loses its kubelet for some hours."""
    cordoned = _span_at(window, dice, "cordon", 0.36, 8 * HOUR_MS, 10 * HOUR_MS)
    lost = _span_at(window, dice, "not-ready", 0.58, 2 * HOUR_MS, 4 * HOUR_MS)
    at_cordon, at_lost = min(1, len(nodes) - 1), len(nodes) - 1
    return tuple(
        replace(
            node,
            cordoned=(cordoned,) if number == at_cordon else (),
            not_ready=(lost,) if number == at_lost else (),
        )
        for number, node in enumerate(nodes)
    )


def _span_at(window: Window, dice: Dice, name: str, share: float, low_ms: int, high_ms: int) -> Window:
    die = dice.of(name)
    from_ms = dice.on_tick(window.from_ms + int(window.length_ms * share)) + dice.span(die, 0, HOUR_MS)
    # Nothing may outgrow a short scenario.
    length_ms = min(dice.span(die, low_ms, high_ms), dice.on_tick(window.length_ms // 12))
    return Window(from_ms, from_ms + length_ms)


def _exporter_pods(nodes: Sequence[Node], window: Window, dice: Dice) -> tuple[Pod, ...]:
    """The exporter's own pods, which hold no GPU and are never to be charged."""
    return tuple(
        Pod(
            namespace="monitoring",
            name=f"dcgm-exporter-{number:05d}",
            uid=f"{number:08x}-0000-4000-8000-000000000000",
            container="exporter",
            labels={"app": "dcgm-exporter"},
            owner_kind="DaemonSet",
            owner="dcgm-exporter",
            node=node.name,
            created_ms=window.from_ms - 10 * DAY_MS,
            scheduled_ms=window.from_ms - 10 * DAY_MS,
            running_ms=window.from_ms - 10 * DAY_MS,
        )
        for number, node in enumerate(nodes)
    )


def _activity(placed: Iterable[Placed], nodes: Sequence[Node], window: Window, dice: Dice) -> dict[str, Steps]:
    steps: dict[str, list[tuple[int, float]]] = {card: [] for node in nodes for card in node.cards}
    for one in placed:
        for card, made in pod_activity(one.pod, one.ask.profile, dice, window.to_ms).items():
            steps[card] += made
    card, bypass = _bypass([one.pod for one in placed], nodes, window, dice)
    if card:
        steps[card] += bypass
    return {card: tuple(sorted(made, key=lambda step: step[0])) for card, made in steps.items()}


def _bypass(
    pods: Sequence[Pod], nodes: Sequence[Node], window: Window, dice: Dice
) -> tuple[str, list[tuple[int, float]]]:
    """Somebody logs on to a node and uses a free card behind the scheduler's back for an hour or so."""
    earliest = dice.on_tick(window.from_ms + window.length_ms // 2)
    for node in nodes[1:] or nodes:
        closed = (*node.cordoned, *node.not_ready)
        for card, spans in free_spans(node, pods, window).items():
            for span in spans:
                low = max(span.from_ms, earliest) + 15 * MINUTE_MS
                used = Window(low, max(low, min(span.to_ms - 15 * MINUTE_MS, low + 90 * MINUTE_MS)))
                if used.length_ms >= 30 * MINUTE_MS and not any(used.cut(one) for one in closed):
                    return card, [(used.from_ms, 17 / UNIT), (used.to_ms, 0.0)]
    return "", []


def _silences(
    nodes: Sequence[Node], pods: Sequence[Pod], dice: Dice, window: Window, *, grid: bool
) -> tuple[Silence, ...]:
    """DCGM fails for hours under the long training, it dies with a kubelet, and Prometheus is restarted once."""
    failed = _span_at(window, dice, "dcgm", 0.2, 5 * HOUR_MS, 7 * HOUR_MS)
    under = next((pod.node for pod in pods if pod.namespace == "vision" and pod.owner_kind == "Job" and pod.node), None)
    spans = [Silence(exporter=Exporter.DCGM, node=under or nodes[0].name, window=failed)]
    spans += [Silence(exporter=Exporter.DCGM, node=node.name, window=lost) for node in nodes for lost in node.not_ready]
    if not grid:
        restart = _span_at(window, dice, "restart", 0.7, 11 * MINUTE_MS, 14 * MINUTE_MS)
        spans.append(Silence(exporter=None, node=None, window=restart))
    return tuple(spans)


def _scrapes(window: Window, dice: Dice, *, grid: bool) -> Scrapes:
    if grid:
        return Scrapes()
    changed = window.from_ms + int(window.length_ms * 0.62)
    return Scrapes(later_interval_ms=30_000, later_from_ms=changed, jitter_ms=2_000, lost_share=0.02)


def _jobs(placed: Sequence[Placed]) -> tuple[BatchJob, ...]:
    by_job: dict[tuple[str, str], list[Placed]] = {}
    for one in placed:
        if one.ask.job is not None:
            by_job.setdefault((one.ask.namespace, one.ask.job.name), []).append(one)
    return tuple(_job(group) for _, group in sorted(by_job.items()))


def _job(group: Sequence[Placed]) -> BatchJob:
    first = group[0]
    facts = first.ask.job or JobFacts(
        name="", family="", team="", cron=None, duration_ms=0, created_ms=0, deadline_ms=None
    )
    done = [one.pod.ended_ms for one in group if one.pod.end_phase == "Succeeded"]
    return BatchJob(
        namespace=first.ask.namespace,
        name=facts.name,
        family=facts.family,
        team=facts.team,
        cron=facts.cron,
        gpus=first.ask.gpus,
        flavor=first.ask.flavor,
        duration_ms=facts.duration_ms,
        created_ms=facts.created_ms,
        started_ms=facts.created_ms,
        completed_ms=done[-1] if done else None,
        failed_ms=group[-1].pod.ended_ms
        if group[-1].pod.end_phase == "Failed" and group[-1].ask.then is None
        else None,
        failed_pods=sum(one.pod.end_phase == "Failed" for one in group),
        deadline_ms=facts.deadline_ms,
        uids=tuple(one.pod.uid for one in group),
    )
