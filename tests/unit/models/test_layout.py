"""Documents: what is encoded comes back, of the user's own classes; what does not fit says where and why."""

import dataclasses
import weakref
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar
from uuid import UUID

import msgspec
import pytest

from oneread.errors import Corrupt, InvalidDeclaration, InvalidValue
from oneread.models import shadow
from oneread.models.fields import GENERATED, reference
from oneread.models.fingerprints import describe
from oneread.models.layout import Layout, Layouts, field_path
from oneread.models.model import Key, Model
from oneread.models.paths import within
from oneread.models.references import Copy, Ref
from oneread.store.limits import LAST_NUMBER

T = TypeVar("T")
NOON = datetime(2011, 12, 1, 12, 26, 30, 5, tzinfo=UTC)
SOME_ID = UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(IntEnum):
    S = 1
    L = 2


class Customer(Model[int]):
    number: Key[int]
    name: str
    country: str


class Product(Model[str]):
    code: Key[str]
    name: str


class Ticket(Model[UUID, date, Colour]):
    id: Key[UUID] = GENERATED
    day: Key[date]
    colour: Key[Colour]
    title: str


class Buyer(Copy[Customer]):
    name: str
    country: str


class Sold(Copy[Product]):
    name: str


class Seat(Copy[Ticket]):
    title: str
    ticket: Ref[Ticket]
    others: list[Ref[Ticket]] | None


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer | None
    product: Sold
    quantity: Annotated[int, msgspec.Meta(ge=0)]
    unit_price: Decimal
    ordered_at: datetime


class Address(msgspec.Struct):
    street: str
    since: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    inner: "Address | None" = None


@dataclasses.dataclass
class Point:
    kind: ClassVar[str] = "point"
    x: int
    y: int


class Pair(NamedTuple):
    a: int
    b: str


class Options(TypedDict):
    loud: bool


class Box(msgspec.Struct, Generic[T]):
    content: T


Metres = NewType("Metres", float)
Instant = NewType("Instant", datetime)
FIELDS = {
    "number": (int, 5),
    "text": (str, "é\x00"),
    "raw": (bytes, b"\x00\xff"),
    "truth": (bool, True),
    "real": (float, float("inf")),
    "price": (Decimal, Decimal("2.50")),
    "id": (UUID, SOME_ID),
    "day": (date, date(2020, 2, 29)),
    "hour": (time, time(1, 2, 3, 4)),
    "span": (timedelta, timedelta(days=-2, microseconds=7)),
    "instant": (datetime, NOON),
    "colour": (Colour, Colour.RED),
    "size": (Size, Size.L),
    "literal": (Literal["a", 3] | None, 3),
    "metres": (Metres, Metres(1.5)),
    "listed": (list[datetime], [NOON]),
    "days": (set[date], {date(2020, 1, 1)}),
    "frozen": (frozenset[UUID], frozenset([SOME_ID])),
    "mapped": (dict[date, Decimal | None], {date(2020, 1, 1): None}),
    "pair": (tuple[int, datetime], (1, NOON)),
    "many": (tuple[Decimal, ...], (Decimal(1),)),
    "empty": (tuple[()], ()),
    "perhaps": (int | str | None, "x"),
    "older": (Optional[datetime], NOON),  # noqa: UP045  the older spelling is in use
    "bounded": (Annotated[list[Annotated[int, msgspec.Meta(gt=0)]], msgspec.Meta(max_length=2)], [1, 2]),
    "aware": (Annotated[datetime, msgspec.Meta(tz=True, description="said twice")], NOON),
    "aware_by_name": (Annotated[Instant, msgspec.Meta(tz=True)], NOON),
    "address": (Address, Address("a", NOON, Address("b"))),
    "point": (Point | None, Point(1, 2)),
    "named": (Pair, Pair(1, "b")),
    "options": (Options, {"loud": True}),
    "box": (Box[int], Box(3)),
    "nothing": (None, None),
    "anything": (Any, [1, {"a": None}]),
    "near": (Ref[Customer], Customer.at(1)),
    "far": (Ref[Ticket], Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)),
    "far_or_none": (Ref[Ticket] | None, None),
    "refs": (list[Ref[Ticket]], [Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)]),
    "refs_or_none": (Annotated[list[Ref[Ticket]], msgspec.Meta(max_length=9)] | None, None),
    "ref_set": (set[Ref[Ticket]], {Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)}),
    "near_set": (set[Ref[Customer]], {Customer.at(1), Customer.at(2)}),
    "ref_map": (dict[Ref[Ticket], int], {Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE): 1}),
    "maybe_refs": (list[Ref[Ticket] | None], [None, Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)]),
}


def declared(name, annotations, defaults=None, base=Model, **config):
    """A declaration made at run time, with `code` as its key when it is a model."""
    fields = ({"code": Key[str]} if base is Model else {}) | annotations
    space = {"__annotations__": fields, "__module__": __name__} | (defaults or {})
    return type(base)(name, (base,), space, **config)


def purchase(**changes):
    sold = Sold(ref=Product.at("85123A"), name="Heart")
    values = {"order": "537626", "line": 1, "product": sold, "quantity": 6, "unit_price": Decimal("2.55")}
    buyer = Buyer(ref=Customer.at(12347), name="Ada", country="Iceland")
    return Purchase(**values | {"buyer": buyer, "ordered_at": NOON} | changes)


@pytest.fixture(scope="module")
def layout():
    return Layout(Purchase, 7)


@pytest.mark.parametrize("layout_id", [3, None])
@pytest.mark.parametrize("name", FIELDS)
def test_a_field_of_every_type_comes_back(name, layout_id):
    annotation, value = FIELDS[name]
    cls = declared("One", {"it": annotation})
    one = cls(code="c", it=value)
    layout = Layout(cls, layout_id)
    doc, seen = layout.validated(one)
    assert seen == one == layout.decode(doc) == layout.decode_known(doc)
    assert layout.decode_many([doc, doc]) == [one, one]
    assert type(seen) is cls
    assert type(seen.it) is type(value)
    assert repr(seen) == repr(one)


def test_entities_and_copies_are_of_the_users_classes_on_this_interpreter(layout):
    given = purchase()
    doc = layout.encode(given)
    for seen in (layout.decode(doc), layout.decode_known(doc), layout.validated(given)[1], *layout.decode_many([doc])):
        assert (type(seen), type(seen.buyer), type(seen.product)) == (Purchase, Buyer, Sold)
        assert type(seen.buyer.ref) is type(Customer.at(1))
        assert seen == given
        assert hash(seen) == hash(given)
        with pytest.raises(AttributeError):
            seen.line = 2
        seen.__dict__["version"] = 5
        assert seen.version == 5
        assert msgspec.json.decode(msgspec.json.encode(seen), type=Purchase) == given


def test_a_copy_can_be_none(layout):
    given = purchase(buyer=None)
    doc, seen = layout.validated(given)
    assert seen == given == layout.decode_many([doc])[0]


def test_typed_references_come_back_in_copies_too():
    far = Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)
    cls = declared("Visit", {"seat": Seat})
    for others in (None, [], [far, far]):
        given = cls(code="c", seat=Seat(ref=far, title="t", ticket=far, others=others))
        seen = Layout(cls, 1).validated(given)[1]
        assert seen == given
        assert {type(each) for each in (seen.seat.ref, seen.seat.ticket, *(others or []))} == {type(far)}
        assert hash(seen.seat.ref) == hash(far)


def test_instants_come_back_in_utc(layout):
    given = purchase(ordered_at=NOON.astimezone(timezone(timedelta(hours=5))))
    seen = layout.validated(given)[1]
    assert seen == given
    assert seen.ordered_at.tzinfo is UTC


def test_the_row_class_of_a_view_needs_no_id():
    cls = declared("Row", {"buyer": Buyer | None, "tag": Ref[Customer]}, base=msgspec.Struct, frozen=True)
    layout = Layout(cls, None)
    given = cls(buyer=Buyer(ref=Ref((1,)), name="a", country="b"), tag=Ref((2**70,)))
    assert layout.decode(layout.encode(given)) == given
    assert layout.encode(given)[0] == 0xC1
    assert layout.decode_many([layout.encode(given)] * 2) == [given, given]


def test_copied_fields_of_a_missing_source_are_none():
    layout = Layout(Purchase, 7, nullable=frozenset({Buyer}))
    given = purchase(buyer=Buyer(ref=Ref((1,)), deleted=True, name=None, country=None))
    assert layout.validated(given)[1] == given
    refused(layout, purchase(product=Sold(ref=Ref(("a",)), name=None)), "product.name")


def refused(layout, entity, field):
    with pytest.raises(InvalidValue) as caught:
        layout.validated(entity)
    assert caught.value.facts["field"] == field
    assert caught.value.facts["model"] == layout.cls.__name__
    return caught.value.facts["reason"]


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("quantity", {"quantity": "x"}),
        ("quantity", {"quantity": -1}),
        ("quantity", {"quantity": -(2**80)}),
        ("ordered_at", {"ordered_at": datetime(2020, 1, 1)}),
        ("ordered_at", {"ordered_at": datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))}),
        ("unit_price", {"unit_price": object()}),
        ("unit_price", {"unit_price": None}),
        ("order", {"order": "\ud800"}),
        ("buyer.deleted", {"buyer": Buyer.of(1)}),
        ("buyer.name", {"buyer": Buyer(ref=Ref((1,)), name=3, country="x")}),
        ("buyer.country", {"buyer": Buyer(ref=Ref((1,)), name="x", country=object())}),
        ("buyer.deleted", {"buyer": Buyer(ref=Ref((1,)), deleted=None, name="x", country="x")}),
        ("buyer.ref.key", {"buyer": Buyer(ref=Ref(None), name="x", country="x")}),
        ("buyer", {"buyer": "Ada"}),
        ("buyer", {"buyer": Customer(number=1, name="x", country="y")}),
        ("product", {"product": None}),
        ("product", {"product": ()}),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_its_path(layout, field, changes):
    assert refused(layout, purchase(**changes), field)


def test_a_refusal_says_why(layout):
    assert refused(layout, purchase(quantity="x"), "quantity") == "Expected `int`, got `str`"


def test_paths_inside_a_field_are_kept():
    cls = declared("One", {"it": dict[str, list[int]], "to": Ref[Ticket]})
    ok = Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)
    assert refused(Layout(cls, 1), cls(code="c", it={"a": [1, "x"]}, to=ok), "it[...][1]")
    assert refused(Layout(cls, 1), cls(code="c", it={3: [1]}, to=ok), "it")
    assert refused(Layout(cls, 1), cls(code="c", it={}, to=Ref((SOME_ID, 5, Colour.BLUE))), "to.key[1]")
    nested = declared("Two", {"it": Address})
    assert refused(Layout(nested, 1), nested(code="c", it=Address(street=3)), "it.street")
    assert field_path("$[...]", ()) == "[...]"
    assert field_path("$[...]", Layout(Purchase, 1).fields) == "[...]"


def test_a_structure_without_end_is_refused():
    cls = declared("One", {"it": list[Any]})
    endless = []
    endless.append(endless)
    refused(Layout(cls, 1), cls(code="c", it=endless), "it")


def test_only_instances_of_the_very_class_are_taken(layout):
    class Special(Purchase):
        gift: bool = False

    with pytest.raises(InvalidValue, match="not an instance"):
        layout.validated(Customer(number=1, name="a", country="b"))
    with pytest.raises(InvalidValue, match="not an instance"):
        layout.validated(Special(**{each: getattr(purchase(), each) for each in Purchase.__struct_fields__}))


class Checked(Model[str]):
    code: Key[str]
    low: int
    high: int

    def check(self):
        if self.low > self.high:
            raise ValueError("low is above high")


def test_the_models_own_check_is_asked():
    layout = Layout(Checked, 1)
    doc, seen = layout.validated(Checked(code="a", low=1, high=2))
    assert layout.decode(doc) == seen
    wrong = Checked(code="a", low=3, high=2)
    assert layout.decode(layout.encode(wrong)).low == 3  # what is stored is not asked again
    with pytest.raises(InvalidValue) as caught:
        layout.validated(wrong)
    assert caught.value.facts == {"model": "Checked", "reason": "low is above high", "key": ("a",)}


WIDE = [2**64, -(2**63) - 1, 2**80, -(2**80), 2**127, 2**128, -(2**127), -(2**127) - 1, 10**3000]


@pytest.mark.parametrize("number", WIDE, ids=range(len(WIDE)))
def test_ints_of_any_size_come_back_wherever_they_stand(number):
    types = {name: annotation for name, (annotation, _) in FIELDS.items()}
    more = {"big": int, "bigs": dict[int, list[int]], "pairs": dict[tuple[int, str], int], "set": set[int]}
    cls = declared("All", types | more | {"seat": Seat | None})
    values = {name: value for name, (_, value) in FIELDS.items()}
    bigs = {"bigs": {number: [number, 1]}, "pairs": {(number, "x"): number}, "set": {number, 1}}
    far = Ticket.at(SOME_ID, date(2020, 1, 1), Colour.BLUE)
    seat = Seat(ref=far, title="t", ticket=far, others=[far])
    given = cls(
        code="c", **values | bigs | {"big": number, "seat": seat, "anything": [number], "near": Customer.at(number)}
    )
    layout = Layout(cls, 0x1234)
    doc, seen = layout.validated(given)
    assert doc[:2] == b"\x92\x34"
    assert seen == given
    assert repr(seen) == repr(given)
    assert [type(each) for each in (seen, seen.seat)] == [cls, Seat]
    assert type(seen.seat.ref) is type(seen.seat.others[0]) is type(far)
    assert layout.decode_many([doc, layout.encode(msgspec.structs.replace(given, big=1))]) == [
        given,
        msgspec.structs.replace(given, big=1),
    ]


def test_big_ints_obey_constraints():
    cls = declared("One", {"it": Annotated[int, msgspec.Meta(lt=10)]})
    refused(Layout(cls, 1), cls(code="c", it=2**80), "it")


BODY = msgspec.msgpack.encode
GOOD = ["537626", 1, None, [[["85123A"]], False, "Heart"], 6, "2.55", NOON]
STRANGE = {
    "empty": b"",
    "one byte": b"\x00",
    "no body": b"\x00\x07",
    "another id": b"\x00\x08" + BODY(GOOD),
    "torn": b"\x00\x07" + BODY(GOOD)[:-1],
    "more behind": b"\x00\x07" + BODY(GOOD) + b"\x00",
    "a field too few": b"\x00\x07" + BODY(GOOD[:-1]),
    "a field too many": b"\x00\x07" + BODY([*GOOD, 1]),
    "another type": b"\x00\x07" + BODY([1, *GOOD[1:]]),
    "not an array": b"\x00\x07" + BODY({"order": 1}),
    "deep": b"\x00\x07" + b"\x91" * 100_000,
    "endless": b"\x00\x07" + b"\xdd\xff\xff\xff\xff",
    "wide and torn": b"\x80\x07" + BODY(GOOD)[:-1],
    "wide and of another type": b"\x80\x07" + BODY([1, *GOOD[1:]]),
    "wide with a small int": b"\x80\x07" + BODY([GOOD[0], msgspec.msgpack.Ext(1, b"\x05"), *GOOD[2:]]),
    "wide with a long int": b"\x80\x07" + BODY([GOOD[0], msgspec.msgpack.Ext(1, b"\x00\x00" + b"\xff" * 9), *GOOD[2:]]),
    "wide with a strange extension": b"\x80\x07" + BODY([GOOD[0], msgspec.msgpack.Ext(2, b"\x7f" * 9), *GOOD[2:]]),
    "wide and deep": b"\x80\x07" + b"\x91" * 100_000,
}


def test_the_good_document_is_good(layout):
    for prefix in (b"\x00\x07", b"\x80\x07"):
        assert layout.decode(prefix + BODY(GOOD)) == purchase(buyer=None)


@pytest.mark.parametrize("name", STRANGE)
def test_strange_documents_are_corrupt(layout, name):
    layouts = Layouts()
    layouts.add(layout)
    strange = STRANGE[name]
    good = layout.encode(purchase())
    for call in (
        lambda: layout.decode(strange),
        lambda: layouts.decode(strange),
        lambda: layout.decode_many([good, strange]),
        lambda: layouts.decode_many([strange, good]),
        lambda: layouts.class_of(b"\x00\x09" + strange),
        lambda: layouts.decode_many([good, strange]),
    ):
        with pytest.raises(Corrupt):
            call()


def test_a_strange_document_without_id_is_corrupt():
    layout = Layout(declared("Row", {"a": int}, base=msgspec.Struct), None)
    for strange in (b"", b"\x91", b"\xc1", b"\xc1\x91", b"\x91\xa1a", b"\xc1\x91\xa1a"):
        with pytest.raises(Corrupt) as caught:
            layout.decode(strange)
        assert caught.value.facts["model"] == "Row"


class Gift(Purchase):
    card: str = ""


def test_a_model_and_its_variants_share_one_registry():
    layouts = Layouts()
    for number, cls in enumerate((Purchase, Gift)):
        layouts.add(Layout(cls, number))
    plain, wide = purchase(), purchase(quantity=2**90)
    gift = Gift(**{name: getattr(plain, name) for name in Purchase.__struct_fields__}, card="c")
    kept = [Layout(Purchase, 0).encode(plain), Layout(Gift, 1).encode(gift), Layout(Purchase, 0).encode(wide)]
    assert [layouts.decode(doc) for doc in kept] == [plain, gift, wide] == layouts.decode_many(kept)
    assert [type(each) for each in layouts.decode_many(kept)] == [Purchase, Gift, Purchase]
    assert [layouts.class_of(doc) for doc in kept] == [Purchase, Gift, Purchase]
    assert layouts.decode_many(kept[:1] * 3) == [plain] * 3
    assert layouts.decode_many([]) == []
    for wrong in (Layout(Customer, 0), Layout(Customer, None)):
        with pytest.raises(InvalidDeclaration, match="id of its own"):
            layouts.add(wrong)


@pytest.mark.parametrize("layout_id", [-1, LAST_NUMBER + 1])
def test_ids_have_two_bytes_less_a_bit(layout_id):
    with pytest.raises(InvalidDeclaration, match="layout ids"):
        Layout(Customer, layout_id)


class HoldsNaive(msgspec.Struct):
    at: datetime


class HoldsSaidNaive(msgspec.Struct):
    at: list[Annotated[datetime, msgspec.Meta(tz=False)]]


class HoldsFar(msgspec.Struct):
    far: dict[str, Ref[Ticket]]


class HoldsNear(msgspec.Struct):
    near: Ref[Customer]
    bare: Ref
    named: Literal["a"]


class Looped(Model["Ref[Looped]"]):
    above: Key["Ref[Looped]"]


class Tagged(msgspec.Struct, tag=True):
    a: int


WRONG = {
    "a copy in a list": (list[Buyer], "whole type of a field"),
    "a copy or a copy": (Buyer | Sold, "whole type of a field"),
    "an entity": (Customer, "cannot hold an entity"),
    "entities": (dict[str, Customer], "cannot hold an entity"),
    "a bare reference": (Ref, "which model"),
    "a reference to no model": (Ref[int], "which model"),
    "a reference to itself in a key": (Ref[Looped], "its own model"),
    "naive": (Annotated[datetime, msgspec.Meta(tz=False)], "time zone"),
    "naive inside": (HoldsNaive | None, "msgspec.Meta"),
    "said naive inside": (HoldsSaidNaive, "time zone"),
    "a typed reference inside": (list[HoldsFar], "nested class"),
    "an unknown name": (list["Nowhere"], "cannot be resolved"),  # noqa: F821
    "a type variable": (list[T], "type variable"),
    "a union that msgspec cannot tell apart": (Address | Point, "msgspec cannot store"),
}


@pytest.mark.parametrize("name", WRONG)
def test_types_that_cannot_work_are_refused_when_the_layout_is_made(name):
    annotation, words = WRONG[name]
    with pytest.raises(InvalidDeclaration, match=words):
        Layout(declared("One", {"it": annotation}), 1)


def test_a_copy_says_of_what_and_holds_no_copy():
    with pytest.raises(InvalidDeclaration, match="which model"):
        Layout(declared("One", {"it": declared("Bare", {"name": str}, base=Copy)}), 1)
    with pytest.raises(InvalidDeclaration, match="cannot hold a copy"):
        Layout(declared("Deep", {"inner": Buyer}, base=Buyer), 1)


def test_a_nested_class_may_hold_plain_references():
    cls = declared("One", {"it": HoldsNear, "tagged": Tagged | None})
    given = cls(code="c", it=HoldsNear(Ref((1,)), Ref((2,)), "a"), tagged=Tagged(1))
    assert Layout(cls, 1).validated(given)[1] == given


def test_an_interpreter_that_refuses_the_change_of_class_is_refused_at_once(monkeypatch):
    def refuse(_instance, _cls):
        raise TypeError("object layout differs")

    monkeypatch.setattr(shadow, "become", refuse)
    with pytest.raises(InvalidDeclaration, match="this interpreter") as caught:
        Layout(Customer, 1)
    assert caught.value.facts["reason"] == "object layout differs"


def test_names_that_are_keywords_are_refused():
    with pytest.raises(InvalidDeclaration, match="keyword"):
        Layout(msgspec.defstruct("Odd", [("class", int)]), 1)


class Judged(Model[str], tag=True, rename="upper", weakref=True, cache_hash=True, order=True):
    code: Key[str]
    hidden: ClassVar["Unresolvable"] = 3  # noqa: F821
    count: int = 0
    tags: list[str] = msgspec.field(default_factory=list)
    maker: Ref[Customer] | None = reference(missing_ok=True)

    def __post_init__(self):
        if self.count < 0:
            raise ValueError("below zero")


def test_options_of_the_users_class_do_not_reach_documents():
    layout = Layout(Judged, 1)
    doc = layout.encode(Judged(code="a", maker=None))
    assert doc == b"\x00\x01" + BODY(["a", 0, [], None])
    assert layout.decode(doc) == Judged(code="a", maker=None)
    assert weakref.ref(seen := layout.decode(doc))() is seen
    assert seen <= Judged(code="b", maker=None)
    with pytest.raises(Corrupt, match="below zero"):
        layout.decode(b"\x00\x01" + BODY(["a", -1, [], None]))


def test_a_marker_that_was_not_filled_in_is_not_a_value():
    refused(Layout(Judged, 1), Judged(code="a"), "maker")
    refused(Layout(Ticket, 1), Ticket(day=date(2020, 1, 1), colour=Colour.RED, title="t"), "id")


def texts(cls):
    """What is described of a class, as people see it."""
    return [(name, str(found), has_default) for name, found, has_default in describe(cls)]


def test_descriptions_are_readable():
    assert texts(Judged) == [
        ("code", "Key[str]", False),
        ("count", "int", True),
        ("tags", "list[str]", True),
        ("maker", "Ref[Customer] | None", False),
    ]
    types = {name: annotation for name, (annotation, _) in FIELDS.items()}
    described = {name: text for name, text, _ in texts(declared("All", types | {"buyer": Buyer | None}))}
    expected = {
        "literal": "Literal['a', 3] | None",
        "metres": "float",
        "mapped": "dict[date, Decimal | None]",
        "many": "tuple[Decimal, ...]",
        "empty": "tuple[()]",
        "colour": "Colour('red', 'blue')",
        "perhaps": "int | str | None",
        "bounded": "list[int(gt=0)](max_length=2)",
        "address": "Address{street: str, since: datetime | None, inner: Address | None}",
        "options": "Options{loud: bool}",
        "box": "Box{content: T}[int]",
        "nothing": "None",
        "anything": "Any",
        "far": "Ref[Ticket]",
        "buyer": "Buyer{ref: Ref[Customer], deleted: bool, name: str, country: str} | None",
    }
    assert {name: described[name] for name in expected} == expected
    assert texts(HoldsNear)[1] == ("bare", "Ref", False)


def test_the_path_of_a_copied_field_is_not_a_default():
    cls = declared("Seen", {"country": str}, {"country": within(Purchase.buyer, Buyer.country)}, base=Buyer)
    assert texts(cls)[-1] == ("country", "str", False)


def test_descriptions_differ_where_documents_do():
    one = declared("One", {"a": int, "b": str})
    same = declared("Another", {"a": int, "b": str})
    others = [
        declared("One", {"b": str, "a": int}),
        declared("One", {"a": int, "b": str | None}),
        declared("One", {"a": int, "b": str}, {"b": "x"}),
        declared("One", {"a": int, "b": Annotated[str, msgspec.Meta(max_length=3)]}),
        declared("One", {"a": int}),
        declared("One", {"a": int, "b": Address}),
    ]
    assert texts(one) == texts(same) == [("code", "Key[str]", False), ("a", "int", False), ("b", "str", False)]
    assert len({tuple(describe(each)) for each in (one, *others)}) == 1 + len(others)


class Guarded(Copy[Customer]):
    """Sets and deletes nothing by a statement."""

    name: str

    def __setattr__(self, name, value):
        raise AssertionError(name)

    def __delattr__(self, name):
        raise AssertionError(name)


class Delivery(Model[int]):
    number: Key[int]
    buyer: Buyer | None
    guarded: Guarded


@pytest.mark.parametrize("settled_before", range(4))
def test_rows_are_settled_again_after_a_call_that_was_interrupted(settled_before):
    layout = Layout(Delivery, None)
    settle = layout.settler({"buyer", "guarded"})
    guarded = Guarded(ref=Customer.at(1), name="Ada")
    buyer = Buyer(ref=Customer.at(1), name="Ada", country="UK")
    docs = [layout.encode(Delivery(number=n, buyer=buyer if n else None, guarded=guarded)) for n in range(3)]
    rows = layout.parse_many(docs)
    settle(rows[:settled_before])
    shadow.become(rows[2].buyer, Buyer)  # interrupted between the two
    for _time in range(2):
        assert settle(rows) is rows
        assert [type(row) for row in rows] == [Delivery] * 3
        assert [type(row.buyer) for row in rows] == [type(None), Buyer, Buyer]
        assert [(type(row.guarded), row.guarded.ref) for row in rows] == [(Guarded, Customer.at(1))] * 3
        for copy in (rows[1].buyer, rows[2].buyer, rows[0].guarded):
            assert not any(hasattr(copy, name) for name in ("deleted", "name", "country"))
    assert all(hasattr(row.guarded, "name") for row in layout.decode_many(docs))
