"""Which errors refuse one change, and which end the work."""

from __future__ import annotations

from typing import Final

from oneread.errors import BudgetExceeded, Closed, Conflict, LimitExceeded, SchemaMismatch, UsageError

_REFUSALS: Final = (UsageError, LimitExceeded, Conflict)
NOT_REFUSALS: Final = (BudgetExceeded, Closed, SchemaMismatch)
"""Errors that end the work instead, though some are a kind of those."""


def is_refusal(error: BaseException) -> bool:
    """Whether an error refuses the change that was being decided; any other ends the work."""
    return isinstance(error, _REFUSALS) and not isinstance(error, NOT_REFUSALS)
