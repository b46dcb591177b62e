"""A default is a value of its field's type: not a rule of a view, another library's description, nor a shared list."""

import dataclasses
import itertools
from datetime import UTC, datetime
from enum import Enum
from types import new_class
from typing import Any

import msgspec
import pydantic
import pytest

from oneread import (
    CREATED,
    GENERATED,
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    ascending,
    bucket,
    by,
    count,
    descending,
    each,
    expires,
    field,
    greatest,
    least,
    mean,
    newest,
    newest_values,
    oldest,
    on,
    reference,
    rollup,
    shown,
    total,
    within,
)
from oneread.errors import InvalidDeclaration


class Author(Model[int]):
    number: Key[int]
    name: str
    size: int
    made_at: datetime
    tags: list[str]


class AuthorCopy(Copy[Author]):
    name: str


class Sizes(Aggregate[Author]):
    number: int = by(Author.number)
    sum: int = total(Author.size)


OF_VIEWS = {
    "by": by(Author.name),
    "ascending": ascending(Author.name),
    "descending": descending(Author.name),
    "newest": newest(Author.made_at),
    "oldest": oldest(Author.made_at),
    "bucket": bucket(Author.made_at, "day"),
    "shown": shown(Author.name),
    "count": count(),
    "total": total(Author.size),
    "mean": mean(Author.size),
    "least": least(Author.size),
    "greatest": greatest(Author.size),
    "newest_values": newest_values(Author.name, by=Author.made_at, most=3),
    "on": on(Author.name, Author.name),
    "expires": expires("made_at"),
    "within": within(Author.name, AuthorCopy.name),
    "each": each(Author.tags),
    "field": field(Author.name),
    "condition": field(Author.name) == "a",
    "path": Author.name,
}
OF_MODELS = {
    "generated": GENERATED,
    "created": CREATED,
    "reference": reference(),
    "rollup": rollup(Sizes.sum),
}
OF_OTHERS = {
    "pydantic": pydantic.Field(default="Ada"),
    "a factory of pydantic": pydantic.Field(default_factory=str),
    "dataclasses": dataclasses.field(default="Ada"),
}


def declare(base, annotation, default, **more):
    space = {"__annotations__": {"held": annotation}, "held": default, **more}
    return new_class("Declared", (base,), exec_body=lambda names: names.update(space))


def model(annotation, default):
    return declare(Model[int], annotation, default, __annotations__={"number": Key[int], "held": annotation})


def refusal(*declared):
    with pytest.raises(InvalidDeclaration) as caught:
        Schema(Author, *declared)
    assert {str(fact) for fact in caught.value.facts.values()} & {"held", "name"}, caught.value
    return caught.value.message


@pytest.mark.parametrize("annotation", [str, Any, Ref[Author], AuthorCopy], ids=map(str, itertools.count()))
@pytest.mark.parametrize("rule", OF_VIEWS)
def test_a_rule_of_a_view_is_not_the_default_of_an_entity(rule, annotation):
    assert "a rule is of a view" in refusal(model(annotation, OF_VIEWS[rule]))


@pytest.mark.parametrize("default", OF_OTHERS)
def test_the_field_of_another_library_is_not_a_default(default):
    assert "description of a field for another library" in refusal(model(str, OF_OTHERS[default]))


@pytest.mark.parametrize("base", [Index[Author], Aggregate[Author], Feed[Author]], ids=map(str, itertools.count()))
@pytest.mark.parametrize("default", [*OF_MODELS, *OF_OTHERS, "within", "on", "expires", "path"])
def test_a_view_has_rules_alone(base, default):
    given = (OF_MODELS | OF_OTHERS | OF_VIEWS)[default]
    assert "a field of a view needs a rule" in refusal(declare(base, str, given))


@pytest.mark.parametrize(
    ("base", "rule", "message"),
    [
        *[(Index[Author], each, "an index has no totals") for each in ("count", "total", "mean", "least", "greatest")],
        (Index[Author], "newest_values", "an index has no totals"),
        (Aggregate[Author], "shown", "an aggregate has no shown fields"),
    ],
)
def test_a_rule_of_another_kind_of_view_is_refused(base, rule, message):
    assert message in refusal(declare(base, str, OF_VIEWS[rule]))


@pytest.mark.parametrize("default", sorted((OF_VIEWS | OF_MODELS | OF_OTHERS).keys() - {"shown", "within", "each"}))
def test_a_copied_field_has_no_rule_of_another_declaration(default):
    given = (OF_VIEWS | OF_MODELS | OF_OTHERS)[default]
    space = {"__annotations__": {"name": str}, "name": given}
    copy = new_class("Copied", (Copy[Author],), exec_body=lambda names: names.update(space))
    assert "a copied field has no default and no rule but" in refusal(model(copy, msgspec.NODEFAULT))


class Shade(Enum):
    DARK = "dark"


@dataclasses.dataclass
class Open:
    numbers: int = 0


@dataclasses.dataclass(frozen=True)
class Frozen:
    numbers: int = 0


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, "1"),
        (int, True),
        (str, 1),
        (str, str),
        (bool, 0),
        (datetime, datetime(2020, 1, 1)),
        (Shade, "dark"),
        (set[int], []),
        (dict[str, int], set()),
        (Ref[Author], 7),
        (list[int], ()),
    ],
    ids=map(str, itertools.count()),
)
def test_a_default_of_another_type_is_refused(annotation, default):
    assert "this default does not fit its field" in refusal(model(annotation, default))


@pytest.mark.parametrize("annotation", [AuthorCopy, AuthorCopy | None], ids=map(str, itertools.count()))
def test_the_default_of_a_copy_is_a_copy(annotation):
    assert "the default of a copy" in refusal(model(annotation, 7))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(Open, Open()), (tuple[list[int]], ([],)), (Any, ([],))],
    ids=map(str, itertools.count()),
)
def test_a_default_that_can_change_is_refused(annotation, default):
    assert "entities would share this default" in refusal(model(annotation, default))


@pytest.mark.parametrize(
    ("annotation", "default"),
    [
        (int, 2**70),
        (float, 1),
        (datetime, datetime(2020, 1, 1, tzinfo=UTC)),
        (Shade, Shade.DARK),
        (list[int], []),
        (set[int], set()),
        (Frozen, Frozen()),
        (str | None, None),
        (Ref[Author], Author.at(7)),
        (AuthorCopy, AuthorCopy.of(7)),
        (list[int], msgspec.field(default_factory=lambda: [1])),
    ],
    ids=map(str, itertools.count()),
)
def test_a_default_that_a_save_accepts_is_left_alone(annotation, default):
    Schema(Author, model(annotation, default))
