"""What differs between kinds of store where two programs are on one."""

from oneread import migration
from oneread.derivations.schema_rows import stored_schema
from oneread.plans.performer import elapsed
from oneread.transactions import journal_recovery


def end_lease(db):
    """Lets the lease of a program be over, where it has one."""
    end_leases(db, 1)


def end_leases(db, number):
    """Lets so many leases of a program be over, one after the other, where it has any."""
    if not db.operations.spans_rows:
        db.operations.fence.clock = lambda: elapsed() + number * journal_recovery.LEASE_SECONDS


def only_read(url):
    """The URL by which a program may only read a store."""
    place, _, options = url.partition("?")
    return f"{place}?{'span=row&' if 'span=row' in options else ''}read_only=true"


def former_generations(db):
    """The stored names of the former generations that views have."""
    return [name for name, view in db.run(stored_schema()).views.items() if view.former_of]


def drop_formers(url, schema, names, **options):
    """Drops former generations of views, as an operator does when their views are built."""
    with migration(url, schema, **options) as change:
        change.apply(drop=names)
