"""When each job runs, or why that is impossible, and the fewest GPUs: search, bounds, certificates."""

from gpuyield.plan.document import plan_document, plan_inputs
from gpuyield.plan.make import DEFAULT_WORK, make_plan
from gpuyield.plan.observed import observed_table

__all__ = ["DEFAULT_WORK", "make_plan", "observed_table", "plan_document", "plan_inputs"]
