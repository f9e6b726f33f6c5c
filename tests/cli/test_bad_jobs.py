"""Bad job files end in an answer: all mistakes at once with their places, or an impossible job by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.console import Console, Done
from gpuyield.cli.edge import run

NIGHT = ("--gpus", "4", "--origin", "2026-11-30T21:00:00Z", "-o", "json")
GOOD = {"id": "good", "gpus": 1, "duration_s": 60}


def planned(console: Console, rows: list[dict[str, Any]] | str, *options: str) -> Done:
    text = rows if isinstance(rows, str) else json.dumps(rows)
    (console.folder / "jobs.json").write_text(text, encoding="utf-8")
    return console.run("plan", "--jobs", "jobs.json", *(options or NIGHT))


def said(done: Done) -> list[str]:
    assert done.code == 2
    assert "Traceback" not in done.err + done.out
    return [f"{one['where']}: {one['what']}" for one in done.document["errors"]]


def test_every_mistake_of_a_job_file_is_said_at_once_with_its_place(console: Console) -> None:
    rows = """[
{"id": "a", "gpus": 1, "duration_s": -60},
{"id": "b", "gpus": 1},
{"id": "a", "gpus": NaN, "duration_s": Infinity},
{"id": "c", "gpus": 1, "duration_s": 60, "release": "2026-12-02T00:00:00Z", "deadline": "2026-12-01T00:00:00Z"},
{"id": "d", "gpus": 1, "duration_s": 60, "after": ["nobody"]},
{"id": "e", "gpus": 1, "duration_s": 60, "after": ["f"]},
{"id": "f", "gpus": 1, "duration_s": 60, "after": ["e"]},
{"id": "g", "gpus": 1, "duration_s": 60, "deadline": "2026-12-01T06:00:00"},
{"id": "h", "gpus": 0, "demand": {"gpu": 1}, "duration_s": 60, "weight": "many"}]"""

    done = planned(console, rows)

    assert said(done) == [
        "jobs.json:2:38: duration_s -60 is not above 0.",
        "jobs.json:3:1: the run time is missing.",
        'jobs.json:4:8: id "a" is there twice (first at jobs.json:2:8).',
        'jobs.json:4:21: gpus "NaN" is not a number.',
        'jobs.json:4:40: duration_s "Infinity" is not a number.',
        "jobs.json:5:89: deadline is before release.",
        'jobs.json:6:51: after names "nobody", which is no job here.',
        "jobs.json:7:51: jobs wait for each other: e -> f -> e.",
        'jobs.json:9:54: deadline "2026-12-01T06:00:00" has no time zone.',
        "jobs.json:10:21: gpus 0 is below 1.",
        "jobs.json:10:34: gpus and demand are given together.",
        'jobs.json:10:74: weight "many" is not a number.',
    ]


@pytest.mark.parametrize("word", ["pinned_start", "started_at"])
def test_jobs_that_are_never_moved_and_clash_are_a_mistake_that_names_them(console: Console, word: str) -> None:
    rows = [{"id": name, "gpus": 3, "duration_s": 120, word: "2026-11-30T21:00:00Z"} for name in ("one", "two")]

    [mistake] = said(planned(console, rows))

    assert mistake.startswith("jobs one and two: they ")
    assert mistake.endswith("never moved, and need 6 GPUs together at 21:00, where 4 exist.")


def test_a_gang_wider_than_the_cluster_is_impossible_by_name_and_the_others_are_planned(console: Console) -> None:
    done = planned(console, [GOOD, {"id": "wide", "gpus": 5, "duration_s": 60, "deadline": 3600}])

    assert (done.code, done.document["status"]) == (0, "infeasible")
    assert done.document["explanation"][0] == (
        "wide is impossible: it needs 5 GPUs at once, and no more than 4 last long enough."
    )
    assert {job["id"]: job["status"] for job in done.document["jobs"]} == {"good": "planned", "wide": "impossible"}


def test_a_wide_gang_without_a_deadline_and_one_behind_it_are_named_too(console: Console) -> None:
    done = planned(console, [{"id": "wide", "gpus": 5, "duration_s": 60}, {**GOOD, "after": ["wide"]}])

    assert [job["status"] for job in done.document["jobs"]] == ["impossible", "impossible"]


def test_times_in_several_zones_are_one_instant_each(console: Console) -> None:
    times = ["2026-12-01T06:00:00+01:00", "2026-12-01T05:00:00Z", "06:00 Europe/Berlin", "2026-11-30T21:00:00-08:00"]
    rows = [{**GOOD, "id": f"j{at}", "deadline": time} for at, time in enumerate(times)]

    done = planned(console, rows)

    assert {job["deadline"] for job in done.document["jobs"]} == {"2026-12-01T05:00:00Z"}


def test_a_million_jobs_are_refused_with_a_clear_answer(console: Console) -> None:
    with (console.folder / "jobs.csv").open("w", encoding="utf-8") as stream:
        stream.write("id,gpus,duration_s\n")
        stream.writelines(f"j{at},1,60\n" for at in range(1_000_000))

    done = console.run("plan", "--jobs", "jobs.csv", *NIGHT)

    assert said(done) == ["jobs.csv: more than 250,000 rows."]
    assert done.document["errors"][0]["fix"] == (
        "A plan holds no more jobs: plan those released first, or each queue alone on its part of the GPUs."
    )


@pytest.mark.parametrize("text", ["", "[", "{}", "[1]", '[{"id": "a", "id": "b"}]', "[" * 5_000, "\x00", "id;gpus\n"])
def test_what_is_no_job_file_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text(text, encoding="utf-8")

    code = run(["plan", "--jobs", str(jobs), "--gpus", "4", "--ledger", str(tmp_path / "ledger"), "-o", "json"])

    assert code == 2
    assert json.loads(capsys.readouterr().out)["errors"]


def test_a_queue_without_quotas_is_said_at_its_row(console: Console) -> None:
    (console.folder / "capacity.json").write_text(
        json.dumps({"resources": {"gpu": [[0, 8]]}, "quotas": {"batch": {"gpu": {"nominal": 4, "lend": 5}}}}),
        encoding="utf-8",
    )
    queue = {"quotas": {"batch": {"gpu": {"nominal": 4}}}, "resources": {"gpu": [[0, 8]]}}

    lending = planned(console, [GOOD], "--capacity", "capacity.json", "-o", "json")
    (console.folder / "capacity.json").write_text(json.dumps(queue), encoding="utf-8")
    unknown = planned(console, [{**GOOD, "queue": "bach"}], "--capacity", "capacity.json", "-o", "json")

    assert said(lending) == ["capacity.json:1:85: it lends 5 of 4."]
    assert said(unknown) == ['jobs.json:1:55: queue "bach" has no quotas in the capacity file.']
    assert unknown.document["errors"][0]["fix"] == 'Did you mean "batch"?'


PRICED = """apiVersion: gpuyield.dev/v1alpha1
kind: Cluster
metadata: {name: c}
currency: EUR
reporting_zone: UTC
sources: {prometheus: {url: "http://127.0.0.1:1"}}
prices:
  - {flavor: h100, gpu_hour: 4, basis: contracted, from: 2026-01-01, to: null}
  - {flavor: a100, gpu_hour: 1.5, basis: contracted, from: 2026-01-01, to: null}
"""


def flavored(folder: Path) -> tuple[str, ...]:
    """Two flavors, one job that is faster on the dearer one; what to add to a command."""
    (folder / "gpuyield.yaml").write_text(PRICED, encoding="utf-8")
    (folder / "capacity.json").write_text(
        json.dumps({"origin": "2026-11-30T21:00:00Z", "resources": {"gpu/h100": [[0, 4]], "gpu/a100": [[0, 4]]}}),
        encoding="utf-8",
    )
    return ("--capacity", "capacity.json", "--out", "plan.json", "-o", "json")


TWO = [
    {"id": "slow", "gpus": 2, "durations": {"h100": 3600, "a100": 7200}, "deadline": 10_000},
    {"id": "quick", "gpus": 2, "durations": {"h100": 3600, "a100": 7200}, "deadline": 5_000},
]


def test_the_cheapest_plan_has_a_price_and_a_bound_that_verify_accepts(console: Console) -> None:
    done = planned(console, TWO, *flavored(console.folder), "--objective", "cheapest")

    assert done.document["objective"] == {
        "name": "cheapest",
        "value": "14",
        "bound": "14",
        "gap": 0.0,
        "currency": "EUR",
    }
    assert done.document["status"] == "optimal"
    assert {job["id"]: job["flavor"] for job in done.document["jobs"]} == {"slow": "a100", "quick": "h100"}
    assert console.run("verify", "plan.json").code == 0


def test_what_the_cheapest_plan_costs_is_said_with_its_currency(console: Console) -> None:
    options = flavored(console.folder)[:2]

    done = planned(console, TWO, *options, "--objective", "cheapest")

    assert "The plan costs 14 EUR, at the prices declared; no plan costs less." in done.out


def test_prices_in_two_currencies_are_added_up_only_by_a_rate(console: Console) -> None:
    options = (*flavored(console.folder), "--objective", "cheapest")
    in_dollars = PRICED.replace("gpu_hour: 4,", "gpu_hour: 5, currency: USD,")
    (console.folder / "gpuyield.yaml").write_text(in_dollars, encoding="utf-8")
    without = planned(console, TWO, *options)
    rate = "rates: [{pair: USD/EUR, rate: 0.8, at: 2026-11-01, source: treasury}]\n"
    (console.folder / "gpuyield.yaml").write_text(in_dollars + rate, encoding="utf-8")

    done = planned(console, TWO, *options)

    assert said(without) == [
        "rates: The price of h100 is in USD, the ledger is in EUR, and rates has no USD/EUR for 2026-11."
    ]
    assert done.document["objective"] == {
        "name": "cheapest",
        "value": "14",
        "bound": "14",
        "gap": 0.0,
        "currency": "EUR",
    }


def test_prices_of_different_bases_are_not_added_up(console: Console) -> None:
    options = (*flavored(console.folder), "--objective", "cheapest")
    mixed = PRICED.replace("gpu_hour: 1.5, basis: contracted", "gpu_hour: 1.5, basis: list")
    (console.folder / "gpuyield.yaml").write_text(mixed, encoding="utf-8")
    refused = planned(console, TWO, *options)
    both = mixed + "  - {flavor: a100, gpu_hour: 2.5, basis: contracted, from: 2026-01-01, to: null}\n"
    (console.folder / "gpuyield.yaml").write_text(both, encoding="utf-8")

    done = planned(console, TWO, *options)

    assert said(refused) == ["prices: the price of a100 is list, those of other flavors are contracted."]
    assert done.document["objective"]["value"] == "16"


def test_a_price_of_a_millionth_is_not_rounded(console: Console) -> None:
    options = (*flavored(console.folder), "--objective", "cheapest")
    tiny = PRICED.replace("gpu_hour: 1.5", "gpu_hour: 0.00000025").replace("gpu_hour: 4", "gpu_hour: 10")
    (console.folder / "gpuyield.yaml").write_text(tiny, encoding="utf-8")

    done = planned(console, TWO, *options)

    assert done.document["objective"]["value"] == "20.000001"
    assert console.run("verify", "plan.json").code == 0


def test_a_missing_price_is_named_and_no_other(console: Console) -> None:
    options = flavored(console.folder)
    (console.folder / "gpuyield.yaml").write_text(PRICED.rsplit("  - ", 1)[0], encoding="utf-8")

    done = planned(console, TWO, *options, "--objective", "cheapest")

    assert said(done) == ["prices: objective cheapest needs a price of gpu/a100."]


def test_the_shortest_plan_is_accepted(console: Console) -> None:
    done = planned(console, TWO, *flavored(console.folder), "--objective", "makespan")

    assert done.document["objective"] == {"name": "makespan", "value": 3600, "bound": 3600, "gap": 0.0}
    assert console.run("verify", "plan.json").code == 0


def test_a_plan_is_made_with_the_quantile_that_is_asked_for(console: Console) -> None:
    rows = [{"id": "a", "gpus": 1, "quantiles": {"p50": 60, "p70": 120, "p90": 240}}]

    ends = [
        planned(console, rows, *NIGHT, *more).document["jobs"][0]["segments"][0][1]
        for more in ((), ("--quantile", "p50"), ("--quantile", "p90"))
    ]

    assert ends == ["2026-11-30T21:02:00Z", "2026-11-30T21:01:00Z", "2026-11-30T21:04:00Z"]
