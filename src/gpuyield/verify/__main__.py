"""`python -m gpuyield.verify DOC`: ends with 0 (accepted), 10 (rejected) or 2 (usage, or no inputs found)."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from .check import check
from .files import compare_sources, find_inputs, passed_over, read_document, read_limited
from .report import Finding, Refused, Report

ACCEPTED, USAGE, REJECTED = 0, 2, 10


def main(arguments: list[str] | None = None) -> int:
    """Check one document and print what was found."""
    asked = _parser().parse_args(arguments)
    try:
        document = read_document(asked.document)
    except OSError as err:
        return _usage(f"{asked.document}: {err.strerror}.")
    except Refused as err:
        return _print(_rejected(str(err)), asked.output)
    path = asked.inputs or find_inputs(asked.document, document, asked.ledger)
    if path is None:
        return _usage(f"No inputs of {asked.document} found. Name them: --inputs FILE.")
    try:
        inputs = read_limited(path)
        other = compare_sources(inputs, [one for one in (asked.jobs, asked.capacity) if one]) if _asked(asked) else []
    except OSError as err:
        return _usage(f"{err.filename}: {err.strerror}.")
    except Refused as err:
        return _print(_rejected(str(err)), asked.output, path)
    report = check(document, inputs)
    if other:
        refused = (*report.refused, *(Finding(claim="sources", reason=one) for one in other))
        report = Report(
            schema=report.schema, vouched=report.vouched, refused=refused, not_rechecked=report.not_rechecked
        )
    other_inputs = passed_over(asked.document, path) if asked.inputs is None else None
    return _print(report, asked.output, path, other_inputs)


def _asked(asked: argparse.Namespace) -> bool:
    return bool(asked.jobs or asked.capacity)


def _rejected(reason: str) -> Report:
    return Report(schema="", refused=(Finding(claim="the document", reason=reason),))


def _print(report: Report, output: str, inputs: Path | None = None, passed: Path | None = None) -> int:
    """`inputs` is what the document was checked against, `passed` what lies beside it and was not used."""
    if output == "json":
        used = {
            "inputs": None if inputs is None else str(inputs),
            "passed_over": None if passed is None else str(passed),
        }
        text = json.dumps({"accepted": report.accepted, **used, **asdict(report)}, indent=2)
    else:
        told = [] if inputs is None else [f"inputs       {inputs}"]
        told += [] if passed is None else [f"not used     {passed}: it is not what the document was made from"]
        text = "\n".join([*told, *report.lines()])
    sys.stdout.write(text + "\n")
    return ACCEPTED if report.accepted else REJECTED


def _usage(message: str) -> int:
    sys.stderr.write(message + "\n")
    return USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuyield.verify", description="Re-check a plan, measure or decision document from its inputs."
    )
    parser.add_argument("document", type=Path, metavar="DOC")
    parser.add_argument("--inputs", type=Path, help="default: NAME.inputs.json beside NAME.json")
    parser.add_argument("--ledger", type=Path, default=Path(".gpuyield"), help="where documents are kept")
    parser.add_argument("--jobs", type=Path, help="compare this file with the sources listed in the inputs")
    parser.add_argument("--capacity", type=Path, help="compare this file with the sources listed in the inputs")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    return parser


if __name__ == "__main__":
    sys.exit(main())
