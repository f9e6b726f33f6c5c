"""Where every GPU-hour went: capacity to verified outcomes, in classes that always sum."""

from gpuyield.account.account import Accounting, account, sort_out
from gpuyield.account.holders import idle_holders
from gpuyield.account.jobs import ObservedJob, batch_capacity, observed_jobs, plan_jobs, service_gpus
from gpuyield.account.observed import Observed, observe
from gpuyield.account.summary import summarise

__all__ = [
    "Accounting",
    "Observed",
    "ObservedJob",
    "account",
    "batch_capacity",
    "idle_holders",
    "observe",
    "observed_jobs",
    "plan_jobs",
    "service_gpus",
    "sort_out",
    "summarise",
]
