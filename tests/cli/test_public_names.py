"""The public names of the package, pinned: changing one is a promise broken."""

from __future__ import annotations

import subprocess
import sys

import gpuyield


def test_the_public_names_are_these() -> None:
    assert gpuyield.__all__ == [
        "Account",
        "Capacity",
        "Declaration",
        "Gap",
        "GpuClass",
        "GpuyieldError",
        "Ledger",
        "Money",
        "Plan",
        "PlanJob",
        "Problem",
        "Shape",
        "Waterfall",
        "Window",
        "__version__",
        "load_declaration",
        "make_plan",
        "parse_window",
        "plan_document",
        "plan_inputs",
        "read_problem",
        "summarise",
    ]


def test_every_public_name_is_there() -> None:
    for name in gpuyield.__all__:
        assert getattr(gpuyield, name) is not None


def test_importing_the_package_loads_nothing_else() -> None:
    program = (
        "import sys, gpuyield; before = [m for m in sys.modules if m.startswith('gpuyield.')];"
        "gpuyield.Window; print(before, 'duckdb' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[] False"
