"""Types as a store remembers them: read back from their text, and compared with those of today."""

import pytest

from oneread.errors import Corrupt
from oneread.models.descriptions import Nested, Types, parsed, widens


def fits(before, after, old=None, new=None):
    one, other = Types([("", before)], old or Nested()), Types([("", after)], new or Nested())
    return widens(one, one.by_name[""], other, other.by_name[""])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int", "int | None"),
        ("int | str", "str | int | None"),
        ("int(lt=5)", "int(lt=6)"),
        ("int(lt=5)", "int(le=5)"),
        ("int(le=4)", "int(lt=5)"),
        ("int(gt=5)", "int(ge=5)"),
        ("int(ge=6)", "int(gt=5)"),
        ("int(ge=-1, le=1)", "int(ge=-2)"),
        ("float(ge=0.5)", "float(ge=1e-07)"),
        ("int(multiple_of=6)", "int(multiple_of=3)"),
        ("str(min_length=2, max_length=3)", "str(min_length=1, max_length=9)"),
        ("str(pattern='^[(,)]+$')", "str"),
        ("str(pattern='^a$')", "str(pattern='^a$')"),
        ("Literal['a', 1]", "Literal[1, 'a', None]"),
        ("Literal['a, \\'b']", "str"),
        ("Literal[1, -2]", "int"),
        ("Colour('red')", "Colour('red', 'blue')"),
        ("Key[Colour('red')]", "Key[Colour('red', 'blue')]"),
        ("dict[str, list[int]]", "dict[str, list[int | None]]"),
        ("tuple[int, ...]", "tuple[int | None, ...]"),
        ("Place{city: str}", "Spot{city: str}"),
        ("Node{next: Node | None}", "Node{next: Node | None}"),
        ("Place{a: Colour('r'), b: Colour}", "Place{a: Colour('r', 'g'), b: Colour}"),
        ("Ref[Person]", "Ref[Person] | None"),
    ],
)
def test_a_wider_type(before, after):
    assert fits(before, after)
    assert fits(before, before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int | None", "int"),
        ("int", "float"),
        ("int", "str"),
        ("int(lt=5)", "int(lt=4)"),
        ("int(le=5)", "int(lt=5)"),
        ("int(ge=5)", "int(gt=5)"),
        ("int", "int(lt=4)"),
        ("int(multiple_of=3)", "int(multiple_of=6)"),
        ("str(pattern='a')", "str(pattern='b')"),
        ("Literal['a']", "int"),
        ("Literal['a']", "str(max_length=3)"),
        ("Literal[True]", "int"),
        ("str", "Literal['a']"),
        ("Colour('red', 'blue')", "Colour('red')"),
        ("Colour('red')", "Literal['red']"),
        ("Colour('red')", "str"),
        ("list[int]", "set[int]"),
        ("tuple[int]", "tuple[int, int]"),
        ("Place{city: str}", "Place{city: str, zip: str}"),
        ("Place{city: str, zip: str}", "Place{city: str}"),
        ("Place{city: str}", "str"),
        ("Ref[Person]", "Ref[Animal]"),
        ("Ref[Person]", "int"),
    ],
)
def test_a_type_that_is_not_wider(before, after):
    assert not fits(before, after)


def test_what_the_text_does_not_say():
    wider = Nested(defaults=frozenset({"Place.zip"}))
    assert fits("Place{city: str}", "Place{city: str, zip: str}", new=wider)
    arrays = Nested(defaults=frozenset({"Place.zip"}), arrays=frozenset({"Place"}))
    plain = Nested(arrays=frozenset({"Place"}))
    assert fits("Place{city: str}", "Place{city: str, zip: str}", plain, arrays)
    assert not fits("Place{city: str}", "Place{zip: str, city: str}", plain, arrays)
    assert not fits("Place{city: str}", "Place{city: str}", new=plain)
    assert fits("Ref[Customer]", "Ref[Client]", new=Nested(aliases={"Client": "Customer"}))


@pytest.mark.parametrize(
    "text", ["", "int |", "int)", "list[int", "(5)", "Place{city}", "int(lt=", "'a'", "Literal['a'", "a b"]
)
def test_a_text_that_no_release_wrote(text):
    with pytest.raises(Corrupt):
        parsed(text)
