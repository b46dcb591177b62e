"""What a function of `retyped(...)` makes fits the type of the field, or is refused with its name."""

from decimal import Decimal
from typing import Annotated

import msgspec
import pytest

from oneread import Key, Model, Schema, connect, retyped
from oneread.errors import InvalidValue


def made(name, base, fields, **options):
    return type(base)(name, (base,), {"__annotations__": fields, "__module__": __name__} | options)


def wrong(value):
    return f"about {value}"


@pytest.fixture
def sold(url):
    sale = made("Sale", Model, {"number": Key[int], "cents": int})
    with connect(url, Schema(sale), workers=0) as db:
        db.save(sale(number=1, cents=250))
        db.save(sale(number=2, cents=2**70))
    return url


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        (Decimal, wrong),
        (float | None, wrong),
        (str, lambda value: [value]),
        (Annotated[str, msgspec.Meta(max_length=2)], str),
        (dict[str, int], lambda _value: object()),
    ],
    ids=["Decimal", "optional", "list", "constraint", "nothing storable"],
)
@pytest.mark.parametrize("number", [1, 2])
def test_a_value_of_another_type_names_field_value_and_function(sold, kind, function, number):
    sale = made(
        "Sale", Model, {"number": Key[int], "cents": kind},
        evolution=(retyped("cents", was=int, by=function),),
    )  # fmt: skip
    with connect(sold, Schema(sale), workers=0) as db:
        with pytest.raises(InvalidValue, match="of the declared type") as failure:
            db.get(sale, number)
        facts = failure.value.facts
        value = 250 if number == 1 else 2**70
        assert (facts["model"], facts["field"], facts["value"]) == ("Sale", "cents", value)
        assert facts["function"] == function.__qualname__
        assert db.verify().found["entity"] == {"unreadable": 2}


def test_a_value_that_fits_is_taken_through_every_step(sold):
    sale = made(
        "Sale", Model, {"number": Key[int], "cents": Decimal}, evolution=(retyped("cents", was=int, by=Decimal),)
    )
    with connect(sold, Schema(sale), workers=0) as db:
        assert db.get(sale, 1).cents == Decimal(250)
        assert db.get(sale, 2).cents == Decimal(2**70)
        assert db.verify().clean
