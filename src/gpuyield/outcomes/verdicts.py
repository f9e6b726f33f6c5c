"""Which verdicts count, and what those of one check say together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuyield.model.declaration import OutcomePolicy, VerdictPolicy
from gpuyield.model.outcome import CheckResult, EvaluatorKind, Verdict

_CONCLUSIVE = (CheckResult.PASS, CheckResult.FAIL)
_PRECEDENCE = (EvaluatorKind.HUMAN, EvaluatorKind.CODE, EvaluatorKind.LLM_JUDGE, EvaluatorKind.SYSTEM)


def standing_verdicts(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts on one attempt that count: the latest of each evaluator and check, not superseded or retracted.

    Latest is the greatest by (revision, decided_at, verdict_id), so ties never depend on the order of import. A
    retraction leaves nothing of its evaluator's earlier verdicts on that check; a correction that names a verdict in
    `supersedes` removes it, whoever gave it.
    """
    listed = list(verdicts)
    superseded = {one.supersedes for one in listed if one.supersedes}
    latest: dict[tuple[str, EvaluatorKind, str], Verdict] = {}
    for one in listed:
        if one.verdict_id in superseded:
            continue
        key = (one.check, one.evaluator_kind, one.evaluator)
        if key not in latest or _order(one) > _order(latest[key]):
            latest[key] = one
    return sorted((one for one in latest.values() if not one.retracted), key=_order)


def check_result(verdicts: Sequence[Verdict], policy: OutcomePolicy | None) -> bool | None:
    """Whether one check passed, by its standing verdicts; None where they do not decide.

    `error` and `skipped` decide nothing.
    """
    conclusive = [one for one in verdicts if one.result in _CONCLUSIVE]
    if not conclusive:
        return None
    passes = sum(one.result is CheckResult.PASS for one in conclusive)
    fails = len(conclusive) - passes
    match policy.policy if policy else VerdictPolicy.ALL:
        case VerdictPolicy.ALL:
            return fails == 0
        case VerdictPolicy.ANY:
            return passes > 0
        case VerdictPolicy.K_OF_N:
            return _k_of_n(passes, fails, policy)
        case VerdictPolicy.PRECEDENCE:
            first = min(_PRECEDENCE.index(one.evaluator_kind) for one in conclusive)
            heard = [one for one in conclusive if _PRECEDENCE.index(one.evaluator_kind) == first]
            return all(one.result is CheckResult.PASS for one in heard)


def _k_of_n(passes: int, fails: int, policy: OutcomePolicy | None) -> bool | None:
    needed = policy.k if policy and policy.k else passes + fails
    asked = policy.n if policy and policy.n else max(passes + fails, needed)
    if passes >= needed:
        return True
    return False if asked - fails < needed else None


def _order(verdict: Verdict) -> tuple[int, int, str]:
    return verdict.revision, verdict.decided_us, verdict.verdict_id
