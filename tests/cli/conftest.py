from __future__ import annotations

from pathlib import Path

import pytest

from cli.console import Console


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(tmp_path)
