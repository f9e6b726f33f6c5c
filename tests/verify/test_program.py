"""The checker as a program that a sceptic runs, and as a folder that a sceptic copies."""

from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gpuyield.verify
from verify.problems import seal
from verify.seed import due_at_one, due_at_two

FOLDER = Path(gpuyield.verify.__file__).parent


def written(folder: Path, name: str = "plan", *, inputs: str | None = None) -> Path:
    """The seed example as files."""
    document, stated = due_at_two()
    stated["sources"] = [
        {"path": "jobs.yaml", "sha256": hashlib.sha256(b"jobs").hexdigest(), "rows": 4},
        {"path": "capacity.json", "sha256": hashlib.sha256(b"capacity").hexdigest(), "rows": 1},
    ]
    document, data = seal(document, stated)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document))
    (folder / (inputs or f"{name}.inputs.json")).write_bytes(data)
    return path


def run(*arguments: str | Path, cwd: Path, module: str = "gpuyield.verify") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_folder_imports_the_standard_library_and_itself_alone() -> None:
    imported = set()
    for path in FOLDER.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module).partition(".")[0])

    assert imported <= set(sys.stdlib_module_names)


def test_a_copy_of_the_folder_checks_a_plan_without_anything_installed(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / "verify", ignore=shutil.ignore_patterns("__pycache__"))
    written(tmp_path)

    done = subprocess.run(
        [sys.executable, "-S", "-E", "-m", "verify", "plan.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "accepted"


@pytest.mark.parametrize("name", ["plan.json", "plan.inputs.json"])
def test_a_document_or_inputs_too_large_to_be_read_are_refused_with_the_limit(name: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    with (tmp_path / name).open("ab") as file:
        file.truncate(257 << 20)

    done = run(path, cwd=tmp_path)

    assert done.returncode == 10
    assert f"{name} is larger than 256 MiB." in done.stdout


def test_a_false_plan_ends_with_10_and_the_reason(tmp_path: Path) -> None:
    path = written(tmp_path)
    document = json.loads(path.read_text())
    document["gpus"]["gpu"]["needed"] = 3
    path.write_text(json.dumps(document))

    done = run(path, cwd=tmp_path)

    assert done.returncode == 10
    assert "refused      gpus.gpu.needed: needed is below lower_bound." in done.stdout


def test_without_inputs_it_ends_with_2(tmp_path: Path) -> None:
    path = written(tmp_path, inputs="elsewhere.json")

    missing = run(path, cwd=tmp_path)
    named = run(path, "--inputs", "elsewhere.json", cwd=tmp_path)
    no_file = run("nothing.json", cwd=tmp_path)

    assert (missing.returncode, named.returncode, no_file.returncode) == (2, 0, 2)
    assert "--inputs FILE" in missing.stderr


def test_inputs_are_found_by_digest_in_the_ledger(tmp_path: Path) -> None:
    kept = tmp_path / ".gpuyield" / "documents"
    kept.mkdir(parents=True)
    (kept / "other.inputs.json").write_text("{}")
    path = written(tmp_path, inputs=".gpuyield/documents/2026.inputs.json")

    done = run(path, cwd=tmp_path)

    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "inputs       .gpuyield/documents/2026.inputs.json"


def test_other_inputs_beside_a_document_are_named_where_the_ledger_has_the_right_ones(tmp_path: Path) -> None:
    (tmp_path / ".gpuyield" / "documents").mkdir(parents=True)
    path = written(tmp_path, inputs=".gpuyield/documents/2026.inputs.json")
    (tmp_path / "plan.inputs.json").write_text("{}")

    told, done = run(path.name, cwd=tmp_path), run(path.name, "-o", "json", cwd=tmp_path)

    assert (told.returncode, done.returncode) == (0, 0)
    assert "not used     plan.inputs.json: it is not what the document was made from" in told.stdout.splitlines()
    said = json.loads(done.stdout)
    assert (said["inputs"], said["passed_over"]) == (".gpuyield/documents/2026.inputs.json", "plan.inputs.json")


@pytest.mark.parametrize(("jobs", "capacity", "code"), [("jobs", "capacity", 0), ("jobs!", "capacity", 10)])
def test_files_that_are_not_the_listed_sources_are_refused(tmp_path: Path, jobs: str, capacity: str, code: int) -> None:
    path = written(tmp_path)
    (tmp_path / "j.yaml").write_text(jobs)
    (tmp_path / "c.json").write_text(capacity)

    done = run(path, "--jobs", "j.yaml", "--capacity", "c.json", cwd=tmp_path)

    assert done.returncode == code
    assert ("j.yaml is not a source" in done.stdout) == (code == 10)


def test_json_says_the_same(tmp_path: Path) -> None:
    done = run(written(tmp_path), "-o", "json", cwd=tmp_path)

    said = json.loads(done.stdout)
    assert (said["accepted"], said["refused"], said["schema"]) == (True, [], "gpuyield/plan/v1alpha1")


def test_a_file_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")

    done = run("plan.json", cwd=tmp_path)

    assert done.returncode == 10
    assert "It is not JSON" in done.stdout


def test_the_infeasible_seed_is_accepted_too(tmp_path: Path) -> None:
    document, data = seal(*due_at_one())
    (tmp_path / "plan.json").write_text(json.dumps(document))
    (tmp_path / "plan.inputs.json").write_bytes(data)

    done = run("plan.json", cwd=tmp_path)

    assert done.returncode == 0
