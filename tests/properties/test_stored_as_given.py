"""Any value given to any field is read back equal and of the same type, or refused with the field's name."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from math import isnan
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oneread import Key, Model, Ref, Schema, add, append, connect, reference, remove, retyped
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidValue


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Colour(Enum):
    RED = "red"


class Size(StrEnum):
    BIG = "big"


class Level(IntEnum):
    HIGH = 3


class Pair(NamedTuple):
    number: int
    text: str


class Box(msgspec.Struct, frozen=True):
    text: str = "5"
    price: Decimal = Decimal(5)
    whole: tuple[int, ...] = ()


class Half(msgspec.Struct, frozen=True):
    several: Sequence[int] = ()


class Other(Model[str, float]):
    code: Key[str]
    weight: Key[float]


TYPES = (
    bool, int, float, str, bytes, bytearray, Decimal, UUID, date, time, datetime, timedelta, Colour, Size, Level, Any,
    Literal["a", 5], int | str, float | None, Decimal | None, Annotated[str, msgspec.Meta(max_length=3)], Box, Pair,
    list[int], list[float], list[str], list[Decimal], list[Any], set[int], set[float], frozenset[str], tuple[int, str],
    tuple[float, ...], dict[str, Decimal], dict[int, float], dict[str, Any], list[Box], list[tuple[str, Decimal]],
    list[list[date]], Ref[Other], list[datetime], set[tuple[int, str]],
)  # fmt: skip


def model(number):
    space = {"__annotations__": {"id": Key[int], "field": TYPES[number]}, "__module__": __name__}
    if TYPES[number] is Ref[Other]:
        space["field"] = reference(missing_ok=True)
    return type(Model)(f"M{number}", (Model,), space)


MODELS = tuple(model(number) for number in range(len(TYPES)))
DB = connect("memory://", Schema(Other, *MODELS), workers=0)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70) | st.sampled_from([2**53 + 1, 5, 0, 1]),
    st.floats(),
    st.decimals() | st.just(Decimal("1.50")),
    st.sampled_from(["5", "1_0", "a", "red", "big", "2024-05-01", "PT5S", "12:00", "NaN", "\ud800", str(UUID(int=5))]),
    st.text(max_size=3),
    st.binary(max_size=3) | st.just(b"0123456789abcdef"),
    st.sampled_from([bytearray(b"5"), memoryview(b"5"), Text("5"), Number(5), Colour.RED, Size.BIG, Level.HIGH]),
    st.dates() | st.times() | st.timedeltas() | st.uuids() | st.datetimes(),
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30))])),
    st.sampled_from(
        [Box(), Box(text=NOON.date()), Box(price=0.5), Box(whole=[1]), Pair(1, "5"), Pair("5", 1), (5, "5")]
    ),
    st.sampled_from([Ref(("a", 1)), Ref(("a", 1.5)), Ref((Size.BIG, 1.5)), Ref((1, "a")), Other.at("a", 2**53 + 1)]),
)
VALUES = SCALARS | st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(st.sampled_from(["a", 5, 5.0, True, NOON.date(), Text("b"), ("a",)]), inner, max_size=2),
        st.sets(st.sampled_from([1, True, 2.0, "a", NOON.date(), Decimal(1), (1, "a"), Level.HIGH]), max_size=2),
        st.frozensets(st.sampled_from(["a", Size.BIG, 1]), max_size=2),
        inner.map(lambda each: OrderedDict(a=each)),
        inner.map(lambda each: iter([each])),
    ),
    max_leaves=4,
)


def as_read(value):
    """A value and its types all the way down; the same instant is the same value, whatever its zone."""
    kind = Ref if isinstance(value, Ref) else type(value)  # a reference that was read knows its class
    return kind, FORMS[kind](value) if kind in FORMS else value


FORMS = {
    float: lambda value: "NaN" if isnan(value) else value,
    datetime: lambda value: value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else (value, "no zone"),
    list: lambda value: [as_read(each) for each in value],
    tuple: lambda value: [as_read(each) for each in value],
    Pair: lambda value: [as_read(each) for each in value],
    set: lambda value: {repr(as_read(each)) for each in value},
    frozenset: lambda value: {repr(as_read(each)) for each in value},
    dict: lambda value: [(as_read(key), as_read(each)) for key, each in value.items()],
    Box: lambda value: [as_read(getattr(value, name)) for name in Box.__struct_fields__],
    Ref: lambda value: as_read(value.key),
}


def is_same(given, read):
    """An int may be given for an equal float or Decimal, at any depth."""
    given, read = as_read(given), as_read(read)
    return given == read or _numbers(given) == _numbers(read)


def _numbers(form):
    if isinstance(form, tuple) and len(form) == 2 and form[0] in (int, float, Decimal) and form[1] != "NaN":
        return ("number", form[1])
    if isinstance(form, (list, tuple)):
        return type(form)(map(_numbers, form))
    if isinstance(form, set):
        return {each.replace("float", "int").replace(".0)", ")") for each in form}
    return form


@settings(max_examples=1500)
@given(number=st.integers(0, len(TYPES) - 1), value=VALUES)
@example(number=2, value=2**53 + 1)
@example(number=3, value=NOON.date())
@example(number=3, value=Decimal("1.50"))
@example(number=6, value=" 1_0 ")
@example(number=6, value=0.1 + 0.2)
@example(number=26, value=[Decimal("NaN")])
def test_a_value_is_stored_as_given_or_refused(number, value):
    cls = MODELS[number]
    saved, refusal = outcome(lambda: DB.save(cls(id=1, field=value)))
    if refusal is not None:  # a reference is refused by its key's part, or by how many it has
        named = refusal.get("field", refusal.get("declared"))
        assert named in ("code", "weight", ("code", "weight")) or named.partition("[")[0].split(".")[0] == "field"
        return
    assert is_same(value, saved.field)
    assert is_same(saved.field, DB.get(cls, 1).field)
    is_number = type(value) is int and type(saved.field) in (float, Decimal)
    assert type(saved.field) is type(value) or is_number or isinstance(value, Ref)


def outcome(save):
    """What was saved, or the facts of its refusal."""
    try:
        return save(), None
    except (InvalidValue, InvalidKey) as error:
        return None, error.facts


class Thing(Model[int]):
    id: Key[int]
    number: int = 1
    weight: float = 1.0
    price: Decimal = Decimal(1)
    day: date = NOON.date()
    numbers: set[int]
    several: list[int]


def thing():
    return Thing(id=1, numbers={1}, several=[1, 0])


@pytest.mark.parametrize(
    "changes",
    [
        {"number": add(True)},
        {"number": add(0.5)},
        {"weight": add(2**53 + 1)},
        {"weight": add(Decimal(1))},
        {"price": add(0.5)},
        {"price": add("1")},
        {"price": add(Decimal("Infinity"))},
        {"day": add(timedelta(hours=5))},
        {"numbers": append(True)},
        {"numbers": append(1.0)},
        {"several": append(True)},
        {"several": append("1")},
        {"number": "5"},
        {"price": 0.5},
    ],
    ids=range(14),
)
def test_a_patch_that_would_store_another_value_is_refused(changes):
    with connect("memory://", Schema(Thing), workers=0) as db:
        before = db.save(thing())
        for change in (lambda: db.patch(Thing, 1, **changes), lambda: db.upsert(thing(), **changes)):
            with pytest.raises(InvalidValue):
                change()
        assert db.get(Thing, 1) == before
        assert db.patch(Thing, 1, several=remove(True)).several == [1, 0]


@pytest.mark.parametrize("default", ["1_0", 0.5, Decimal("NaN")])
def test_a_default_that_would_be_read_as_another_value_is_refused(default):
    space = {"__annotations__": {"id": Key[int], "price": Decimal}, "price": default, "__module__": __name__}
    cls = type(Model)("Priced", (Model,), space)
    with pytest.raises(InvalidDeclaration) as refusal:
        Schema(cls)
    assert refusal.value.facts["field"] == "price"


@pytest.mark.parametrize("made", ["1_0", 0.5, Decimal("NaN"), None, NOON])
def test_what_retyping_returns_is_stored_as_given_or_refused(made, tmp_path):
    def priced(kind, **space):
        names = {"__annotations__": {"id": Key[int], "price": kind}, "__module__": __name__}
        return type(Model)("Priced", (Model,), names | space)

    url = f"lmdb://{tmp_path}/store?durability=none"
    old, new = priced(str), priced(Decimal, evolution=(retyped("price", was=str, by=lambda _text: made),))
    with connect(url, Schema(old), workers=0) as db:
        db.save(old(id=1, price="1"))
    with connect(url, Schema(new), workers=0) as db, pytest.raises(InvalidValue) as refusal:
        db.get(new, 1)
    assert refusal.value.facts["field"] == "price"


class Open(Model[int]):
    id: Key[int]
    several: Sequence[int] = ()
    words: AbstractSet[str] = frozenset()
    prices: Mapping[str, Sequence[Decimal]] = msgspec.field(default_factory=dict)
    inner: Half | None = None


def test_an_abstract_type_takes_each_of_its_kinds_and_is_read_as_one():
    with connect("memory://", Schema(Open), workers=0) as db:
        saved = db.save(
            Open(id=1, several=(1, 2), words=frozenset("a"), prices=OrderedDict(a=(Decimal(1),)), inner=Half())
        )
        assert (saved.several, saved.words, saved.prices) == ([1, 2], {"a"}, {"a": [Decimal(1)]})
        assert (list(db.save(Open(id=2)).several), saved.inner.several) == ([], [])
        for wrong in ({"several": (True,)}, {"several": {1}}, {"words": ("a",)}, {"prices": {"a": (0.5,)}}):
            with pytest.raises(InvalidValue) as refusal:
                db.save(Open(id=1, **wrong))
            assert refusal.value.facts["field"].partition("[")[0] == next(iter(wrong))
