"""Get more from the GPUs you have before you buy more.

The public names are loaded on first use, so that `import gpuyield` stays fast. A room is named by itself, such as
`gpuyield.account.account(ledger, window=...)`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any  # a lazily loaded name may be anything

__version__ = "0.1.0"

_HOMES = {
    "Window": "gpuyield.units",
    "Money": "gpuyield.units",
    "parse_window": "gpuyield.units",
    "GpuyieldError": "gpuyield.errors",
    "Ledger": "gpuyield.ledger",
    "Declaration": "gpuyield.model.declaration",
    "Account": "gpuyield.model.waterfall",
    "Waterfall": "gpuyield.model.waterfall",
    "GpuClass": "gpuyield.model.waterfall",
    "Gap": "gpuyield.model.evidence",
    "PlanJob": "gpuyield.model.job",
    "Shape": "gpuyield.model.job",
    "Capacity": "gpuyield.model.job",
    "Problem": "gpuyield.model.job",
    "Plan": "gpuyield.model.plan",
    "load_declaration": "gpuyield.declare.yaml_file",
    "read_problem": "gpuyield.declare.problem",
    "summarise": "gpuyield.account",
    "make_plan": "gpuyield.plan",
    "plan_document": "gpuyield.plan",
    "plan_inputs": "gpuyield.plan",
}
_ROOMS = frozenset({"account", "cost", "decide", "declare", "ledger", "model", "outcomes", "plan", "units", "verify"})

if TYPE_CHECKING:
    from gpuyield.account import summarise
    from gpuyield.declare.problem import read_problem
    from gpuyield.declare.yaml_file import load_declaration
    from gpuyield.errors import GpuyieldError
    from gpuyield.ledger import Ledger
    from gpuyield.model.declaration import Declaration
    from gpuyield.model.evidence import Gap
    from gpuyield.model.job import Capacity, PlanJob, Problem, Shape
    from gpuyield.model.plan import Plan
    from gpuyield.model.waterfall import Account, GpuClass, Waterfall
    from gpuyield.plan import make_plan, plan_document, plan_inputs
    from gpuyield.units import Money, Window, parse_window

__all__ = [
    "Account",
    "Capacity",
    "Declaration",
    "Gap",
    "GpuClass",
    "GpuyieldError",
    "Ledger",
    "Money",
    "Plan",
    "PlanJob",
    "Problem",
    "Shape",
    "Waterfall",
    "Window",
    "__version__",
    "load_declaration",
    "make_plan",
    "parse_window",
    "plan_document",
    "plan_inputs",
    "read_problem",
    "summarise",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"gpuyield.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'gpuyield' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
