"""False documents are refused and true ones accepted; what is false is said by `truth`, by trying everything.

Mutants are made on decoded documents and inputs and sealed again, so no digest gives them away.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from gpuyield.verify import check
from verify.brute import Unanswerable
from verify.documents import true_document
from verify.mutants import mutant, variation
from verify.problems import seal
from verify.truth import is_false

MUTANTS_EACH = 10
VARIATIONS_EACH = 4


def judged(document: dict[str, Any], inputs: dict[str, Any]) -> str | None:
    """What is false; `undecided` where that cannot be tried."""
    try:
        return is_false(document, inputs)
    except Unanswerable:
        return "undecided"


def false_mutants_accepted(seeds: range, wanted: int) -> tuple[int, list[str]]:
    """How many false mutants were made, and those that were accepted."""
    made, accepted = 0, []
    for seed in seeds:
        document, inputs = true_document(seed)
        rng = Random(f"mutants {seed}")
        for number in range(MUTANTS_EACH):
            changed, changed_inputs = mutant(document, inputs, rng)
            reason = judged(changed, changed_inputs)
            if reason in (None, "undecided"):
                continue
            made += 1
            if check(*seal(changed, changed_inputs)).accepted:
                accepted.append(f"seed {seed}, mutant {number}: {reason}")
        if made >= wanted:
            break
    return made, accepted


def true_variations_refused(seeds: range, wanted: int) -> tuple[int, list[str]]:
    """How many true variations were made, and those that were refused."""
    made, refused = 0, []
    for seed in seeds:
        document, inputs = true_document(seed)
        rng = Random(f"variations {seed}")
        for number in range(VARIATIONS_EACH):
            changed = variation(document, inputs, rng)
            if changed is None or judged(*changed) is not None:
                continue
            made += 1
            report = check(*seal(*changed))
            if not report.accepted:
                refused.append(f"seed {seed}, variation {number}: {report.refused[0]}")
        if made >= wanted:
            break
    return made, refused


def test_documents_made_by_trying_everything_are_accepted() -> None:
    refused, kinds = [], Counter[str]()
    for seed in range(60):
        document, inputs = true_document(seed)
        report = check(*seal(document, inputs))
        kinds[document["status"]] += 1
        if not report.accepted or judged(document, inputs) is not None:
            refused.append((seed, report.refused, judged(document, inputs)))

    assert refused == []
    assert set(kinds) == {"optimal", "feasible", "infeasible", "unknown"}


def test_false_mutants_are_refused() -> None:
    made, accepted = false_mutants_accepted(range(1_000, 1_100), wanted=150)

    assert accepted == []
    assert made >= 150


def test_true_variations_are_accepted() -> None:
    made, refused = true_variations_refused(range(2_000, 2_100), wanted=50)

    assert refused == []
    assert made >= 50


@pytest.mark.slow_laws
@pytest.mark.timeout(3_000)
def test_a_thousand_of_a_thousand_false_mutants_are_refused() -> None:
    made, accepted = false_mutants_accepted(range(10_000, 12_000), wanted=1_000)

    assert accepted == []
    assert made >= 1_000


@pytest.mark.slow_laws
@pytest.mark.timeout(3_000)
def test_three_hundred_of_three_hundred_true_variations_are_accepted() -> None:
    made, refused = true_variations_refused(range(20_000, 22_000), wanted=300)

    assert refused == []
    assert made >= 300
