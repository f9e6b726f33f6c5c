"""The list of faults beside these tests names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

_HERE = Path(__file__).parent


def test_every_test_that_the_list_of_faults_names_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)(?:\[[^\]`]*\])?`", (_HERE / "README.md").read_text()))
    files = [*_HERE.glob("test_*.py"), *(_HERE.parent / "laws").glob("test_measure*.py")]
    there = {name for path in files for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)}

    assert len(named) > 30
    assert named <= there, named - there
