"""gpuyield VERB: one file per verb. The only room that reads the command line and writes to the screen."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from gpuyield.cli.collector import collect_seldom
    from gpuyield.cli.edge import run

    collect_seldom()
    sys.exit(run(sys.argv[1:]))
