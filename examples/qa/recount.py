"""Counts a site's numbers again from its records, in plain Python: what every page has to show.

Nothing here imports oneread. It is written to be obviously right: a pass over the votes, then one over the posts.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from examples.qa.source import Data


class Expected(NamedTuple):
    """What a store must show of these records; a list holds the keys of its rows, in its order.

    Arguments:
        votes: of each vote on a post that is there, by number: the post and what the vote is worth.
        orphans: numbers of the votes on posts that are gone, which no store has.
        tag_months: questions by month and tag.
    """

    scores: dict[int, int]
    accepted: dict[int, int]
    comments: dict[int, int]
    answers: dict[int, int]
    solved: dict[int, int]
    reputations: dict[int, int]
    votes: dict[int, tuple[int, int]]
    orphans: list[int]
    tags: dict[str, int]
    tag_months: dict[tuple[datetime, str], int]
    by_score: list[int]
    unanswered: list[int]
    top_users: list[int]
    tags_of_month: dict[datetime, list[str]]


def recount(data: Data) -> Expected:
    """Everything that `check` compares with a store."""
    posts = [*data.questions, *data.answers]
    scores = dict.fromkeys((post.number for post in [*posts, *data.wikis]), 0)
    accepted = dict.fromkeys(scores, 0)
    for vote in data.votes:
        scores[vote.post] += vote.value
        accepted[vote.post] += vote.kind == "accepted"
    reputations = {user.number: 0 for user in data.users}
    for post in [*posts, *data.wikis]:
        if post.author is not None:
            reputations[post.author] += scores[post.number]
    answers = Counter(post.question for post in data.answers)
    solved = Counter[int | None]()
    for post in data.answers:
        solved[post.question] += accepted[post.number]
    comments = Counter(comment.post for comment in data.comments)
    tag_months = Counter((_month(post.posted_at), word) for post in data.questions for word in post.tags)
    uses = Counter(word for post in data.questions for word in post.tags)
    return Expected(
        scores,
        accepted,
        {post.number: comments[post.number] for post in posts},
        {post.number: answers[post.number] for post in data.questions},
        {post.number: solved[post.number] for post in data.questions},
        reputations,
        {vote.number: (vote.post, vote.value) for vote in data.votes},
        [vote.number for vote in data.orphans],
        {tag.word: uses[tag.word] for tag in data.tags},
        dict(tag_months),
        _ordered({each.number: (-scores[each.number], -each.posted_at.timestamp()) for each in data.questions}),
        _ordered({each.number: (-each.posted_at.timestamp(),) for each in data.questions if not answers[each.number]}),
        _ordered({number: (-points,) for number, points in reputations.items()}),
        _ranked(tag_months),
    )


def _ordered(places: dict[int, tuple[float, ...]]) -> list[int]:
    """Keys by place; those with one place by number."""
    return sorted(places, key=lambda number: (places[number], number))


def _ranked(tag_months: Counter[tuple[datetime, str]]) -> dict[datetime, list[str]]:
    """The words of each month, most used first; those used alike by their letters."""
    ranked: dict[datetime, list[str]] = {}
    for (month, word), _count in sorted(tag_months.items(), key=lambda each: (each[0][0], -each[1], each[0][1])):
        ranked.setdefault(month, []).append(word)
    return ranked


def _month(instant: datetime) -> datetime:
    return instant.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
