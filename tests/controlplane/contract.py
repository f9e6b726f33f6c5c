"""Check on the live stack what a planner relies on: one line for each claim, with what was seen.

    python contract.py                  on a control plane of its own
    python contract.py --dir DIR        on one that `controlplane.py up` left running
    python contract.py retry park       only experiments whose names contain a word

Exits with 1 when a claim does not hold. Needs one node with 4 GPUs (`--nodes 1x4`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import contract_checks
import contract_faults
import contract_gates
import httpx2
from binaries import BuildError
from kube import ApiError
from processes import ComponentError
from scenario import Broken

from controlplane import ControlPlane

Experiment = Callable[[ControlPlane], str]
EXPERIMENTS: tuple[Experiment, ...] = (
    *contract_gates.EXPERIMENTS,
    *contract_checks.EXPERIMENTS,
    *contract_faults.EXPERIMENTS,
)


def run(stack: ControlPlane, experiment: Experiment) -> bool:
    """Run one experiment and print its line; returns whether the claim holds."""
    began = time.monotonic()
    try:
        seen, verdict = experiment(stack), "holds"
    except Broken as broken:
        seen, verdict = str(broken), "BROKEN"
    except (ApiError, ComponentError, TimeoutError, httpx2.HTTPError) as error:
        seen, verdict = f"{type(error).__name__}: {error}", "FAILED"
    name = experiment.__name__
    print(f"{verdict:<7}{name:<29}{time.monotonic() - began:5.1f} s  {seen}", flush=True)
    return verdict == "holds"


@contextmanager
def _control_plane(folder: Path | None) -> Iterator[ControlPlane]:
    if folder is not None:
        yield ControlPlane.attach(folder)
        return
    with tempfile.TemporaryDirectory() as scratch, ControlPlane(Path(scratch)) as stack:
        yield stack


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, help="folder of a running control plane")
    parser.add_argument("words", nargs="*", metavar="WORD", help="part of an experiment's name")
    options = parser.parse_args(arguments)
    chosen = [each for each in EXPERIMENTS if not options.words or any(word in each.__name__ for word in options.words)]
    try:
        with _control_plane(options.dir) as stack:
            held = [run(stack, each) for each in chosen]
    except (BuildError, ComponentError) as error:
        print(f"contract: {error}", file=sys.stderr)
        return 1
    print(f"{held.count(True)} hold, {held.count(False)} do not")
    return 0 if held and all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
