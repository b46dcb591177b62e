"""The site for people: pages of HTML that are made here, work without JavaScript, and say what they cost.

What someone wrote is text in them: Jinja escapes every value, and nothing is marked as safe.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.templating import Jinja2Templates

from examples.qa.schema import (
    AnswersByScore,
    AnswersOfUser,
    CommentsOfThread,
    Question,
    QuestionsByScore,
    QuestionsOfTag,
    QuestionsOfUser,
    Tag,
    TagsOfMonth,
    TopUsers,
    Unanswered,
    User,
)
from oneread import Page
from oneread.costs.budgets import budget
from oneread.errors import InvalidKey, NotFound, OnereadError
from oneread.web import BudgetMiddleware, PageQuery, database, problem

TEMPLATES = Path(__file__).parent / "templates"
ROWS, FEW, MOST = 20, 10, 100
"""Rows of a list, of a list that is a part of a page, and those that an address may ask for."""
POLICY = ("default-src 'none'", "style-src 'self'", "img-src 'self'", "base-uri 'none'", "form-action 'none'")
SAFE = {
    "Content-Security-Policy": "; ".join(POLICY),
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every page: a browser runs no script and loads nothing but the style sheet."""
WORDS = {
    400: ("This address cannot be right", "Follow a link from one of the lists above."),
    404: ("There is no such page", "It may have been deleted, or the address has a slip in it."),
    405: ("Pages can only be read", "Programs write through the JSON API under /api."),
    422: ("This address cannot be right", "Numbers in addresses are whole numbers, and months look like 2018-05."),
    503: ("This page is not ready yet", "It will be in a moment: please try again."),
}
"""What a person is stated, by status."""
FAILED = ("Something failed here", "It is not your fault, and it has been written down.")

Context = dict[str, object]
Read = Callable[[Request], Awaitable[Context]]

_LOG = logging.getLogger("examples.qa")


async def questions_by_score(request: Request) -> Context:
    """`/`: one range read."""
    found = await PageQuery.of(request).page(database(request), QuestionsByScore, limit=ROWS, most=MOST)
    return {"title": "Questions by score", "at": "/", "rows": found.rows, "ways": _ways(request, found)}


async def unanswered(request: Request) -> Context:
    """`/unanswered`: one range read."""
    found = await PageQuery.of(request).page(database(request), Unanswered, limit=ROWS, most=MOST)
    return {"title": "Unanswered questions", "at": "/unanswered", "rows": found.rows, "ways": _ways(request, found)}


async def top_users(request: Request) -> Context:
    """`/users`: one range read."""
    found = await PageQuery.of(request).page(database(request), TopUsers, limit=ROWS, most=MOST)
    return {"title": "Top users", "at": "/users", "rows": found.rows, "ways": _ways(request, found)}


async def question(request: Request) -> Context:
    """A question, its answers by score, the comments on all of them: a get and two range reads."""
    db, number = database(request), _number(request)
    asked = await db.get(Question, number)
    answers = await PageQuery.of(request).page(db, AnswersByScore, number, limit=ROWS, most=MOST)
    comments = await db.page(CommentsOfThread, number, limit=MOST)
    by_post = {post: [*rows] for post, rows in groupby(comments, lambda row: row.post.key[0])}
    return {
        "title": asked.title,
        "at": None,
        "question": asked,
        "answers": answers.rows,
        "comments": by_post,
        "more_comments": comments.next is not None,
        "ways": _ways(request, answers),
    }


async def comments_of_thread(request: Request) -> Context:
    """All comments of a question's page, page by page: one range read."""
    number = _number(request)
    found = await PageQuery.of(request).page(database(request), CommentsOfThread, number, limit=MOST, most=MOST)
    return {
        "title": f"Comments on question {number}",
        "at": None,
        "number": number,
        "rows": found.rows,
        "ways": _ways(request, found),
    }


async def user(request: Request) -> Context:
    """A user with their best questions and answers: a get and two range reads."""
    db, number = database(request), _number(request)
    shown = await db.get(User, number)
    questions = await db.page(QuestionsOfUser, number, limit=FEW)
    answers = await db.page(AnswersOfUser, number, limit=FEW)
    return {"title": shown.name, "at": None, "user": shown, "questions": questions, "answers": answers}


async def questions_of_user(request: Request) -> Context:
    """All questions of a user: one range read."""
    number = _number(request)
    found = await PageQuery.of(request).page(database(request), QuestionsOfUser, number, limit=ROWS, most=MOST)
    return {"title": f"Questions of user {number}", "at": None, "rows": found.rows, "ways": _ways(request, found)}


async def answers_of_user(request: Request) -> Context:
    """All answers of a user: one range read."""
    number = _number(request)
    found = await PageQuery.of(request).page(database(request), AnswersOfUser, number, limit=ROWS, most=MOST)
    return {"title": f"Answers of user {number}", "at": None, "rows": found.rows, "ways": _ways(request, found)}


async def tag(request: Request) -> Context:
    """What is known about a tag, and its questions by score: a get and a range read."""
    db, word = database(request), request.path_params["word"]
    shown = await db.get(Tag, word)
    found = await PageQuery.of(request).page(db, QuestionsOfTag, word, limit=ROWS, most=MOST)
    return {
        "title": f"Questions about {word}",
        "at": None,
        "tag": shown,
        "rows": found.rows,
        "ways": _ways(request, found),
    }


async def latest_month(request: Request) -> Response:
    """`/tags`: leads to the newest month; a range read of one row."""
    found = await database(request).page(TagsOfMonth, limit=1, backward=True)
    if not found.rows:
        raise NotFound("there is no month with questions yet")
    return RedirectResponse(f"/tags/months/{found.rows[0].month:%Y-%m}", status_code=302, headers=SAFE)


async def tags_of_month(request: Request) -> Context:
    """How often each tag was used in a month, most used first: one range read."""
    month = month_of(request.path_params["month"])
    found = await PageQuery.of(request).page(database(request), TagsOfMonth, month, limit=ROWS, most=MOST)
    before, after = _months_around(month)
    return {
        "title": f"Tags of {month:%B %Y}",
        "at": "/tags",
        "before": f"/tags/months/{before:%Y-%m}",
        "after": f"/tags/months/{after:%Y-%m}",
        "rows": found.rows,
        "ways": _ways(request, found),
    }


def month_of(text: str) -> datetime:
    """The first instant of a month that is written like 2018-05.

    Raises:
        InvalidKey: it is written in another way.
    """
    if len(text) == 7 and text.isascii() and text[:4].isdigit() and text[4] == "-" and text[5:].isdigit():
        year, month = int(text[:4]), int(text[5:])
        if year and 1 <= month <= 12:
            return datetime(year, month, 1, tzinfo=UTC)
    raise InvalidKey("a month is written like 2018-05", field="month")


def _months_around(month: datetime) -> tuple[datetime, datetime]:
    at = month.year * 12 + month.month - 1
    around = (divmod(min(max(each, 12), 9999 * 12 + 11), 12) for each in (at - 1, at + 1))
    before, after = (month.replace(year=year, month=index + 1) for year, index in around)
    return before, after


def _number(request: Request) -> int:
    text = request.path_params["number"]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        raise InvalidKey("a number is a whole number", field="number")
    return int(text)


def _ways(request: Request, found: Page[Any]) -> dict[str, str | None]:
    """Where the pages before and after this one are."""

    def way(cursor: str | None) -> str | None:
        if cursor is None:
            return None
        kept = [
            (name, value) for name, value in request.query_params.multi_items() if name not in ("cursor", "backward")
        ]
        return f"{quote(request.url.path)}?{urlencode([*kept, ('cursor', cursor)])}"

    return {"previous": way(found.previous), "next": way(found.next)}


# --- How a page is made ----------------------------------------------------------------------------------------------


def _day(instant: datetime) -> str:
    return f"{instant.day} {instant:%B %Y}"


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _signed(number: int) -> str:
    return f"{number:,}".replace("-", "\N{MINUS SIGN}")


def _quoted(part: str) -> str:
    """A part of a path, its slashes too."""
    return quote(part, safe="")


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., str]] = {"day": _day, "many": _many, "signed": _signed, "path": _quoted}
    made.filters.update(filters)
    return made


_TEMPLATES = Jinja2Templates(env=_environment())


def _page(path: str, template: str, read: Read, *, requests: int = 1, rows: int = MOST + 1) -> Route:
    """A page that may ask this much of the store, and says at its foot what it did ask."""

    async def answer(request: Request) -> Response:
        with budget() as spent:
            context = await read(request)
        shown = {"requests": spent.requests, "rows_read": spent.rows, **context}
        return _TEMPLATES.TemplateResponse(request, template, shown, headers=SAFE)

    bound = Middleware(BudgetMiddleware, requests=requests, rows=rows)
    return Route(path, answer, name=read.__name__, middleware=[bound])


ROUTES = [
    _page("/", "questions.html", questions_by_score),
    _page("/unanswered", "questions.html", unanswered),
    _page("/users", "users.html", top_users),
    Route("/tags", latest_month, middleware=[Middleware(BudgetMiddleware, requests=1, rows=2)]),
    _page("/tags/months/{month}", "tags.html", tags_of_month),
    _page("/tags/{word}", "tag.html", tag, requests=2, rows=MOST + 2),
    _page("/questions/{number}", "question.html", question, requests=3, rows=2 * MOST + 3),
    _page("/questions/{number}/comments", "comments.html", comments_of_thread),
    _page("/users/{number}", "user.html", user, requests=3, rows=2 * FEW + 3),
    _page("/users/{number}/questions", "user_questions.html", questions_of_user),
    _page("/users/{number}/answers", "user_answers.html", answers_of_user),
]


async def refuse(request: Request, error: Exception) -> Response:
    """An error as a page in words, with the status that the JSON API answers."""
    headers = dict(SAFE)
    if isinstance(error, OnereadError):
        answer = await problem(request, error)
        status, detail = answer.status_code, msgspec.json.decode(answer.body)["detail"]
        headers |= {"Retry-After": answer.headers["Retry-After"]} if "Retry-After" in answer.headers else {}
    elif isinstance(error, HTTPException):
        status, detail = error.status_code, ""
    else:
        status, detail = 500, ""
        _LOG.error("%s: %r", request.url.path, error, exc_info=error)
    title, words = WORDS.get(status, FAILED)
    context = {
        "title": title,
        "at": None,
        "words": words,
        "detail": detail if status in (400, 422) else "",
        "status": status,
    }
    return _TEMPLATES.TemplateResponse(request, "error.html", context, status_code=status, headers=headers)


HANDLERS: dict[Any, Any] = {OnereadError: refuse, HTTPException: refuse, Exception: refuse}
