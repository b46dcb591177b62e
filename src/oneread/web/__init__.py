"""What a web application imports: databases by lifespan, JSON of entities and pages, errors as problems, budgets."""

try:
    from oneread.web.bodies import changes_of, entity_of
except ModuleNotFoundError as error:
    error.add_note("install what oneread.web needs: pip install 'oneread[web]'")
    raise
from oneread.web.budgets import BudgetMiddleware
from oneread.web.conditional import etag, if_version
from oneread.web.databases import database, database_called, lifespan
from oneread.web.problems import exception_handlers, problem
from oneread.web.queries import PageQuery
from oneread.web.responses import OnereadResponse, respond

__all__ = [
    "BudgetMiddleware",
    "OnereadResponse",
    "PageQuery",
    "changes_of",
    "database",
    "database_called",
    "entity_of",
    "etag",
    "exception_handlers",
    "if_version",
    "lifespan",
    "problem",
    "respond",
]
