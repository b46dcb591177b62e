"""Types as a store remembers them: stored as they are declared, and compared with those of today."""

from decimal import Decimal
from enum import Enum
from typing import Annotated, Generic, Literal, TypedDict, TypeVar

import msgspec
import pytest
from msgspec import Meta

from oneread import Key, Model, Ref
from oneread.models.descriptions import Nested, Types, widens
from oneread.models.fingerprints import describe_type
from oneread.models.versions import Type

T = TypeVar("T")


class Person(Model[int]):
    number: Key[int]


class Animal(Model[int]):
    number: Key[int]


class Node(msgspec.Struct):
    next: "Node | None" = None


class Box(msgspec.Struct, Generic[T]):
    content: T


def enum(*values, name="Colour"):
    return Enum(name, [(f"member_{value}", value) for value in values])


def place(name="Place", **fields):
    return TypedDict(name, fields)


def described(annotation):
    return annotation if isinstance(annotation, Type) else describe_type(annotation, Person, "number", globals())


def shown(annotations):
    """The parameters of a test, named by the types."""
    return [pytest.param(*each, id=" to ".join(str(described(one)) for one in each)) for each in annotations]


def fits(before, after, old=None, new=None):
    before, after = described(before), described(after)
    return widens(Types([before], old or Nested()), before, Types([after], new or Nested()), after)


@pytest.mark.parametrize(
    ("before", "after"),
    shown(
        [
            (int, int | None),
            (int | str, str | int | None),
            (Annotated[int, Meta(lt=5)], Annotated[int, Meta(lt=6)]),
            (Annotated[int, Meta(lt=5)], Annotated[int, Meta(le=5)]),
            (Annotated[int, Meta(le=4)], Annotated[int, Meta(lt=5)]),
            (Annotated[int, Meta(gt=5)], Annotated[int, Meta(ge=5)]),
            (Annotated[int, Meta(ge=6)], Annotated[int, Meta(gt=5)]),
            (Annotated[int, Meta(ge=-1, le=1)], Annotated[int, Meta(ge=-2)]),
            (Annotated[int | None, Meta(ge=1)], Annotated[int, Meta(ge=0)] | None),
            (Annotated[float, Meta(ge=0.5)], Annotated[float, Meta(ge=1e-07)]),
            (Annotated[int, Meta(multiple_of=6)], Annotated[int, Meta(multiple_of=3)]),
            (Annotated[str, Meta(min_length=2, max_length=3)], Annotated[str, Meta(min_length=1, max_length=9)]),
            (Annotated[str, Meta(pattern="^[(,)]+$")], str),
            (Annotated[str, Meta(pattern="^a$")], Annotated[str, Meta(pattern="^a$")]),
            (Literal["a", 1], Literal[1, "a"] | None),
            (Literal["a, 'b"], str),
            (Literal[1, -2], int),
            (enum("red"), enum("red", "blue")),
            (enum(1), enum(1, 2)),
            (Key[enum("red")], Key[enum("red", "blue")]),
            (dict[str, list[int]], dict[str, list[int | None]]),
            (tuple[int, ...], tuple[int | None, ...]),
            (tuple[()], tuple[()]),
            (place(city=str), place("Spot", city=str)),
            (Node, Node),
            (Box[int], Box[int | None]),
            (place(a=enum("r"), b=enum("r")), place(a=enum("r", "g"), b=enum("r", "g"))),
            (Ref[Person], Ref[Person] | None),
        ]
    ),
)
def test_a_wider_type(before, after):
    assert fits(before, after)
    assert fits(before, before)


@pytest.mark.parametrize(
    ("before", "after"),
    shown(
        [
            (int | None, int),
            (int, float),
            (int, str),
            (Annotated[int, Meta(lt=5)], Annotated[int, Meta(lt=4)]),
            (Annotated[int, Meta(le=5)], Annotated[int, Meta(lt=5)]),
            (Annotated[int, Meta(ge=5)], Annotated[int, Meta(gt=5)]),
            (int, Annotated[int, Meta(lt=4)]),
            (int | None, Annotated[int | None, Meta(lt=4)]),
            (Annotated[int, Meta(multiple_of=3)], Annotated[int, Meta(multiple_of=6)]),
            (Annotated[str, Meta(pattern="a")], Annotated[str, Meta(pattern="b")]),
            (Annotated[str, Meta(pattern="a")], Annotated[str, Meta(max_length=1)]),
            (Literal["a"], int),
            (Literal["a"], Annotated[str, Meta(max_length=3)]),
            (Type("Literal", values=(True,)), int),
            (str, Literal["a"]),
            (enum("red", "blue"), enum("red")),
            (enum("red"), Literal["red"]),
            (enum("red"), str),
            (list[int], set[int]),
            (tuple[int], tuple[int, int]),
            (tuple, tuple[()]),
            (Box[int], Box[str]),
            (place(city=str), place(city=str, zip=str)),
            (place(city=str, zip=str), place(city=str)),
            (place(city=str), str),
            (Ref[Person], Ref[Animal]),
            (Ref[Person], int),
        ]
    ),
)
def test_a_type_that_is_not_wider(before, after):
    assert not fits(before, after)


def test_what_the_type_does_not_say():
    one, two = place(city=str), place(city=str, zip=str)
    wider = Nested(defaults=frozenset({"Place.zip"}))
    assert fits(one, two, new=wider)
    arrays = Nested(defaults=frozenset({"Place.zip"}), arrays=frozenset({"Place"}))
    plain = Nested(arrays=frozenset({"Place"}))
    assert fits(one, two, plain, arrays)
    assert not fits(one, place(zip=str, city=str), plain, arrays)
    assert not fits(one, one, new=plain)
    assert fits(Ref[Person], Ref[Animal], new=Nested(aliases={"Animal": "Person"}))


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (Literal["a, 'b", 3] | None, """Literal["a, 'b", 3] | None"""),
        (enum(1, 2) | None, "Colour(1, 2) | None"),
        (Annotated[int | None, Meta(ge=1)], "int(ge=1) | None"),
        (Annotated[str, Meta(pattern="^a$", max_length=3)], "str(pattern='^a$', max_length=3)"),
        (Key[Annotated[int, Meta(gt=0)]], "Key[int(gt=0)]"),
        (dict[str, tuple[Decimal, ...]], "dict[str, tuple[Decimal, ...]]"),
        (tuple[()], "tuple[()]"),
        (Node, "Node{next: Node | None}"),
        (Box[int], "Box{content: T}[int]"),
        (Ref[Person], "Ref[Person]"),
    ],
)
def test_a_type_is_stored_and_shown(annotation, text):
    found = described(annotation)
    assert str(found) == text
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(found), type=Type) == found
