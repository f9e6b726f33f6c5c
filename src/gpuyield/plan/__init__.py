"""When each job runs, or why that is impossible, and the fewest GPUs: search, bounds, certificates."""

from gpuyield.plan.clashes import clashes
from gpuyield.plan.document import plan_document, plan_inputs
from gpuyield.plan.make import DEFAULT_WORK, make_plan
from gpuyield.plan.online.continued import carry_on, continue_plan
from gpuyield.plan.online.observed import observed_table
from gpuyield.plan.outlook.beyond_pool import with_outlook

__all__ = [
    "DEFAULT_WORK",
    "carry_on",
    "clashes",
    "continue_plan",
    "make_plan",
    "observed_table",
    "plan_document",
    "plan_inputs",
    "with_outlook",
]
