"""What a web application imports: databases by lifespan, JSON of entities and pages, errors as problems, budgets."""

try:
    from oneread.web.bodies import BodyLimitMiddleware, body_of, changes_of, entity_of
except ModuleNotFoundError as error:
    error.add_note("install what oneread.web needs: pip install 'oneread[web]'")
    raise
from oneread.database.shapes import CreateShape, PatchShape, PublicShape
from oneread.web.budgets import BudgetMiddleware
from oneread.web.conditional import etag, if_version
from oneread.web.databases import database, database_called, lifespan
from oneread.web.entity_tags import EntityTagMiddleware
from oneread.web.openapi import component_schemas, problem_responses
from oneread.web.problems import exception_handlers, problem
from oneread.web.queries import PageQuery
from oneread.web.responses import OnereadResponse, respond
from oneread.web.sticky import StickyMiddleware
from oneread.web.streams import stream_changes

__all__ = [
    "BodyLimitMiddleware",
    "BudgetMiddleware",
    "CreateShape",
    "EntityTagMiddleware",
    "OnereadResponse",
    "PageQuery",
    "PatchShape",
    "PublicShape",
    "StickyMiddleware",
    "body_of",
    "changes_of",
    "component_schemas",
    "database",
    "database_called",
    "entity_of",
    "etag",
    "exception_handlers",
    "if_version",
    "lifespan",
    "problem",
    "problem_responses",
    "respond",
    "stream_changes",
]
