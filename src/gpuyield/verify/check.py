"""Check a document of any kind: schema, digest of its canonical inputs, then what its kind demands.

A new kind of document is one function of (document, decoded inputs, findings) and one line in `_KINDS`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any  # JSON has no narrower type than this.

from .decide_document import check_decide
from .measure_document import check_measure
from .plan_document import check_plan
from .report import Findings, Refused, Report
from .values import decode, field, record, text

Checker = Callable[[dict[str, Any], Any, Findings], None]

_KINDS: dict[str, Checker] = {
    "gpuyield/plan/v1alpha1": check_plan,
    "gpuyield/decide/v1alpha1": check_decide,
    "gpuyield/measure/v1alpha1": check_measure,
}


def check(document: Mapping[str, Any], inputs: bytes) -> Report:
    """Re-check every claim of a document that its canonical inputs can decide.

    `document` is decoded JSON, `inputs` the bytes of `NAME.inputs.json`. Nothing is believed: not the types, not the
    ranges, not the digest. Never raises for what a document or its inputs hold.
    """
    findings = Findings()
    try:
        _check(document, inputs, findings)
    except Refused as err:
        findings.refuse("the document", str(err))
    except Exception as err:  # The edge: a sceptic's document must not end in a traceback.
        findings.refuse("the document", f"It cannot be re-checked ({type(err).__name__}).")
    return findings.report()


def _check(document: Any, inputs: bytes, findings: Findings) -> None:
    stated = record(document, "the document")
    schema = text(field(stated, "schema", "the document"), "schema")
    findings.schema = schema[:80]
    checker = _KINDS.get(schema)
    if checker is None:
        raise Refused(f'"{schema[:60]}" is no kind of document that this checker knows: {", ".join(_KINDS)}.')
    findings.vouch("schema")
    with findings.claim("inputs_digest"):
        right = f"sha256:{hashlib.sha256(inputs).hexdigest()}"
        if text(field(stated, "inputs_digest", "the document"), "inputs_digest") != right:
            raise Refused("It is not the SHA-256 of the inputs.")
    if findings.refused:
        return
    checker(stated, _decode_inputs(inputs, findings), findings)


def _decode_inputs(inputs: bytes, findings: Findings) -> Any:
    try:
        decoded = decode(inputs, with_floats=False)
    except Refused as err:
        raise Refused(f"The inputs cannot be read. {err}") from err
    canonical = json.dumps(decoded, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if canonical.encode(errors="replace") != inputs:
        findings.skip("inputs: canonical spelling", "The bytes are not the one canonical spelling of what they say.")
    return decoded
