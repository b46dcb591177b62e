"""The handlers of a program's jobs, by the name that `oneread worker --app` is given."""

from __future__ import annotations

from typing import Any

from oneread.cli.options import import_named
from oneread.database._sync.database import Database
from oneread.errors import UsageError
from oneread.jobs.handlers import JobHandlers


def handlers_of(spec: str, database: Database) -> JobHandlers:
    """Imports the handlers `package.module:name`, or a function that makes them of the open database.

    Raises:
        UsageError: the module cannot be imported, or has no handlers of that name.
    """
    name, _, attribute = spec.partition(":")
    if not name or not attribute:
        raise UsageError("the handlers of jobs are named package.module:name", given=spec)
    found: Any = import_named(name)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError("the module has no attribute of this name", module=name, name=attribute)
        found = getattr(found, part)
    if not isinstance(found, JobHandlers) and callable(found):
        found = found(database)
    if not isinstance(found, JobHandlers):
        raise UsageError(
            "this is neither JobHandlers() nor a function that makes them of the open database",
            module=name, name=attribute, found=type(found),
        )  # fmt: skip
    return found
