"""The demo, and every command on what it leaves behind."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
from pathlib import Path

import pytest

from cli.console import Console, Done

SMALL = ("--gpus", "8", "--days", "2", "--seed", "3")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Console, Done]:
    """A folder in which the demo ran."""
    console = Console(tmp_path_factory.mktemp("chain"))
    return console, console.run("demo", "--out", "demo", *SMALL)


def on_demo(made: tuple[Console, Done], *command: str) -> Done:
    return made[0].run(*command, "-f", "demo/gpuyield.yaml")


def test_the_demo_says_the_answer_and_writes_its_files(made: tuple[Console, Done]) -> None:
    console, done = made

    assert done.code == 0, done.err
    assert done.err == ""
    assert done.out.startswith("A made-up cluster: 8 GPUs, ")
    assert "Nothing is sent anywhere." in done.out
    assert "Next: gpuyield verify demo/decide.json" in done.out
    for name in ("gpuyield.yaml", ".gpuyield", "plan.json", "plan.inputs.json", "decide.json", "report.html"):
        assert (console.folder / "demo" / name).exists()


def test_the_same_seed_gives_the_same_documents(made: tuple[Console, Done], tmp_path: Path) -> None:
    again = Console(tmp_path)

    again.run("demo", "--out", "demo", *SMALL)

    for name in ("gpuyield.yaml", "outcomes/demo.jsonl", "plan.json", "plan.inputs.json", "decide.json"):
        assert (tmp_path / "demo" / name).read_bytes() == (made[0].folder / "demo" / name).read_bytes()


def test_the_demos_plan_is_accepted(made: tuple[Console, Done]) -> None:
    assert made[0].run("verify", "demo/plan.json").code == 0


def test_a_plan_without_a_job_file_is_of_the_jobs_that_the_cluster_declares(made: tuple[Console, Done]) -> None:
    console, _ = made
    decided = json.loads((console.folder / "demo" / "decide.json").read_text())

    plan = on_demo(made, "plan", "-o", "json").document

    assert {job["id"] for job in plan["jobs"]} == {job["id"] for job in decided["certificate"]["plan"]["jobs"]}
    assert any(job["deadline"] for job in plan["jobs"])


@pytest.mark.parametrize(
    ("command", "schema"),
    [
        (("check",), "check"),
        (("account",), "account"),
        (("account", "--by", "team,hour", "--window", "1d"), "account"),
        (("queue", "--by", "team"), "queue"),
        (("cost",), "cost"),
        (("plan",), "plan"),
        (("what-if", "--gpus", "+2"), "what-if"),
        (("decide",), "decide"),
        (("report",), "report"),
        (("ledger", "digest"), "ledger-digest"),
        (("explain", "idle_held"), "explain"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
def test_every_command_answers_with_a_document_and_names_the_next(
    made: tuple[Console, Done], command: tuple[str, ...], schema: str
) -> None:
    as_json = on_demo(made, *command, "-o", "json")

    assert as_json.code == 0, as_json.err
    assert as_json.document["schema"] == f"gpuyield/{schema}/v1alpha1"
    assert as_json.err.startswith("Next: gpuyield ")


def test_every_lever_of_the_decision_is_explained(made: tuple[Console, Done]) -> None:
    decided = json.loads((made[0].folder / "demo" / "decide.json").read_text())
    names = [lever["lever"] for lever in decided["levers"]]

    explained = [on_demo(made, "explain", name, "--document", "demo/decide.json", "-o", "json") for name in names]

    assert names == ["reschedule", "reclaim"]
    assert [one.document["levers"] for one in explained] == [[lever] for lever in decided["levers"]]


def test_what_if_changes_the_plan_of_the_clusters_own_jobs(made: tuple[Console, Done]) -> None:
    plan = on_demo(made, "plan", "-o", "json").document
    name = plan["jobs"][0]["id"]

    found = on_demo(made, "what-if", "--gpus", "+2", "--resource", "gpu/h100", "--drop", name, "-o", "json").document

    assert found["before"]["jobs"] == plan["jobs"]
    assert found["after"]["gpus"]["gpu/h100"]["available"] == plan["gpus"]["gpu/h100"]["available"] + 2
    assert {job["id"] for job in found["after"]["jobs"]} == {job["id"] for job in plan["jobs"]} - {name}
    assert found["gaps"][0]["where"] == "jobs"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("--resource", "gpu/h10", "--gpus", "+1"),
            '--resource: there are no GPUs "gpu/h10". Did you mean "gpu/h100"?',
        ),
        (("--move", "milestone:rc=2026-12-01"), "--move milestone: only those of a job file can be moved."),
    ],
)
def test_what_if_says_what_it_cannot_change(made: tuple[Console, Done], change: tuple[str, ...], said: str) -> None:
    done = on_demo(made, "what-if", *change)

    assert done.code == 2
    assert said in done.err


def test_a_screen_ends_with_the_next_command(made: tuple[Console, Done]) -> None:
    for command in (("account",), ("check",), ("ledger", "digest")):
        screen = on_demo(made, *command)

        assert screen.out.splitlines()[-1].startswith(("Next: gpuyield ", "      gpuyield "))
        assert screen.err == ""


def test_a_narrow_terminal_shows_every_name_and_number_of_a_wide_one(made: tuple[Console, Done]) -> None:
    for command in (("account", "--by", "team"), ("cost",)):
        piped = on_demo(made, *command).out
        table = piped.split("\n\n")[1].splitlines()[1:]

        screen = made[0].on_screen(*command, "-f", "demo/gpuyield.yaml", columns=70)

        words = re.split(r"[\s:]+", screen)
        assert len(table) > 3
        assert [word for line in table for word in line.split() if word not in words] == []


def test_the_account_of_teams_sums_to_the_cluster_in_json_and_csv(made: tuple[Console, Done]) -> None:
    document = on_demo(made, "account", "--by", "team", "-o", "json").document
    rows = list(csv.DictReader(io.StringIO(on_demo(made, "account", "--by", "team", "-o", "csv").out)))

    leaves = sum(leaf["gpu_ms"] for leaf in document["waterfall"])
    by_team = sum(leaf["gpu_ms"] for row in document["rows"] for leaf in row["waterfall"])
    assert leaves == by_team == sum(int(row["gpu_ms"]) for row in rows) == document["capacity_gpu_ms"]
    assert document["capacity_gpu_ms"] == 8 * 2 * 24 * 3_600_000


def test_a_pod_wider_than_any_node_is_impossible_though_nobody_declared_its_deadline(
    made: tuple[Console, Done],
) -> None:
    screen = on_demo(made, "queue", "--by", "workload")
    document = on_demo(made, "queue", "--by", "workload", "-o", "json").document

    giant = next(row for row in document["rows"] if row["key"]["workload"] == "giant")
    assert {one["cause"] for one in giant["causes"] if one["gpu_ms"]} == {"impossible"}
    assert [one["job"] for one in document["too_wide"]] == ["search/giant"]
    assert "search/giant asks for" in screen.out


def test_jobs_of_a_declared_family_are_one_row_and_the_rest_has_no_family(made: tuple[Console, Done]) -> None:
    account = on_demo(made, "account", "--by", "family", "-o", "json").document
    cost = on_demo(made, "cost", "--by", "family", "-o", "json").document
    by_workload = on_demo(made, "account", "--by", "workload", "-o", "json").document

    assert [row["key"]["family"] for row in account["rows"]] == ["finetune-7b", "nightly-eval", None]
    assert [row["key"]["family"] for row in cost["rows"]] == ["finetune-7b", "nightly-eval", None]
    assert account["rows"][0]["capacity_gpu_ms"] == sum(
        row["capacity_gpu_ms"]
        for row in by_workload["rows"]
        if (row["key"]["workload"] or "").startswith("finetune-7b-")
    )
    assert sum(row["capacity_gpu_ms"] for row in account["rows"]) == account["capacity_gpu_ms"]


@pytest.mark.parametrize("command", ["account", "queue", "cost", "decide", "report"])
def test_a_window_longer_than_the_ledger_says_how_much_of_it_there_is(made: tuple[Console, Done], command: str) -> None:
    longer = on_demo(made, command, "--window", "20d", "-o", "json")
    screen = on_demo(made, command, "--window", "20d")
    whole = on_demo(made, command, "--window", "2d", "-o", "json")

    said = "Asked for 20 d, and the ledger holds 2 d of it: every figure is of what it holds."
    assert said in longer.out
    assert screen.out.count(said) == 1
    assert "Asked for" not in whole.out


@pytest.mark.parametrize("command", [("account",), ("account", "--by", "hour"), ("plan",), ("report",)])
def test_a_screen_with_times_names_their_zone_once(made: tuple[Console, Done], command: tuple[str, ...]) -> None:
    screen = on_demo(made, *command)

    assert re.search(r"\d\d:\d\d", screen.out)
    assert screen.out.count("Times are in Europe/Berlin.") == 1


@pytest.mark.parametrize("place", ["bill/*.csv", "{folder}/demo/bill/*.csv"])
def test_a_declared_bill_is_held_against_the_rows(made: tuple[Console, Done], tmp_path: Path, place: str) -> None:
    folder = made[0].folder
    (folder / "demo" / "bill").mkdir(exist_ok=True)
    attributed = on_demo(made, "cost", "-o", "json").document["bill"]["attributed"]
    (folder / "demo" / "bill" / "november.csv").write_text(
        "BilledCost,EffectiveCost,ListCost,ContractedCost,ChargePeriodStart,ChargePeriodEnd,BillingCurrency\n"
        f"1,1,1,{attributed},2026-11-28T17:00:00Z,2026-11-30T17:00:00Z,EUR\n"
    )
    billed = folder / "demo" / "billed.yaml"
    declared = (folder / "demo" / "gpuyield.yaml").read_text()
    billed.write_text(f"{declared}bill: [{{format: focus, path: '{place.format(folder=folder)}'}}]\n")

    done = made[0].run("cost", "-f", "demo/billed.yaml", "-o", "json", "--gate")

    assert done.code == 0, done.err
    assert done.document["bill"]["source_total"] == attributed
    assert (done.document["bill"]["residual"], done.document["bill"]["reconciled"]) == ("0.00", True)


def test_a_figure_is_explained_with_its_value(made: tuple[Console, Done]) -> None:
    idle = next(
        leaf for leaf in on_demo(made, "account", "-o", "json").document["waterfall"] if leaf["class"] == "idle_held"
    )

    explained = on_demo(made, "explain", "idle_held", "-o", "json").document
    screen = on_demo(made, "explain", "idle_held")

    assert explained["gpu_ms"] == idle["gpu_ms"] > 0
    assert "GPU-hours, " in screen.out
    assert "held idle at the end of the window: " in screen.out


def test_a_split_window_accounts_for_the_same_time(made: tuple[Console, Done]) -> None:
    whole = on_demo(made, "account", "-o", "json").document
    middle = "2026-11-29T10:30:00Z"
    parts = [
        on_demo(made, "account", "--from", begin, "--to", end, "-o", "json").document
        for begin, end in ((whole["window"]["from"], middle), (middle, whole["window"]["to"]))
    ]

    for at, leaf in enumerate(whole["waterfall"]):
        assert leaf["gpu_ms"] == sum(part["waterfall"][at]["gpu_ms"] for part in parts), leaf["class"]


def test_the_page_has_a_twin_in_json(made: tuple[Console, Done]) -> None:
    console = made[0]

    html = on_demo(made, "report", "--out", "out/report.html")
    twin = on_demo(made, "report", "--out", "out/report.json")

    document = json.loads((console.folder / "out/report.json").read_text())
    text = (console.folder / "out/report.html").read_text()
    assert (html.code, twin.code) == (0, 0)
    assert document["headline"] in (console.folder / "out/report.html").read_text().replace("\N{NO-BREAK SPACE}", " ")
    assert "<svg" in text
    assert on_demo(made, "report", "--out", "out/report.pdf").code == 2


def test_outcomes_imported_twice_change_nothing(made: tuple[Console, Done]) -> None:
    before = on_demo(made, "ledger", "digest").out

    done = on_demo(made, "outcomes", "import", "demo/outcomes/demo.jsonl", "-o", "json")

    assert done.code == 0, done.err
    assert on_demo(made, "ledger", "digest").out == before
    assert [one["new_outcomes"] for one in done.document["files"]] == [0]


def test_vacuum_keeps_what_was_collected(made: tuple[Console, Done]) -> None:
    before = on_demo(made, "ledger", "digest").out

    on_demo(made, "ledger", "vacuum")

    assert on_demo(made, "ledger", "digest").out == before


def test_a_folder_that_is_no_demo_is_left_alone(made: tuple[Console, Done], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")

    done = Console(tmp_path).run("demo", "--out", "mine", *SMALL)

    assert done.code == 2
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_the_tutorials_commands_work_one_after_the_other(made: tuple[Console, Done]) -> None:
    """All but those of blocks marked `your-cluster`, whose flags are checked against the help elsewhere."""
    console, _ = made
    page = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
    jobs = re.search(r"```yaml\n(- \{id: a.*?)```", page, re.DOTALL)
    assert jobs is not None
    (console.folder / "jobs.yaml").write_text(jobs[1], encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", page, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("gpuyield ")]

    done = {line: console.start(*shlex.split(line, comments=True)[1:]) for line in lines}

    assert len(lines) >= 9
    assert {line: one.err for line, one in done.items() if one.code != 0} == {}
