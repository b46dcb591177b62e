"""What differs between kinds of store where two programs are on one."""

from oneread.plans.performer import elapsed
from oneread.transactions import journal_recovery


def end_lease(db):
    """Lets the lease of a program be over, where it has one."""
    if not db.operations.spans_rows:
        db.operations.fence.clock = lambda: elapsed() + journal_recovery.LEASE_SECONDS


def only_read(url):
    """The URL by which a program may only read a store."""
    place, _, options = url.partition("?")
    return f"{place}?{'span=row&' if 'span=row' in options else ''}read_only=true"
