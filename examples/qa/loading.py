"""Loading a site: who is referred to comes first, votes last, in bounded batches.

The bulk writer stores in each batch how far it is: a load that was killed continues exactly behind its last batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import perf_counter
from typing import NamedTuple

from examples.qa import schema
from examples.qa.source import Comment, Data, Post, Tag, User, Vote
from examples.resuming import BATCH, Report, save_rest, stored
from examples.shop.mistakes import Mistake
from oneread import Database, Model, Refusal


class Loaded(NamedTuple):
    """What a load did.

    Arguments:
        before: entities that an earlier load had stored.
        stored: entities that this one stored.
        refused: what the library refused, with its reason; none, since the records were looked at before.
    """

    before: int
    stored: int
    refused: list[Refusal]
    seconds: float


def load(db: Database, data: Data, report: Report, *, batch: int = BATCH) -> Loaded:
    """Loads what is not in the store yet.

    Raises:
        Mistake: the store holds other data.
    """
    started = perf_counter()
    everything, refused = count_of(data), list[Refusal]()
    with db.bulk(checkpoint=checkpoint_of(data), batch=batch, on_refused=refused.append) as bulk:
        before = stored(bulk)
        if not before and db.page(schema.User, limit=1).rows:
            raise Mistake(f"the store holds other data than {data.label}: load into a fresh --db")
        save_rest(bulk, islice(entities(data), before, None), everything, batch, report)
    report("everything", everything, everything)
    return Loaded(before, bulk.tally.stored, refused, perf_counter() - started)


def checkpoint_of(data: Data) -> str:
    """The name under which a store keeps how far a load of these data is."""
    return f"qa: {data.label}"


def count_of(data: Data) -> int:
    """How many entities these are."""
    posts = len(data.wikis) + len(data.questions) + len(data.answers)
    return len(data.users) + len(data.tags) + posts + len(data.comments) + len(data.votes)


def entities(data: Data) -> Iterator[tuple[str, Model]]:
    """All of them, each with the name of its kind, always in the same order."""
    for user in data.users:
        yield "users", _user(user)
    for wiki in data.wikis:
        yield "tags", _wiki(wiki)
    for tag in data.tags:
        yield "tags", _tag(tag)
    for question in data.questions:
        yield "questions", _question(question)
    for answer in data.answers:
        yield "answers", _answer(answer)
    for comment in data.comments:
        yield "comments", _comment(comment, data.threads[comment.post])
    for vote in data.votes:
        yield "votes", _vote(vote)


def _user(user: User) -> schema.User:
    return schema.User(number=user.number, name=user.name, joined_at=user.joined_at)


def _author(number: int | None) -> schema.Author | None:
    return None if number is None else schema.Author.of(number)


def _tag(tag: Tag) -> schema.Tag:
    return schema.Tag(word=tag.word, about=None if tag.about is None else schema.About.of(tag.about))


def _question(post: Post) -> schema.Question:
    return schema.Question(
        number=post.number, author=_author(post.author), text=post.text, posted_at=post.posted_at,
        title=post.title, tags=[schema.Tag.at(word) for word in post.tags],
    )  # fmt: skip


def _answer(post: Post) -> schema.Answer:
    return schema.Answer(
        number=post.number, author=_author(post.author), text=post.text, posted_at=post.posted_at,
        question=schema.Asked.of(post.question),
    )  # fmt: skip


def _comment(comment: Comment, thread: int) -> schema.Comment:
    return schema.Comment(
        number=comment.number, post=schema.Post.at(comment.post), thread=schema.Question.at(thread),
        author=_author(comment.author), text=comment.text, written_at=comment.written_at,
    )  # fmt: skip


def _vote(vote: Vote) -> schema.Vote:
    return schema.Vote(
        number=vote.number, post=schema.Post.at(vote.post), kind=schema.Kind(vote.kind), value=vote.value,
        cast_at=vote.cast_at,
    )  # fmt: skip


def _wiki(post: Post) -> schema.Wiki:
    return schema.Wiki(number=post.number, author=_author(post.author), text=post.text, posted_at=post.posted_at)
