"""A plan checked by a process of its own, which leaves this one its processor for whatever else a start has to do."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any  # Documents are JSON.

from gpuyield.errors import InternalError
from gpuyield.verify import Finding, Report

_PATIENCE_S = 60.0


def check_beside(document: Mapping[str, Any], inputs: bytes) -> Report:
    """What `python -m gpuyield.verify` finds.

    Raises:
        InternalError: It did not come to an end.
    """
    with tempfile.TemporaryDirectory() as folder:
        plan, beside = Path(folder, "plan.json"), Path(folder, "inputs.json")
        plan.write_text(json.dumps(document), encoding="utf-8")
        beside.write_bytes(inputs)
        command = [sys.executable, "-m", "gpuyield.verify", str(plan), "--inputs", str(beside), "--output", "json"]
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError as err:
        raise InternalError(f"the check of a plan ended with {done.returncode}.", where="controller") from err
    return Report(
        schema=found["schema"],
        vouched=tuple(found["vouched"]),
        refused=tuple(Finding(**one) for one in found["refused"]),
        not_rechecked=tuple(Finding(**one) for one in found["not_rechecked"]),
    )
