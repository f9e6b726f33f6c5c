"""Witnesses of a probe: what servers' and exporters' pages say, and what it amounts to beside the client's view."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from doubles.model_server import RunningDouble, running_double
from gpuyield.collect.endpoint import Endpoint, endpoint
from gpuyield.collect.gpu_page import read_gpu_page
from gpuyield.collect.http import HttpClient
from gpuyield.demo.engine import EngineSettings
from gpuyield.measure.engines import gpu_reading_of_server, server_reading
from gpuyield.measure.protocols.chat import Chat
from gpuyield.measure.sender.bench import LiveBench, Orders
from gpuyield.measure.sender.target import parse_target
from gpuyield.measure.witness import Readings, other_gpus, witness_of
from gpuyield.measure.witness_document import witness_document
from gpuyield.model.measure import NEVER_NS, Phase, ProbePlan, Records, ResponseStatus
from gpuyield.model.witness import GpuReading, Histogram, ServerReading, Witness
from gpuyield.steps.measure_gpus import ExporterPage
from gpuyield.steps.measure_pages import WATCH_PATIENCE
from gpuyield.steps.measure_watch import Watched
from measure.sending import every, plan_for, prompts

_SECOND = 1_000_000_000


@pytest.fixture
def recorded(shared_data: Path) -> Path:
    return shared_data / "telemetry"


@pytest.mark.parametrize(
    ("page", "running", "waiting", "kv_used", "finished"),
    [
        ("vllm-0.6-v0-engine-busy", 3, 2, 0.0, 6193 + 28 + 5),
        ("vllm-2026-waiting-by-reason", 3, 2, None, None),
        ("vllm-0.11-kv-gauge-per-pid", None, None, 0.6530455880475035, None),
        ("sglang-0.4", 0, 0, 0.0, None),
        ("sglang-0.5.1-idle-gauges", 1, None, 0.0, None),
        ("tgi-tgis-2024-partial", 0, 0, None, None),
        ("trtllm-1.1.0rc5-dynamo", None, None, None, 155),
    ],
)
def test_a_recorded_page_says_how_many_requests_run_and_wait(
    recorded: Path, page: str, running: float | None, waiting: float | None, kv_used: float | None, finished: int | None
) -> None:
    reading = server_reading((recorded / f"{page}.prom").read_text(), 0)

    assert reading is not None
    assert (reading.running, reading.waiting, reading.kv_used, reading.finished) == (
        running,
        waiting,
        kv_used,
        finished,
    )


def test_ranks_add_up_and_processes_of_one_engine_do_not() -> None:
    page = "\n".join(
        [
            *(
                f'sglang:num_queue_reqs{{dp_rank="{rank}",tp_rank="{tp}"}} {rank + 1}'
                for rank in (0, 1)
                for tp in (0, 1)
            ),
            'sglang:token_usage{dp_rank="0"} 0.9',
            'sglang:token_usage{dp_rank="1"} 0.1',
        ]
    )

    reading = server_reading(page, 0)

    assert reading is not None
    assert (reading.waiting, reading.kv_used) == (3, 0.9)


def test_an_impossible_cache_use_is_not_known(recorded: Path) -> None:
    assert server_reading((recorded / "preview-vllm-ascend-negative-kv.prom").read_text(), 0) is None


def test_tritons_histograms_are_in_milliseconds_and_without_bucket_in_their_name(recorded: Path) -> None:
    reading = server_reading((recorded / "triton-2026-docs-histogram-summary.prom").read_text(), 0)

    assert reading is not None
    assert reading.ttft == Histogram(edges_s=(0.1, 0.5, 2.0, 5.0, math.inf), counts=(8, 30, 36, 37, 37), sum_s=10.771)


def test_triton_tells_of_its_gpus_itself(recorded: Path) -> None:
    reading = gpu_reading_of_server((recorded / "triton-v100-four-gpus.prom").read_text(), 0)

    assert reading is not None
    assert sorted(reading.busy.values()) == [0.0, 0.0, 0.0, 0.0]


def test_a_page_of_something_else_is_no_witness() -> None:
    assert server_reading("# TYPE up gauge\nup 1\nprocess_start_time_seconds 3\n", 0) is None
    assert read_gpu_page("up 1\n") is None


def test_the_exporters_page_counts_the_cards_that_the_namespace_holds(recorded: Path) -> None:
    page = (recorded / "dcgm-4.1-h100-four-gpus-mixed-pods.prom").read_text()

    every_card, ours, nobodys = (read_gpu_page(page, namespace=name) for name in (None, "default", "elsewhere"))

    assert every_card is not None
    assert len(every_card.busy) == 3
    assert ours is not None
    assert len(ours.busy) == 1
    assert nobodys is None


def test_equal_values_of_several_pods_are_one_card_and_different_ones_add_up() -> None:
    def page(*values: int) -> str:
        return "".join(
            f'DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="GPU-1",vgpu="{at}",namespace="n",pod="p{at}"}} {value}\n'
            for at, value in enumerate(values)
        )

    copies, shares = read_gpu_page(page(80, 80, 80)), read_gpu_page(page(50, 25, 5, 0))

    assert copies is not None
    assert shares is not None
    assert copies.busy == {"GPU-1": 0.8}
    assert shares.busy == {"GPU-1": pytest.approx(0.8)}


def test_requests_of_others_are_told() -> None:
    told = witness_of(Readings(server=readings(finished=(100, 160))), plan(10), sent(40, ttft_s=0.1))

    assert told.server is not None
    assert (told.server.finished, told.server.others) == (60, 20)
    assert told.remarks == ("The server finished 60 requests and 40 were ours: somebody else sends load to it too.",)


def test_few_requests_at_the_edges_are_no_remark() -> None:
    told = witness_of(Readings(server=readings(finished=(100, 142))), plan(10), sent(40, ttft_s=0.1))

    assert told.remarks == ()


@pytest.mark.parametrize(
    ("server_s", "client_s", "said"),
    [(0.1, 0.1, ""), (0.1, 0.4, "the rest lies between them"), (0.4, 0.1, "they do not count the same")],
)
def test_a_median_far_from_the_servers_is_told(server_s: float, client_s: float, said: str) -> None:
    before = histogram([])
    after = histogram([server_s] * 40)
    both = [ServerReading(at_ns=at, ttft=one, waiting=1) for at, one in ((0, before), (11 * _SECOND, after))]
    middle = ServerReading(at_ns=5 * _SECOND, waiting=3)

    told = witness_of(
        Readings(server=[both[0], middle, both[1]]), plan(10, warmup_s=1), sent(40, ttft_s=client_s, over_s=9)
    )

    assert told.server is not None
    assert told.server.waiting is not None
    assert (told.server.waiting.mean, told.server.waiting.most) == (3, 3)
    assert bool(told.remarks) == bool(said)
    assert said in " ".join(told.remarks)


def test_several_servers_under_one_address_are_not_compared() -> None:
    first, last = readings(finished=(100, 9000))
    other = ServerReading(at_ns=last.at_ns, started="2", running=last.running, finished=last.finished)

    told = witness_of(Readings(server=[first, other]), plan(10), sent(40, ttft_s=0.1))

    assert told.server is not None
    assert told.server.finished is None
    assert "several servers answered" in told.gaps[0].reason


def test_what_the_exporter_only_repeats_may_be_of_before_and_counts_for_nothing() -> None:
    stale = [gpu(at, 0.1, mark="old") for at in range(10)]
    moved = [*stale[:4], gpu(4, 0.9, mark="new"), gpu(5, 0.9, mark="new"), gpu(6, 0.7, mark="newer")]

    idle = witness_of(Readings(gpu=stale), plan(10), sent(4, ttft_s=0.1))
    busy = witness_of(Readings(gpu=moved), plan(10), sent(4, ttft_s=0.1))

    assert idle.gpu is None
    assert "told nothing new" in idle.gaps[0].reason
    assert busy.gpu is not None
    assert busy.gpu.readings == 2
    assert busy.gpu.busy == pytest.approx(0.8)


def test_cards_are_averaged_and_the_least_and_the_most_busy_are_told() -> None:
    def both(at: int, one: float, other: float) -> GpuReading:
        return GpuReading(at_ns=at * _SECOND, metric="m", busy={"a": one, "b": other}, mark=str(at))

    told = witness_of(Readings(gpu=[both(0, 0, 0), both(1, 0.5, 1), both(2, 0.7, 1)]), plan(10), sent(4, ttft_s=0.1))

    assert told.gpu is not None
    assert (told.gpu.gpus, told.gpu.most) == (2, 1.0)
    assert told.gpu.least == pytest.approx(0.6)
    assert told.gpu.busy == pytest.approx(0.8)


def test_other_cards_than_in_the_probe_before_are_told_and_unknown_ones_are_not() -> None:
    def witness(*models: str) -> Witness:
        busy = {f"card-{at}": 0.5 for at in range(2)}
        told = {f"card-{at}": model for at, model in enumerate(models)}
        seen = [GpuReading(at_ns=at * _SECOND, metric="m", busy=busy, mark=str(at), models=told) for at in range(4)]
        return witness_of(Readings(gpu=seen), plan(10), sent(4, ttft_s=0.1))

    def fewer() -> Witness:
        seen = [
            GpuReading(at_ns=at * _SECOND, metric="m", busy={"card-0": 0.5}, mark=str(at), models={"card-0": "H100"})
            for at in range(4)
        ]
        return witness_of(Readings(gpu=seen), plan(10), sent(4, ttft_s=0.1))

    same, other, unknown = witness("H100", "H100"), witness("H100", "A100"), witness()

    assert same.gpu is not None
    assert same.gpu.models == {"H100": 2}
    assert other_gpus([None, same], same) == ""
    assert other_gpus([same, unknown], unknown) == ""
    assert other_gpus([same], fewer()) == "", "an exporter that was not scraped meanwhile"
    assert (
        other_gpus([same, unknown], other) == "The GPUs changed: 2 H100 in a probe before, 1 A100, 1 H100 in this one."
    )


@pytest.fixture
def slow_server() -> Iterator[RunningDouble]:
    with running_double(engine=EngineSettings(slots=2, step_s=0.04, output_tokens=4)) as running:
        yield running


def test_server_and_gpu_are_watched_beside_the_load(slow_server: RunningDouble) -> None:
    seen = watch(slow_server, gpu_path="/gpu-metrics")

    assert seen.server is not None
    assert seen.server.waiting is not None
    assert seen.server.waiting.most > 0
    assert seen.server.kv_used is not None
    assert seen.server.kv_used.most == 1.0
    assert seen.gpu is not None
    assert seen.gpu.busy > 0.5
    assert seen.gpu.models == {"pretended": 1}
    assert seen.gaps == ()
    document = witness_document(seen)
    assert document is not None
    assert json.loads(json.dumps(document))["gpu"]["models"] == {"pretended": 1}


def test_a_witness_that_fails_is_a_gap_and_leaves_the_probe_alone(slow_server: RunningDouble) -> None:
    seen = watch(slow_server, gpu_path="/nowhere")

    assert seen.gpu is None
    assert [gap.reason for gap in seen.gaps] == ["the GPU exporter answered 404 during the probe"]


def watch(server: RunningDouble, *, gpu_path: str) -> Witness:
    """What is seen of 60 requests in three seconds, more than two slots can answer in that time."""
    root = server.url.removesuffix("/v1")
    orders = Orders(target=parse_target(server.url), spoken=Chat(), lines=prompts("hi"), model="double")
    arrivals = every(0.05, 60, kinds=1)
    with LiveBench(orders) as bench:
        run = Watched(bench, client(root), ExporterPage(where(root + gpu_path), None)).run(plan_for(arrivals), arrivals)

    assert run.witness is not None
    assert (run.records.status == ResponseStatus.OK).all()
    return run.witness


def client(url: str) -> HttpClient:
    """A client of a page."""
    return HttpClient(where(url), patience=WATCH_PATIENCE)


def where(url: str) -> Endpoint:
    """A page."""
    return endpoint(product="a page", url=url, declared_at="test")


def plan(measured_s: int, *, warmup_s: int = 0) -> ProbePlan:
    """A probe of one batch."""
    return ProbePlan(
        number=0,
        phase=Phase.SEARCH,
        seed=0,
        rate_rps=4,
        warmup_ns=warmup_s * _SECOND,
        batch_ns=measured_s * _SECOND,
        batches=1,
        runout_ns=0,
        drain_ns=_SECOND,
    )


def sent(count: int, *, ttft_s: float, over_s: float = 9.0) -> Records:
    """Requests that all succeed, at equal distance."""
    at = np.rint(np.linspace(0.1, over_s, count) * _SECOND).astype(np.int64)
    first = at + round(ttft_s * _SECOND)
    return Records(
        scheduled_ns=at,
        sent_ns=at,
        first_ns=first,
        last_ns=first,
        end_ns=first + 1,
        output_tokens=np.ones(count, np.int64),
        input_tokens=np.ones(count, np.int64),
        reads=np.ones(count, np.int64),
        gap_max_ns=np.full(count, NEVER_NS),
        status=np.full(count, ResponseStatus.OK, np.int8),
    )


def readings(*, finished: tuple[int, int]) -> list[ServerReading]:
    """Before and after the probe."""
    return [
        ServerReading(at_ns=at * _SECOND, started="1", running=1, finished=count)
        for at, count in zip((0, 10), finished, strict=True)
    ]


def histogram(seconds: list[float]) -> Histogram:
    """Counted by upper edge."""
    edges = (0.05, 0.1, 0.2, 0.5, math.inf)
    return Histogram(
        edges_s=edges, counts=tuple(sum(one <= edge for one in seconds) for edge in edges), sum_s=sum(seconds)
    )


def gpu(at: int, busy: float, *, mark: str) -> GpuReading:
    """One card."""
    return GpuReading(at_ns=at * _SECOND, metric="DCGM_FI_DEV_GPU_UTIL", busy={"GPU-1": busy}, mark=mark)
