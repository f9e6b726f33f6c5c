"""Objectives as people write them: keys in YAML, one string on the command line.

`'ttft p95 800ms'` and `'ttft 800ms for 95%'` are the same; `'resolved 0.7 for 90%'`, `'exact for 95%'` and
`'error for 99.9%'` name a check (or the error metric) and the share of attempts that must pass.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from gpuyield.declare.tree import shown
from gpuyield.declare.values import NUMBER, parse_latency_us, parse_number, parse_text
from gpuyield.errors import DeclarationError, Mistake
from gpuyield.model.declaration import Metric, Objective

LATENCIES = tuple(one.value for one in Metric if one is not Metric.ERROR)
_FORMS = "Write 'ttft p95 800ms', or 'CHECK [LIMIT] for SHARE%' such as 'resolved 0.7 for 90%'."
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,4})?)", re.ASCII | re.IGNORECASE)


def parse_objectives(texts: Sequence[str]) -> tuple[Objective, ...]:
    """The objectives of repeated `--objective` options, with names that differ.

    Raises:
        DeclarationError: Any of them is wrong; all mistakes at once.
    """
    found: list[Objective] = []
    mistakes: list[Mistake] = []
    for text in texts:
        try:
            found.append(parse_objective(text))
        except DeclarationError as err:
            mistakes.extend(err.mistakes)
    if mistakes:
        raise DeclarationError.of(mistakes)
    names = [one.name for one in found]
    return tuple(
        one if names.count(one.name) == 1 else replace(one, name=f"{one.name}-{number}")
        for number, one in enumerate(found, start=1)
    )


def parse_objective(text: str) -> Objective:
    """The objective of one command-line string.

    Raises:
        DeclarationError: None of the forms; the fix has the right spelling.
    """
    words = text.split()
    try:
        if len(words) == 3 and words[0] in LATENCIES and words[1] != "for":
            return _latency(words[0], share=_percentile(words[1]), limit=words[2])
        if len(words) >= 3 and words[-2] == "for":
            return _with_share(words[0], words[1:-2], share=_percentage(words[-1]))
    except DeclarationError as err:
        raise DeclarationError(err.mistakes[0].what, where="--objective", fix=err.mistakes[0].fix) from err
    raise DeclarationError(f"'{shown(text)}' is not an objective.", where="--objective", fix=_FORMS)


def _with_share(subject: str, limits: Sequence[str], *, share: Decimal) -> Objective:
    if len(limits) > 1:
        raise DeclarationError(f"'{shown(' '.join(limits))}' is not one limit.", fix=_FORMS)
    if subject in LATENCIES:
        if not limits:
            raise DeclarationError(f"{subject} needs a limit.", fix=f"Write '{subject} p95 800ms'.")
        return _latency(subject, share=share, limit=limits[0])
    if subject == Metric.ERROR:
        if limits:
            raise DeclarationError("error takes no limit.", fix="Write 'error for 99.9%'.")
        return Objective(name=subject, metric=Metric.ERROR, share=share)
    check = parse_text(subject, label="check")
    at_least = parse_number(limits[0], label="limit") if limits else None
    return Objective(name=check, check=check, score_at_least=at_least, share=share)


def _latency(metric: str, *, share: Decimal, limit: str) -> Objective:
    if re.fullmatch(NUMBER, limit, re.ASCII):
        raise DeclarationError(
            f'limit "{shown(limit)}" has no unit.', fix=f"Write {shown(limit)}ms or {shown(limit)}s."
        )
    return Objective(name=metric, metric=Metric(metric), at_most_us=parse_latency_us(limit, label="limit"), share=share)


def _percentile(word: str) -> Decimal:
    found = _PERCENTILE.fullmatch(word)
    if found and Decimal(found[1]) > 0:
        return Decimal(found[1]) / 100
    number = re.fullmatch(r"\d{1,2}(\.\d+)?", word, re.ASCII)
    fix = f"Write p{word}." if number else "Write p95."
    raise DeclarationError(f'"{shown(word)}" is not a percentile.', fix=fix)


def _percentage(word: str) -> Decimal:
    bare = word.removesuffix("%")
    number = parse_number(bare, label="share", at_least=0)
    if word == bare:
        percent = number * 100 if number <= 1 else number
        raise DeclarationError(f"share {bare} has no %.", fix=f"Write {percent.normalize():f}%.")
    if not 0 < number <= 100:
        raise DeclarationError(f"share {word} is not between 0% and 100%.", fix="Write 95%.")
    return number / 100
