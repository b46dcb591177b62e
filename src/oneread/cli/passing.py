"""What commands that read all rows leave for `oneread heat`: how the rows are spread over their keys.

See docs/how-to/find-what-is-hot.md.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress

from oneread.cli.options import Invocation, reading, writing
from oneread.database._sync.database import Database
from oneread.errors import OnereadError
from oneread.heat.axis import store_axes
from oneread.heat.passes import AxisPass, passing_verbs
from oneread.heat.rows import has_heat


@contextmanager
def reading_all(given: Invocation, by: str) -> Generator[Database]:
    """Opens a store for reading; where it has heat, and may be written, what was read whole is stored as axes.

    Costs a read of one row more; with heat the store is opened again, and there is one put.
    """
    passed = AxisPass()
    with reading(given.db, given.schema, observers=(passed.note,)) as database:
        yield database
        leaves = bool(passed.counted) and database.run(has_heat())
    if leaves:
        with suppress(OnereadError), writing(given.db, given.schema, evolve=False) as written:
            written.run(store_axes(passed.counted, by))


def leave_axes(database: Database) -> None:
    """Has the verbs of a database that is open for writing leave axes, where the store has heat: a read of one row."""
    if database.run(has_heat()):
        vars(database).update(passing_verbs(database))
