"""What goes wrong is said with a place and a fix, on the right stream, with the right exit code."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli.console import Console
from gpuyield.cli.edge import run


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("acount",), 'Unknown command "acount". Did you mean "account"?'),
        (("account", "--windw", "3d"), "Unknown option: --windw. Did you mean --window?"),
        (("plan", "--objective", "fast"), 'Invalid value "fast" for --objective.'),
        (("plan", "--gpus", "many"), '"many"'),
        (("verify",), "requires an argument"),
    ],
)
def test_a_wrong_command_line_is_explained(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    code = run(arguments)

    seen = capsys.readouterr()
    assert code == 2
    assert seen.out == ""
    assert said in seen.err
    assert "--help" in seen.err


@pytest.mark.parametrize("way", [("-o", "json"), ("-ojson",), ("--output", "json"), ("--output=json",)])
def test_with_json_a_wrong_command_line_is_a_document(capsys: pytest.CaptureFixture[str], way: tuple[str, ...]) -> None:
    code = run(["account", "--windw", "3d", *way])

    document = json.loads(capsys.readouterr().out)
    assert code == 2
    assert document["schema"] == "gpuyield/error/v1alpha1"
    assert document["exit_code"] == 2
    assert [sorted(one) for one in document["errors"]] == [["fix", "what", "where"]]


def test_a_missing_ledger_says_what_to_do(console: Console) -> None:
    done = console.run("account")

    assert done.code == 2
    assert done.err == "--ledger: no ledger at .gpuyield. Run gpuyield collect first, or name its folder.\n"


def test_all_mistakes_of_a_declaration_come_at_once_as_the_answer(console: Console) -> None:
    (console.folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\n"
        "kind: Cluster\n"
        "metadata: {name: c}\n"
        "sources: {prometheus: {url: 'http://127.0.0.1:9090'}}\n"
        "rules: {gap_limit: 300 sec}\n"
        "servces: []\n"
    )

    done = console.run("check")

    assert done.code == 2
    assert done.err == ""
    lines = done.out.splitlines()
    assert lines[0] == "2 mistakes"
    assert lines[1].startswith("gpuyield.yaml:5:")
    assert 'Did you mean "services"?' in lines[2]
    assert len(console.run("check", "-o", "json").document["errors"]) == 2


def test_an_unreachable_prometheus_is_exit_3(console: Console) -> None:
    (console.folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\n"
        "kind: Cluster\n"
        "metadata: {name: c}\n"
        "sources: {prometheus: {url: 'http://127.0.0.1:9'}}\n"
    )

    done = console.run("collect", "--window", "1d")

    assert done.code == 3
    assert "Cannot reach Prometheus at http://127.0.0.1:9" in done.err
    assert "port-forward" in done.err


def test_a_doctor_whose_patient_is_silent_ends_with_3_and_an_error_document(console: Console) -> None:
    (console.folder / "gpuyield.yaml").write_text(
        "apiVersion: gpuyield.dev/v1alpha1\n"
        "kind: Cluster\n"
        "metadata: {name: c}\n"
        "sources: {prometheus: {url: 'http://127.0.0.1:9'}}\n"
    )

    done = console.run("doctor", "-o", "json")

    assert done.code == 3
    assert done.document["schema"] == "gpuyield/error/v1alpha1"
    assert done.document["checks"][0]["state"] == "failed"


def test_our_own_bug_leaves_a_crash_file_without_values(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from gpuyield.cli import edge\n"
        "from gpuyield.cli.crash import crash_mistake\n"
        "def broken(secret):\n"
        "    raise ValueError('cannot read ' + secret)\n"
        "try:\n"
        "    broken('s3cret-token')\n"
        "except ValueError as err:\n"
        "    sys.exit(edge._our_bug(err, ['account']))\n"
    )

    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)

    (crash,) = tmp_path.glob("gpuyield-crash-*.txt")
    assert done.returncode == 1
    assert f"Unexpected error in account (this is our bug). Details without values: ./{crash.name}." in done.stderr
    assert "s3cret-token" not in crash.read_text() + done.stderr
    assert "ValueError" in crash.read_text()


def test_a_reader_that_leaves_is_no_error(console: Console) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "gpuyield", "schema"], cwd=console.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=60)

    assert said == b""


def test_ctrl_c_ends_serving_quietly(console: Console) -> None:
    # A shell that starts this suite in the background lets its children ignore Ctrl-C: listen to it again.
    program = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from gpuyield.cli.edge import run;"
        "sys.exit(run(['demo', 'serve', '--port', '0', '--gpus', '2', '--days', '1']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=console.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            ready = process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()

    assert "answers at http://127.0.0.1:" in ready
    assert process.returncode in (0, 130)
    assert "Traceback" not in out + err


def test_names_of_others_cannot_rewrite_the_screen(console: Console) -> None:
    (console.folder / "jobs.json").write_text(
        '[{"id": "a\\u001b[31mred\\u202e", "gpus": 1, "duration_s": 60, "deadline": 3600}]'
    )

    done = console.run("plan", "--jobs", "jobs.json", "--gpus", "1", "--origin", "2026-11-30T21:00:00Z")

    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.out + done.err


@pytest.mark.parametrize(
    ("option", "value"),
    [("--gpus", "1.5"), ("--gpus", "1_000"), ("--seed", "-1"), ("--seed", "1e3"), ("--origin", "9999-12-31T23:59:59Z")],
)
def test_a_number_or_time_that_would_be_bent_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: str, value: str
) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text('[{"id": "a", "gpus": 1, "duration_s": 60}]', encoding="utf-8")

    size = [] if option == "--gpus" else ["--gpus=2"]

    code = run(["plan", "--jobs", str(jobs), *size, f"{option}={value}", "--ledger", str(tmp_path / "l"), "-o", "json"])

    document = json.loads(capsys.readouterr().out)
    assert code == 2
    assert option in document["errors"][0]["what"] + document["errors"][0]["where"]


@pytest.mark.parametrize("horizon", ["0w", "9999999w", "x"])
def test_a_horizon_without_sense_decides_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, horizon: str
) -> None:
    jobs = tmp_path / "jobs.json"
    jobs.write_text('[{"id": "a", "gpus": 1, "duration_s": 60}]', encoding="utf-8")

    code = run(["decide", "--jobs", str(jobs), "--gpus", "1", "--horizon", horizon, "--ledger", str(tmp_path / "l")])

    assert code == 2
    assert "--horizon" in capsys.readouterr().err
