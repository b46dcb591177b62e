"""The records of a site, from a dump of Stack Exchange or made up, and which rows of it do not fit.

Nothing here imports oneread: `check` counts again from these records, and must not share a mistake with the library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from examples.qa import generator
from examples.qa.plain import text_of
from examples.records import Misfits, Row, rows_of
from examples.shop.mistakes import Mistake

FOLDER = "stackexchange-quantumcomputing"
GENERATED = "generated"
COLUMNS = {
    "Users": ("Id", "CreationDate"),
    "Posts": ("Id", "PostTypeId", "ParentId", "CreationDate", "Score", "Body", "OwnerUserId", "Title", "Tags"),
    "Tags": ("TagName", "ExcerptPostId"),
    "Comments": ("Id", "PostId", "Text", "CreationDate", "UserId"),
    "Votes": ("Id", "PostId", "VoteTypeId", "CreationDate"),
}
"""What is read of each file, named as there; its other columns are left alone."""

QUESTION, ANSWER, WIKIS = "1", "2", ("4", "5")
VOTE_KINDS = {"1": "accepted", "2": "up", "3": "down", "5": "favourite"}
VALUES = {"up": 1, "down": -1}
MOST_TAGS, MOST_TEXT, MOST_COMMENT, MOST_TITLE = 5, 100_000, 2_000, 300
UNREADABLE, TAKEN = "rows that cannot be read", "numbers that are taken"

Files = dict[str, Iterable[tuple[str, Row]]]
"""By name of a file: its rows, each with the words by which a person finds it."""


class User(NamedTuple):
    number: int
    name: str
    joined_at: datetime


class Tag(NamedTuple):
    word: str
    about: int | None


class Post(NamedTuple):
    """A post; `title` and `tags` belong to a question, `question` to an answer.

    Arguments:
        stated: the score that the dump itself states.
    """

    number: int
    kind: str
    author: int | None
    text: str
    posted_at: datetime
    stated: int
    title: str
    tags: tuple[str, ...]
    question: int | None


class Comment(NamedTuple):
    number: int
    post: int
    author: int | None
    text: str
    written_at: datetime


class Vote(NamedTuple):
    """A vote; the dump says of few kinds who cast it."""

    number: int
    post: int
    kind: str
    cast_at: datetime
    voter: int | None

    @property
    def value(self) -> int:
        return VALUES.get(self.kind, 0)


class Data(NamedTuple):
    """All records that fit, in the order of their files.

    Arguments:
        label: what these data are called in a store.
        threads: of each question and answer, the question on whose page it is.
        orphans: votes on posts that are gone.
    """

    label: str
    users: list[User]
    wikis: list[Post]
    tags: list[Tag]
    questions: list[Post]
    answers: list[Post]
    comments: list[Comment]
    votes: list[Vote]
    threads: dict[int, int]
    orphans: list[Vote]
    misfits: Misfits


def read(data: str) -> Data:
    """Reads a folder of the dump's CSV files, or makes records up: `generated:SEED` or `generated:SEED:QUESTIONS`.

    Raises:
        Mistake: the folder has not the files, or they are not what they should be.
    """
    if data.partition(":")[0] == GENERATED:
        seed, questions = how_generated(data)
        made = generator.files(seed, questions)
        files: Files = {name: [(f"{name} row {at}", row) for at, row in enumerate(made[name], 1)] for name in COLUMNS}
        return _data(f"generated with seed {seed}, {questions} questions", files)
    folder = _located(Path(data))
    return _data(FOLDER, {name: rows_of(folder / f"{name}.csv.gz", columns) for name, columns in COLUMNS.items()})


def how_generated(data: str) -> tuple[int, int]:
    """The seed and the number of questions of `generated:SEED:QUESTIONS`; both may be left out.

    Raises:
        Mistake: it is written in another way.
    """
    numbers = data.partition(":")[2]
    found = re.fullmatch(r"(?P<seed>[0-9]{1,9})?(:(?P<questions>[1-9][0-9]{0,5}))?", numbers, re.ASCII)
    if found is None:
        raise Mistake(f"{data!r} is not generated:SEED or generated:SEED:QUESTIONS")
    return int(found["seed"] or 7), int(found["questions"] or generator.QUESTIONS)


def _located(folder: Path) -> Path:
    for place in (folder, folder / FOLDER):
        if all((place / f"{name}.csv.gz").is_file() for name in COLUMNS):
            return place
    wanted = ", ".join(f"{name}.csv.gz" for name in COLUMNS)
    raise Mistake(f"{folder} lacks some of {wanted}: name their folder, or have data made up with --data generated:7")


def _data(label: str, files: Files) -> Data:
    """Makes records of all rows; whatever refers to nothing is left out and counted."""
    misfits = Misfits()
    users = _records(files["Users"], _user, misfits)
    people = {user.number for _where, user in users}
    posts = [
        (where, post._replace(author=_author(post.author, people, where, misfits)))
        for where, post in _records(files["Posts"], _post, misfits)
    ]
    wikis = [post for _where, post in posts if post.kind in WIKIS]
    questions = [post for _where, post in posts if post.kind == QUESTION]
    asked = {post.number for post in questions}
    answers = [
        post
        for where, post in posts
        if post.kind == ANSWER and _kept(post.question in asked, "answers to questions that are gone", where, misfits)
    ]
    threads = {post.number: post.number if post.question is None else post.question for post in (*questions, *answers)}
    comments = [
        comment._replace(author=_author(comment.author, people, where, misfits))
        for where, comment in _records(files["Comments"], _comment, misfits)
        if _kept(comment.post in threads, "comments on posts that are gone", where, misfits)
    ]
    known = threads.keys() | {post.number for post in wikis}
    votes = _records(files["Votes"], _vote, misfits)
    return Data(
        label,
        [user for _where, user in users],
        wikis,
        _tags(files["Tags"], questions, {post.number for post in wikis}, misfits),
        questions,
        answers,
        comments,
        [vote for _where, vote in votes if vote.post in known],
        threads,
        [
            vote
            for where, vote in votes
            if not _kept(vote.post in known, "votes on posts that are gone", where, misfits)
        ],
        misfits,
    )


class Numbered(Protocol):
    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=Numbered)


def _records(rows: Iterable[tuple[str, Row]], make: Callable[[Row], N | None], misfits: Misfits) -> list[tuple[str, N]]:
    """The records of a file, each with its place; the first of those with one number."""
    found: dict[int, tuple[str, N]] = {}
    for where, row in rows:
        try:
            record = make(row)
        except ValueError as error:
            misfits.add(UNREADABLE, f"{where}: {error}")
            continue
        if record is not None and _kept(record.number not in found, TAKEN, where, misfits):
            found[record.number] = where, record
    return [*found.values()]


def _kept(fits: bool, reason: str, where: str, misfits: Misfits) -> bool:  # noqa: FBT001 - what is asked
    if not fits:
        misfits.add(reason, where)
    return fits


def _author(number: int | None, people: set[int], where: str, misfits: Misfits) -> int | None:
    """Who wrote it; None for someone who is not among the users any more."""
    return number if number is None or _kept(number in people, "authors that are gone", where, misfits) else None


def _user(row: Row) -> User:
    """The dump leaves names out, so that they are made of numbers."""
    number = int(row["Id"])
    return User(number, row.get("DisplayName") or f"user {number}", _instant(row["CreationDate"]))


def _post(row: Row) -> Post | None:
    """None for kinds of posts that are not shown."""
    kind = row["PostTypeId"]
    if kind not in (QUESTION, ANSWER, *WIKIS):
        return None
    tags = tuple(dict.fromkeys(re.findall("<([^<>]+)>", row["Tags"])))
    title = row["Title"].strip()
    if kind == QUESTION and not title:
        raise ValueError("a question without a title")
    if len(tags) > MOST_TAGS:
        raise ValueError(f"{len(tags)} tags")
    return Post(
        number=int(row["Id"]),
        kind=kind,
        author=_number(row["OwnerUserId"]),
        text=_bounded(text_of(row["Body"]), MOST_TEXT),
        posted_at=_instant(row["CreationDate"]),
        stated=int(row["Score"]),
        title=_bounded(title, MOST_TITLE),
        tags=tags,
        question=_number(row["ParentId"]) if kind == ANSWER else None,
    )


def _comment(row: Row) -> Comment:
    text = row["Text"].strip()
    if not text:
        raise ValueError("a comment without words")
    return Comment(
        number=int(row["Id"]),
        post=int(row["PostId"]),
        author=_number(row["UserId"]),
        text=_bounded(text, MOST_COMMENT),
        written_at=_instant(row["CreationDate"]),
    )


def _vote(row: Row) -> Vote:
    kind = VOTE_KINDS.get(row["VoteTypeId"], "other")
    return Vote(int(row["Id"]), int(row["PostId"]), kind, _instant(row["CreationDate"]), _number(row.get("UserId", "")))


def _tags(rows: Iterable[tuple[str, Row]], questions: list[Post], wikis: set[int], misfits: Misfits) -> list[Tag]:
    """The tags of the file, and those that only questions name."""
    found: dict[str, Tag] = {}
    for where, row in rows:
        word, about = row["TagName"], _number(row["ExcerptPostId"])
        if about is not None and not _kept(about in wikis, "descriptions of tags that are gone", where, misfits):
            about = None
        if _kept(bool(word) and word not in found, TAKEN, where, misfits):
            found[word] = Tag(word, about)
    for word in {word: None for post in questions for word in post.tags}:
        found.setdefault(word, Tag(word, None))
    return [*found.values()]


def _number(text: str) -> int | None:
    return int(text) if text else None


def _instant(text: str) -> datetime:
    """Times of the dump are UTC and do not say so."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _bounded(text: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(f"a text of {len(text):,} characters")
    return text
