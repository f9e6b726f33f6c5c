"""Formats, environment and streams."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cli.console import Console

NIGHT = ("--gpus", "4", "--origin", "2026-11-30T21:00:00Z")


@pytest.fixture
def jobs(console: Console) -> Path:
    path = console.folder / "jobs.json"
    rows = [{"id": name, "gpus": 2, "duration_s": 7200, "deadline": "2026-12-01T00:00:00Z"} for name in "abcd"]
    path.write_text(json.dumps(rows))
    return path


def test_a_plan_in_every_format_has_the_same_jobs(console: Console, jobs: Path) -> None:
    command = ("plan", "--jobs", jobs.name, *NIGHT)

    table = console.run(*command)
    document = console.run(*command, "-o", "json").document
    rows = list(csv.DictReader(io.StringIO(console.run(*command, "-o", "csv").out)))
    markdown = console.run(*command, "-o", "markdown").out

    assert document["schema"] == "gpuyield/plan/v1alpha1"
    assert {row["job"] for row in rows} == {job["id"] for job in document["jobs"]} == set("abcd")
    assert table.out.startswith("infeasible: ")
    assert markdown.startswith("**infeasible: ")
    assert "| a | planned |" in markdown


def test_the_gate_fails_with_10_and_without_it_a_plan_ends_with_0(console: Console, jobs: Path) -> None:
    command = ("plan", "--jobs", jobs.name, *NIGHT)

    assert console.run(*command).code == 0
    assert console.run(*command, "--gate").code == 10
    assert console.run(*command, "--gate", "-o", "json").document["status"] == "infeasible"


def test_environment_beats_default_and_a_flag_beats_environment(console: Console, jobs: Path) -> None:
    command = ("plan", "--jobs", jobs.name, "--origin", "2026-11-30T21:00:00Z")
    env = {"GPUYIELD_OUTPUT": "json", "GPUYIELD_GPUS": "8"}

    from_environment = console.run(*command, env=env)
    from_flag = console.run(*command, "--gpus", "4", "-o", "csv", env=env)

    assert from_environment.document["gpus"]["gpu"]["available"] == 8
    assert from_flag.out.startswith("job,status,")
    assert "dropped" in from_flag.out


def test_errors_honour_the_format_of_the_environment(console: Console) -> None:
    done = console.run("account", env={"GPUYIELD_OUTPUT": "json"})

    assert done.document["errors"][0]["what"] == "no ledger at .gpuyield."


def test_stdout_is_only_the_answer_and_the_next_command_goes_to_stderr(console: Console, jobs: Path) -> None:
    command = ("plan", "--jobs", jobs.name, *NIGHT, "--out", "night.json", "-o", "json")

    loud, quiet = console.start(*command), console.start(*command, "--quiet")

    assert json.loads(loud.out) == json.loads(quiet.out) == json.loads((console.folder / "night.json").read_text())
    assert loud.err.startswith("Next: gpuyield verify night.json")
    assert quiet.err == ""


def test_a_missing_job_file_is_no_missing_declaration(console: Console) -> None:
    done = console.run("plan", "--jobs", "nofile.yaml", *NIGHT)

    assert (done.code, done.err) == (2, "nofile.yaml: no such file. Check the path.\n")


def test_a_quiet_screen_has_no_next_command(console: Console, jobs: Path) -> None:
    command = ("plan", "--jobs", jobs.name, *NIGHT)

    loud, quiet = console.run(*command), console.run(*command, "--quiet")

    assert loud.out.startswith(quiet.out)
    assert "Next: " in loud.out
    assert "Next: " not in quiet.out + quiet.err


def test_after_what_if_comes_the_plan_of_the_same_files(console: Console, jobs: Path) -> None:
    done = console.run("what-if", "--jobs", jobs.name, *NIGHT, "--drop", "c", "--drop", "d")

    assert f"Next: gpuyield plan --jobs {jobs.name} --gpus 4 --origin 2026-11-30T21:00:00Z " in done.out


def test_a_job_is_explained_from_a_plan_and_from_a_decision(console: Console, jobs: Path) -> None:
    for verb in ("plan", "decide"):
        console.run(verb, "--jobs", jobs.name, *NIGHT, "--out", f"{verb}.json")

    from_plan, from_decision = (
        console.run("explain", "a", "--document", f"{verb}.json") for verb in ("plan", "decide")
    )
    unknown = console.run("explain", "nobody", "--document", "decide.json")

    assert from_plan.out.splitlines()[:3] == from_decision.out.splitlines()[:3]
    assert from_plan.out.startswith("a runs ")
    assert (unknown.code, unknown.out) == (2, "")
    assert "more." in unknown.err


def test_a_plan_is_verified_from_the_file_beside_it_and_from_the_ledger(console: Console, jobs: Path) -> None:
    console.run("plan", "--jobs", jobs.name, *NIGHT, "--out", "night.json")

    beside = console.run("verify", "night.json", "--jobs", jobs.name)
    (console.folder / "night.inputs.json").unlink()
    from_ledger = console.run("verify", "night.json")

    assert (beside.code, from_ledger.code) == (0, 0)
    assert beside.out.startswith("accepted: ")


def test_verify_says_which_inputs_it_used(console: Console, jobs: Path) -> None:
    console.run("plan", "--jobs", jobs.name, *NIGHT, "--out", "night.json")
    inputs = console.folder / "night.inputs.json"
    beside = console.run("verify", "night.json", "-o", "json")
    inputs.write_text("{}", encoding="utf-8")

    kept, told = console.run("verify", "night.json", "-o", "json"), console.run("verify", "night.json")
    named = console.run("verify", "night.json", "--inputs", "night.inputs.json", "-o", "json")
    without = console.run("verify", "night.json", "--ledger", "elsewhere", "-o", "json")

    assert [done.code for done in (beside, kept, told, named, without)] == [0, 0, 0, 10, 10]
    assert (beside.document["inputs"], beside.document["passed_over"]) == ("night.inputs.json", None)
    assert kept.document["inputs"].startswith(".gpuyield/documents/plan-")
    assert kept.document["passed_over"] == "night.inputs.json"
    assert f"Inputs: {kept.document['inputs']}" in told.out
    assert "Not used: night.inputs.json is not what night.json was made from; the ledger's copy is." in told.out
    assert (named.document["inputs"], named.document["passed_over"]) == ("night.inputs.json", None)
    assert without.document["inputs"] == "night.inputs.json"
    assert without.document["refused"] == [{"claim": "inputs_digest", "reason": "It is not the SHA-256 of the inputs."}]


def test_a_changed_plan_and_a_changed_job_file_are_rejected(console: Console, jobs: Path) -> None:
    console.run("plan", "--jobs", jobs.name, *NIGHT, "--out", "night.json")
    plan = json.loads((console.folder / "night.json").read_text())
    plan["gpus"]["gpu"]["lower_bound"] = 9
    (console.folder / "changed.json").write_text(json.dumps(plan))
    (console.folder / "changed.inputs.json").write_bytes((console.folder / "night.inputs.json").read_bytes())
    other = console.folder / "other.json"
    other.write_text(jobs.read_text() + " ")

    changed = console.run("verify", "changed.json", "-o", "json")
    of_others = console.run("verify", "night.json", "--jobs", other.name)

    assert changed.code == 10
    assert not changed.document["accepted"]
    assert of_others.code == 10


def test_verify_without_inputs_is_exit_2(console: Console, jobs: Path) -> None:
    console.run("plan", "--jobs", jobs.name, *NIGHT, "--out", "night.json")
    (console.folder / "night.inputs.json").unlink()

    done = console.run("verify", "night.json", "--ledger", "elsewhere")

    assert done.code == 2
    assert "--inputs FILE" in done.err


def test_what_if_shows_both_plans_and_the_jobs_that_change(console: Console, jobs: Path) -> None:
    command = ("what-if", "--jobs", jobs.name, "--origin", "2026-11-30T21:00:00Z")

    more = console.run(*command, "--gpus", "4+4", "-o", "json").document
    moved = console.run(
        *command, "--gpus", "4", "--move", "c=02:00 UTC", "--move", "d=02:00 UTC", "-o", "json"
    ).document
    dropped = console.run(*command, "--gpus", "4", "--drop", "c", "--drop", "d", "-o", "json").document

    for found in (more, moved, dropped):
        assert found["before"]["status"] == "infeasible"
        assert found["after"]["status"] in ("optimal", "feasible")
    assert {one["id"] for one in dropped["changes"]} == {"c", "d"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--gpus", "+4"), "nothing says how many GPUs exist"),
        (("--gpus", "lots"), '"lots" is no number of GPUs'),
        (("--gpus", "4-5"), "5 GPUs fewer, and no more than 4 exist"),
        (("--gpus", "4", "--drop", "z"), 'there is no job "z"'),
        (("--gpus", "4", "--move", "a"), '"a" is no move'),
        (("--gpus", "4", "--move", "a=soon"), '--move a: deadline "soon" is not a deadline'),
        (("--gpus", "\N{ARABIC-INDIC DIGIT FOUR}"), "is no number of GPUs"),
        (("--gpus", "4+9999999999"), "capacity of gpu: an amount is not between 0 and 1,000,000,000. Write at most"),
    ],
)
def test_what_if_explains_changes_that_it_cannot_make(
    console: Console, jobs: Path, change: tuple[str, ...], said: str
) -> None:
    done = console.run("what-if", "--jobs", jobs.name, "--origin", "2026-11-30T21:00:00Z", *change)

    assert done.code == 2
    assert said in done.err


def test_explain_tells_when_a_job_runs_and_what_a_figure_means(console: Console, jobs: Path) -> None:
    console.run("plan", "--jobs", jobs.name, *NIGHT, "--out", "plan.json")

    job = console.run("explain", "a")
    figure = console.run("explain", "idle_held")
    nothing = console.run("explain", "idle_hold")

    assert "a runs 30 Nov 21:00 to 30 Nov 23:00 on 2 GPUs, as early as it may." in job.out
    assert figure.out.startswith("idle, held: ")
    assert nothing.code == 2
    assert "idle_held" in nothing.err


def test_options_that_contradict_are_refused(console: Console) -> None:
    (console.folder / ".gpuyield").mkdir()

    half = console.run("account", "--from", "2026-11-01T00:00:00Z")
    both = console.run("account", "--window", "3d", "--from", "2026-11-01T00:00:00Z", "--to", "2026-11-02T00:00:00Z")

    assert "--from and --to go together" in half.err
    assert "contradict" in both.err


def test_a_report_of_files_alone_says_what_starting_at_once_would_take(console: Console, jobs: Path) -> None:
    late = console.folder / "late.json"
    late.write_text(jobs.read_text().replace("2026-12-01T00:00:00Z", "2026-12-01T01:00:00Z"))

    done = console.run("report", "--jobs", late.name, *NIGHT, "--out", "night.md")

    page = (console.folder / "night.md").read_text()
    assert done.code == 0, done.err
    assert "All deadlines are met on 4 GPUs; starting all at once would take 8" in page
    assert console.run("verify", "night.decide.json").code == 0


def test_a_purchase_is_needed_only_with_a_price_and_its_proof_is_accepted(console: Console, jobs: Path) -> None:
    declaration = (
        "apiVersion: gpuyield.dev/v1alpha1\n"
        "kind: Cluster\n"
        "metadata: {name: night}\n"
        "sources: {prometheus: {url: 'http://127.0.0.1:9090'}}\n"
    )
    priced = (
        declaration + "currency: EUR\nprices: [{flavor: h100, gpu_hour: 2.49, basis: contracted, from: 2026-01-01}]\n"
    )
    command = ("decide", "--jobs", jobs.name, *NIGHT, "--gate", "--out", "decide.json", "-o", "json")

    (console.folder / "gpuyield.yaml").write_text(declaration)
    without = console.run(*command)
    (console.folder / "gpuyield.yaml").write_text(priced)
    with_price = console.run(*command)
    verified = console.run("verify", "decide.json")

    assert (without.code, without.document["status"]) == (4, "unknown")
    assert (with_price.code, with_price.document["status"]) == (10, "needed")
    assert verified.code == 0, verified.out
