"""The engine of a double in virtual time: one set of parameters, so that truth and double cannot differ by a slip."""

from __future__ import annotations

from gpuyield.demo.engine import EngineSettings
from gpuyield.measure.simulator import Engine, EngineKind


def simulated(served: EngineSettings, *, check: str | None = None) -> Engine:
    """The simulator's engine with these settings; `check` names what grades its answers."""
    return Engine(
        kind=EngineKind.BATCHING if served.sequence_s else EngineKind.SLOTS,
        slots=served.slots,
        step_ns=round(served.step_s * 1e9),
        per_sequence_ns=round(served.sequence_s * 1e9),
        per_prompt_token_ns=round(served.prompt_token_s * 1e9),
        prefill_tokens=served.prefill_tokens,
        checks={} if check is None else {check: (served.good, served.good_rushed)},
        rushed_ns=round(served.rushed_s * 1e9),
    )
