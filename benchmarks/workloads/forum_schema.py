"""The forum whose requests are counted: comments in the group of their discussion, posts that members get."""

from __future__ import annotations

from datetime import datetime

from oneread import GENERATED, Aggregate, Feed, Index, Key, Model, Schema, by, count, newest, on, shown, total


class Discussion(Model[int]):
    discussion: Key[int]
    title: str


class Comment(Model[int, int]):
    child_of = Discussion
    discussion: Key[int]
    number: Key[int] = GENERATED
    text: str
    score: int = 0


class CommentsOfDiscussion(Index[Comment]):
    discussion: int = by(Comment.discussion)
    number: int = newest(Comment.number)
    text: str = shown(Comment.text)


class Scores(Aggregate[Comment]):
    discussion: int = by(Comment.discussion)
    comments: int = count()
    score: int = total(Comment.score)


class Membership(Model[int, int]):
    group: Key[int]
    member: Key[int]


class Post(Model[int]):
    number: Key[int]
    group: int
    at: datetime
    text: str


class Home(Feed[Post]):
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(Post.group, Membership.group)


FORUM = Schema(Discussion, Comment, CommentsOfDiscussion, Scores, Membership, Post, Home)
