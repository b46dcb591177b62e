"""A schema of everything that has no order of its own or equal values of other digits, and a history over it.

Sets stand in a field, in sets, in a nested class, in a dict, in copies shown and hidden, in what a deleted entity
leaves behind, and beside an int too wide for msgpack.
"""

import math
from decimal import Decimal
from typing import Annotated

import msgspec

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    each,
    greatest,
    least,
    mean,
    reference,
    shown,
    total,
    within,
)

WORDS = frozenset({"ab", "cd", "ef", "gh", "ij", "kl", "a word that is longer"})
GROUPS = frozenset({frozenset({"x", "y", "z"}), frozenset({"u", "v", "w", "t"}), frozenset({"one", "two", "three"})})


class Detail(msgspec.Struct, frozen=True):
    words: frozenset[str]
    by_name: dict[str, set[str]]
    reading: float = 0.0


class Topic(Model[str]):
    word: Key[str]
    title: str = ""


class Article(Model[int]):
    id: Key[int]
    words: set[str] = msgspec.field(default_factory=set)
    groups: set[frozenset[str]] = msgspec.field(default_factory=set)
    detail: Detail | None = None
    topics: Annotated[set[Ref[Topic]], msgspec.Meta(max_length=5)] = reference(on_delete="refuse")
    price: Decimal = Decimal(0)
    reading: float = 0.0
    large: int = 0


class Cited(Copy[Article]):
    words: set[str]
    groups: set[frozenset[str]]
    detail: Detail | None
    price: Decimal
    reading: float
    large: int


class Citation(Model[int]):
    id: Key[int]
    article: Cited
    also: Ref[Article] | None = reference(missing_ok=True)


class ArticlesOfWord(Index[Article]):
    word: str = by(each(Article.words))
    detail: Detail | None = shown(Article.detail)
    groups: set[frozenset[str]] = shown(Article.groups)


class ArticleOfWords(Index[Article]):
    unique = True

    id: int = by(Article.id)
    word: str = by(each(Article.words))


class ArticlesOfTopic(Index[Article]):
    topic: Ref[Topic] = by(each(Article.topics))


class CitationsOfPrice(Index[Citation]):
    price: Decimal = by(within(Citation.also, Article.price))
    words: set[str] | None = shown(within(Citation.also, Article.words))
    detail: Detail | None = shown(within(Citation.also, Article.detail))
    article: Cited = shown(Citation.article)


class WordUse(Aggregate[Article]):
    word: str = by(each(Article.words))
    uses: int = count()
    price: Decimal = total(Article.price)
    mean_price: Decimal | None = mean(Article.price)
    cheapest: Decimal | None = least(Article.price)
    dearest: Decimal | None = greatest(Article.price)


class Readings(Aggregate[Article]):
    articles: int = count()
    large: int = total(Article.large)
    price: Decimal = total(Article.price)


SCHEMA = Schema(
    Topic,
    Article,
    Citation,
    ArticlesOfWord,
    ArticleOfWords,
    ArticlesOfTopic,
    CitationsOfPrice,
    WordUse,
    Readings,
)


def article(number, **fields):
    """An article with every kind of set, its price in digits of its own."""
    words = set(WORDS) - {"ab" if number % 2 else "cd"}
    given = {
        "id": number,
        "words": words,
        "groups": set(GROUPS),
        "detail": Detail(frozenset(words), {"a": set(words), "b": {"q", "r", "s"}}, math.nan),
        "topics": {Topic.at(word) for word in ("red", "green", "blue", "yellow")},
        "price": Decimal("1.00") * number,
        "reading": math.nan if number % 2 else -0.0,
        "large": 2**70 if number == 3 else number,
    }
    return Article(**given | fields)


def history(db):
    """Entities of every kind, one changed, and deleted ones that others still copy from."""
    db.save_all([Topic(word=word) for word in ("red", "green", "blue", "yellow")])
    db.save_all([article(number) for number in range(1, 6)])
    db.save_all([Citation(id=each, article=Cited.of(1 + each % 5), also=Article.at(1 + each % 4)) for each in range(8)])
    db.patch(Article, 2, words={"other", "words", "than", "before", "ab"})
    db.delete(Article, 5)


def touched(db):
    """Every entity saved as it stands: what each cost, in requests and rows."""
    costs = []
    for model in (Topic, Article, Citation):
        for entity in db.page(model, limit=100):
            cost = db.cost(db.save(entity))
            costs.append((model.__name__, cost.requests, cost.rows))
    return costs
