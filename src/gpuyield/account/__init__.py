"""Where every GPU-hour went: capacity to verified outcomes, in classes that always sum."""

from gpuyield.account.account import Accounting, account
from gpuyield.account.holders import idle_holders
from gpuyield.account.summary import summarise

__all__ = ["Accounting", "account", "idle_holders", "summarise"]
