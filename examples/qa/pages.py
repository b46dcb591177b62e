"""The site for people: pages of HTML that are made here, work without JavaScript, and say what they cost."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from examples.pages import FEW, MOST, ROWS, Context, Site, number_of, ways
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
from oneread.errors import InvalidKey, NotFound
from oneread.web import BudgetMiddleware, PageQuery, database

LISTS = [("/", "Questions"), ("/unanswered", "Unanswered"), ("/users", "Users"), ("/tags", "Tags")]
PAGES = Site(
    Path(__file__).parent,
    "form-action 'none'",
    values={"site_name": "Questions and answers", "lists": LISTS, "first_list": "All questions"},
)
"""A browser runs no script of it and loads nothing but the style sheet."""


async def questions_by_score(request: Request) -> Context:
    """`/`: one range read."""
    found = await PageQuery.of(request).page(database(request), QuestionsByScore, limit=ROWS, most=MOST)
    return {"title": "Questions by score", "at": "/", "rows": found.rows, "ways": ways(request, found)}


async def unanswered(request: Request) -> Context:
    """`/unanswered`: one range read."""
    found = await PageQuery.of(request).page(database(request), Unanswered, limit=ROWS, most=MOST)
    return {"title": "Unanswered questions", "at": "/unanswered", "rows": found.rows, "ways": ways(request, found)}


async def top_users(request: Request) -> Context:
    """`/users`: one range read."""
    found = await PageQuery.of(request).page(database(request), TopUsers, limit=ROWS, most=MOST)
    return {"title": "Top users", "at": "/users", "rows": found.rows, "ways": ways(request, found)}


async def question(request: Request) -> Context:
    """A question, its answers by score, the comments on all of them: a get and two range reads."""
    db, number = database(request), number_of(request)
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
        "ways": ways(request, answers),
    }


async def comments_of_thread(request: Request) -> Context:
    """All comments of a question's page, page by page: one range read."""
    number = number_of(request)
    found = await PageQuery.of(request).page(database(request), CommentsOfThread, number, limit=MOST, most=MOST)
    return {
        "title": f"Comments on question {number}",
        "at": None,
        "number": number,
        "rows": found.rows,
        "ways": ways(request, found),
    }


async def user(request: Request) -> Context:
    """A user with their best questions and answers: a get and two range reads."""
    db, number = database(request), number_of(request)
    shown = await db.get(User, number)
    questions = await db.page(QuestionsOfUser, number, limit=FEW)
    answers = await db.page(AnswersOfUser, number, limit=FEW)
    return {"title": shown.name, "at": None, "user": shown, "questions": questions, "answers": answers}


async def questions_of_user(request: Request) -> Context:
    """All questions of a user: one range read."""
    number = number_of(request)
    found = await PageQuery.of(request).page(database(request), QuestionsOfUser, number, limit=ROWS, most=MOST)
    return {"title": f"Questions of user {number}", "at": None, "rows": found.rows, "ways": ways(request, found)}


async def answers_of_user(request: Request) -> Context:
    """All answers of a user: one range read."""
    number = number_of(request)
    found = await PageQuery.of(request).page(database(request), AnswersOfUser, number, limit=ROWS, most=MOST)
    return {"title": f"Answers of user {number}", "at": None, "rows": found.rows, "ways": ways(request, found)}


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
        "ways": ways(request, found),
    }


async def latest_month(request: Request) -> Response:
    """`/tags`: leads to the newest month; a range read of one row."""
    found = await database(request).page(TagsOfMonth, limit=1, backward=True)
    if not found.rows:
        raise NotFound("there is no month with questions yet")
    return RedirectResponse(f"/tags/months/{found.rows[0].month:%Y-%m}", status_code=302, headers=PAGES.safe)


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
        "ways": ways(request, found),
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


ROUTES = [
    PAGES.page("/", "questions.html", questions_by_score),
    PAGES.page("/unanswered", "questions.html", unanswered),
    PAGES.page("/users", "users.html", top_users),
    Route("/tags", latest_month, middleware=[Middleware(BudgetMiddleware, requests=1, rows=2)]),
    PAGES.page("/tags/months/{month}", "tags.html", tags_of_month),
    PAGES.page("/tags/{word}", "tag.html", tag, requests=2, rows=MOST + 2),
    PAGES.page("/questions/{number}", "question.html", question, requests=3, rows=2 * MOST + 3),
    PAGES.page("/questions/{number}/comments", "comments.html", comments_of_thread),
    PAGES.page("/users/{number}", "user.html", user, requests=3, rows=2 * FEW + 3),
    PAGES.page("/users/{number}/questions", "user_questions.html", questions_of_user),
    PAGES.page("/users/{number}/answers", "user_answers.html", answers_of_user),
]
