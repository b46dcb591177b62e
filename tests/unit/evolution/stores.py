"""Stores of both spans, on which views are built: a backfill does not wait for leases of other programs there."""

from uuid import uuid4

from oneread.plans.performer import elapsed
from oneread.transactions import row_recovery

SPANS = ("rows", "row")


def url_of(span, path, monkeypatch):
    """Where a test keeps its data."""
    if span == "rows":
        return f"lmdb://{path}/store"
    monkeypatch.setattr(row_recovery, "END_SECONDS", 0.0)
    return f"memory://{uuid4()}?span=row"


def is_clean(db):
    """Whether everything derived is as the entities say, where that can be verified."""
    return not db.operations.spans_rows or db.verify().clean


def end_lease(db):
    """Lets the lease of a program be over, where it has one."""
    if not db.operations.spans_rows:
        db.operations.fence.clock = lambda: elapsed() + row_recovery.LEASE_SECONDS
