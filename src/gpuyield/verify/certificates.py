"""The kinds of certificates, one module each; `refute` checks any of them against one question.

Shapes: `docs/reference/certificates.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # JSON has no narrower type than this.

from . import dual_feasible, impossible, interval, lemmas, prices, search, wide_gangs
from .question import Question
from .report import Refused
from .values import field, record, text

_KINDS: dict[str, Callable[[dict[str, Any], Question], None]] = {
    "interval": interval.check_interval,
    "cut": interval.check_cut,
    "impossible": impossible.check,
    "wide-gangs": wide_gangs.check,
    "dual-feasible": dual_feasible.check,
    "prices": prices.check,
    "search": search.check,
    "lemmas": lemmas.check,
}

__all__ = ["Question", "refute"]


def refute(certificate: Any, question: Question) -> str:
    """The kind of a certificate that proves that the question's deadlines cannot all be met.

    Raises:
        Refused: It proves no such thing, or states something that is not so.
    """
    stated = record(certificate, "the certificate")
    kind = text(field(stated, "kind", "the certificate"), "the certificate's kind")
    if kind not in _KINDS:
        raise Refused(f'"{kind[:40]}" is no kind of certificate.')
    _KINDS[kind](stated, question)
    return kind
