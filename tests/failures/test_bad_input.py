"""Wrong input: a clear error of the right class, with facts, and nothing is lost or written.

Each case is one wrong call on a filled shop. The error must be of exactly this class, must not invite to try again
unless that can help, must name what is wrong in `facts`, and every raw row of the store must be as before.
"""

from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from types import new_class
from typing import Annotated

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    add,
    any_of,
    append,
    by,
    connect,
    count,
    field,
    greatest,
    newest,
    remove,
    total,
    within,
)
from oneread.errors import (
    AlreadyExists,
    Closed,
    Conflict,
    Corrupt,
    InvalidCursor,
    InvalidKey,
    InvalidQuery,
    InvalidUrl,
    InvalidValue,
    LimitExceeded,
    MissingReference,
    NotFound,
    NotReady,
    NotUnique,
    SchemaMismatch,
    StillReferenced,
    StoreError,
    UsageError,
)
from tests.unit.database.faces import FACES
from tests.unit.database.shop import (
    NOON,
    SHOP,
    Buyer,
    Customer,
    CustomerNames,
    Product,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
    PurchasesOfTag,
    SalesOfProduct,
    Sold,
    Tag,
    all_rows,
    customer,
    fill,
    product,
    purchase,
)


class Colour(Enum):
    RED = "red"


class Thing(Model[str]):
    """Keys and values of every type that can go wrong."""

    code: Key[str]
    name: str = ""
    when: datetime = NOON
    on: date | None = None
    size: float = 0.0
    weight: Decimal = Decimal(0)
    colour: Colour = Colour.RED
    short: Annotated[str, msgspec.Meta(max_length=3)] = ""
    many: list[int] = msgspec.field(default_factory=list)
    named: dict[str, int] = msgspec.field(default_factory=dict)
    raw: bytes = b""
    count: int = 0

    def check(self):
        if self.name == "forbidden":
            raise ValueError("not that name")


class ThingsByName(Index[Thing]):
    name: str = by(Thing.name)


class ThingsBySize(Index[Thing]):
    size: float = by(Thing.size)
    when: datetime = newest(Thing.when)


class Weights(Aggregate[Thing]):
    weight: Decimal = total(Thing.weight)
    biggest: float | None = greatest(Thing.size)


class Stranger(Model[int]):
    number: Key[int]


class StrangersByNumber(Index[Stranger]):
    number: int = by(Stranger.number)


SCHEMA = Schema(*SHOP, Thing, ThingsByName, ThingsBySize, Weights)
NAIVE = datetime(2024, 5, 1)
LONG = "x" * 300


@pytest.fixture(
    params=[(face, engine) for face in FACES for engine in ("memory", "lmdb")], ids="-".join, scope="module"
)
def db(request, tmp_path_factory):
    """A filled store, which all tests share: what is refused changes nothing."""
    face, engine = request.param
    url = "memory://" if engine == "memory" else f"lmdb://{tmp_path_factory.mktemp('refused')}/store?durability=none"
    db = FACES[face](url, SCHEMA, workers=0)
    fill(db)
    db.save(Thing(code="t", name="thing", count=1))
    yield db
    db.close()


def thing(**fields):
    return Thing(**{"code": "n"} | fields)


def a_cursor(db, *given, **named):
    return db.page(*given, **named, limit=1).next


WRONG = {
    # Calls about classes.
    "an entity of a class not in the schema": (UsageError, "given", lambda db: db.save(Stranger(number=1))),
    "a view is saved": (
        UsageError,
        "given",
        lambda db: db.save(db.get(CustomerNames, "Customer 1")),
    ),
    "nothing is saved": (UsageError, "given", lambda db: db.save(None)),
    "a class is saved": (UsageError, "given", lambda db: db.create(Customer)),
    "a dict is saved": (UsageError, "given", lambda db: db.save_all([{"number": 1}])),
    "get of a class not in the schema": (UsageError, "given", lambda db: db.get(Stranger, 1)),
    "get_many of a view that only has pages": (
        InvalidQuery,
        "view",
        lambda db: db.get_many(PurchasesOfBuyer, [(1, NOON)]),
    ),
    "get_many of a class not in the schema": (UsageError, "given", lambda db: db.get_many(Stranger, [(1,)])),
    "page of a class not in the schema": (UsageError, "given", lambda db: db.page(StrangersByNumber)),
    "patch of a view": (UsageError, "given", lambda db: db.patch(PurchasesOfBuyer, 1, quantity=2)),
    "delete of a view": (UsageError, "given", lambda db: db.delete(SalesOfProduct, "p")),
    "cost of what no database returned": (UsageError, "given", lambda db: db.cost(customer())),
    "version of what is not an entity": (UsageError, "given", lambda db: db.version(5)),
    # Keys.
    "too few parts": (InvalidKey, "given", lambda db: db.get(Purchase, "o")),
    "too many parts": (InvalidKey, "given", lambda db: db.get(Customer, 1, 2)),
    "no parts": (InvalidKey, "given", lambda db: db.delete(Customer)),
    "a key of another type": (InvalidKey, "field", lambda db: db.get(Customer, "1")),
    "a truth value for an int": (InvalidKey, "field", lambda db: db.get(Customer, True)),
    "None in a key": (InvalidKey, "field", lambda db: db.get(Product, None)),
    "a list in a key": (InvalidKey, "field", lambda db: db.find(Product, ["p"])),
    "a key too long": (InvalidKey, "limit", lambda db: db.get(Product, LONG)),
    "save under a key too long": (InvalidKey, "limit", lambda db: db.save(product(LONG))),
    "save under a key of another type": (InvalidKey, "field", lambda db: db.save(customer("1"))),
    "a lone surrogate in a key": (InvalidKey, "field", lambda db: db.save(product("\ud800"))),
    "keys that are not tuples": (InvalidKey, "key", lambda db: db.get_many(Customer, [1, 2])),
    "a key that is text": (InvalidKey, "key", lambda db: db.get_many(Product, ["p"])),
    "an indexed value too long": (InvalidKey, "limit", lambda db: db.save(thing(name=LONG))),
    "NaN in an index": (InvalidKey, "field", lambda db: db.save(thing(size=float("nan")))),
    "a group with too few values": (InvalidQuery, "view", lambda db: db.get(SalesOfProduct)),
    "a group of a product that is a number": (InvalidKey, "field", lambda db: db.get(SalesOfProduct, 5)),
    "get of an index that is not unique": (InvalidQuery, "view", lambda db: db.get(PurchasesOfBuyer, 1, NOON)),
    # Values.
    "text for a number": (InvalidValue, "field", lambda db: db.save(purchase(quantity="1"))),
    "a number for text": (InvalidValue, "field", lambda db: db.save(thing(name=1))),
    "None for a value": (InvalidValue, "field", lambda db: db.patch(Thing, "t", name=None)),
    "a naive instant": (InvalidValue, "field", lambda db: db.save(purchase(ordered_at=NAIVE))),
    "a naive instant where no view looks": (InvalidValue, "field", lambda db: db.save(thing(when=NAIVE))),
    "a lone surrogate in a value": (InvalidValue, "field", lambda db: db.save(product(note="\ud800"))),
    "a value longer than declared": (InvalidValue, "field", lambda db: db.save(thing(short="long"))),
    "an object": (InvalidValue, "field", lambda db: db.save(thing(name=object()))),
    "a text that is not a member": (InvalidValue, "field", lambda db: db.save(thing(colour="blue"))),
    "an element of another type": (InvalidValue, "field", lambda db: db.save(thing(many=[1, "2"]))),
    "the model's own check": (InvalidValue, "reason", lambda db: db.save(thing(name="forbidden"))),
    "an infinite Decimal": (InvalidValue, "field", lambda db: db.save(thing(weight=Decimal("inf")))),
    "a Decimal too far out to be summed": (InvalidValue, "view", lambda db: db.save(thing(weight=Decimal("1e5000")))),
    "an entity too large": (LimitExceeded, "limit", lambda db: db.save(thing(raw=bytes(2_000_000)))),
    "text for a copy": (InvalidValue, "field", lambda db: db.save(msgspec.structs.replace(purchase(), buyer="1"))),
    "a reference for a copy": (InvalidValue, "field", lambda db: db.save(msgspec.structs.replace(purchase(), buyer=5))),
    "no value for a list of references": (
        InvalidValue,
        "field",
        lambda db: db.save(
            Purchase(order="n", line=1, buyer=Buyer.of(1), product=Sold.of("p")),
        ),
    ),
    "numbers for references": (InvalidValue, "field", lambda db: db.save(purchase(tags=["new"]))),
    "more references than declared": (
        InvalidValue,
        "field",
        lambda db: db.save(purchase(tags=[Tag.at("new"), Tag.at("old"), Tag.at("new"), Tag.at("old")])),
    ),
    "a copy whose key is of another type": (InvalidKey, "field", lambda db: db.save(purchase(buyer="o"))),
    "a copy of too many parts": (InvalidKey, "given", lambda db: db.save(purchase(buyer=1, sold="p", tags=[Ref(())]))),
    # References.
    "a copy of what is not there": (MissingReference, "field", lambda db: db.save(purchase(9, buyer=99))),
    "a reference to what is not there": (
        MissingReference,
        "field",
        lambda db: db.patch(Purchase, "o", 1, tags=[Tag.at("lost")]),
    ),
    "the delete of what may not go": (StillReferenced, None, lambda db: db.delete(Product, "p")),
    # Patches.
    "patch of what is not there": (NotFound, "key", lambda db: db.patch(Customer, 99, name="?")),
    "get of what is not there": (NotFound, "key", lambda db: db.get(Customer, 99)),
    "get of a unique value without an owner": (NotFound, "key", lambda db: db.get(CustomerNames, "nobody")),
    "patch of an unknown field": (InvalidValue, "field", lambda db: db.patch(Customer, 1, nmae="?")),
    "patch of a part of the key": (InvalidValue, "field", lambda db: db.patch(Customer, 1, number=5)),
    "patch of nothing": (InvalidValue, "model", lambda db: db.patch(Customer, 1)),
    "append on a text": (InvalidValue, "field", lambda db: db.patch(Thing, "t", name=append("x"))),
    "append on a number": (InvalidValue, "field", lambda db: db.patch(Thing, "t", count=append(1))),
    "append on a dict": (InvalidValue, "field", lambda db: db.patch(Thing, "t", named=append("x"))),
    "append of another type": (InvalidValue, "field", lambda db: db.patch(Thing, "t", many=append("x"))),
    "remove on a text": (InvalidValue, "field", lambda db: db.patch(Thing, "t", name=remove("t"))),
    "remove on nothing": (InvalidValue, "field", lambda db: db.patch(Thing, "t", on=remove(1))),
    "add of text to a number": (InvalidValue, "field", lambda db: db.patch(Thing, "t", count=add("1"))),
    "add to nothing": (InvalidValue, "field", lambda db: db.patch(Thing, "t", on=add(1))),
    "add beyond exactness": (InvalidValue, "field", lambda db: db.patch(Thing, "t", weight=add(Decimal("1e-9999999")))),
    "upsert with an unknown field": (InvalidValue, "field", lambda db: db.upsert(customer(1), nmae="?")),
    "upsert of nothing more": (InvalidValue, "model", lambda db: db.upsert(customer(1))),
    # What is taken, and versions.
    "create twice": (AlreadyExists, "owner", lambda db: db.create(customer(1))),
    "a unique value of another entity": (NotUnique, "owner", lambda db: db.save(customer(3, name="Customer 1"))),
    "a unique value, patched": (NotUnique, "view", lambda db: db.patch(Customer, 2, name="Customer 1")),
    "a unique value twice in a batch": (
        NotUnique,
        "owner",
        lambda db: db.save_all([customer(3, name="A"), customer(4, name="A")]),
    ),
    "a stale version": (Conflict, "expected", lambda db: db.save(customer(1), if_version=5)),
    "a version of what should not be there": (Conflict, "version", lambda db: db.save(customer(1), if_version=0)),
    "a version of what is not there": (Conflict, "version", lambda db: db.patch(Customer, 99, name="?", if_version=5)),
    "delete of a stale version": (Conflict, "key", lambda db: db.delete(Customer, 2, if_version=1)),
    "a batch with a bad end": (MissingReference, "field", lambda db: db.save_all([customer(9), purchase(9, buyer=99)])),
    "a version that is text": (InvalidValue, "if_version", lambda db: db.save(customer(1), if_version="x")),
    "a version that is text, in a patch": (
        InvalidValue,
        "if_version",
        lambda db: db.patch(Customer, 1, name="?", if_version="x"),
    ),
    "a version that is a truth value": (InvalidValue, "if_version", lambda db: db.delete(Customer, 1, if_version=True)),
    "keys that are a number": (UsageError, "given", lambda db: db.get_many(Customer, 5)),
    "a batch that is a number": (UsageError, "given", lambda db: db.save_all(5)),
    "a batch of text": (UsageError, "batch", lambda db: db.save_all([customer(9)], batch="x")),
    "get of a list": (UsageError, "given", lambda db: db.get([])),
    "find of a list": (UsageError, "given", lambda db: db.find([], 1)),
    "page of a list": (UsageError, "given", lambda db: db.page([])),
    "get_many of a list": (UsageError, "given", lambda db: db.get_many([], [(1,)])),
    "delete of a list": (UsageError, "given", lambda db: db.delete([], 1)),
    "a transaction never attempted": (UsageError, "attempts", lambda db: db.transact(print, attempts=0)),
    "a direction that is text": (InvalidQuery, "backward", lambda db: db.page(Purchase, backward="x")),
    "a batch of none": (UsageError, "batch", lambda db: db.save_all([customer(9)], batch=0)),
    # Pages.
    "limit 0": (InvalidQuery, "limit", lambda db: db.page(Purchase, limit=0)),
    "a limit below 0": (InvalidQuery, "limit", lambda db: db.page(Purchase, limit=-1)),
    "a limit above the maximum": (InvalidQuery, "max_limit", lambda db: db.page(Purchase, limit=1001)),
    "a limit above the view's own maximum": (
        InvalidQuery,
        "max_limit",
        lambda db: db.page(PurchasesOfProduct, limit=21),
    ),
    "a limit that is text": (InvalidQuery, "limit", lambda db: db.page(Purchase, limit="5")),
    "a limit that is a truth value": (InvalidQuery, "limit", lambda db: db.page(Purchase, limit=True)),
    "a budget below 0": (InvalidQuery, "budget", lambda db: db.page(Purchase, budget=-1)),
    "a condition that is none": (InvalidQuery, "where", lambda db: db.page(Purchase, where=True)),
    "a condition on a field that the row has not": (
        InvalidQuery,
        "path",
        lambda db: db.page(PurchasesOfBuyer, where=field(Purchase.price) > Decimal(1)),
    ),
    "a condition that does not apply": (
        InvalidQuery,
        "condition",
        lambda db: db.page(Purchase, where=field(Purchase.order) > 5),
    ),
    "more values than the key has": (InvalidKey, "declared", lambda db: db.page(PurchasesOfBuyer, 1, NOON, 3)),
    "more parts than the key of an entity has": (InvalidKey, "view", lambda db: db.page(Purchase, "o", 1, 2)),
    "an equal value of another type": (InvalidKey, "field", lambda db: db.page(PurchasesOfBuyer, "1")),
    "a naive instant in a key": (InvalidKey, "field", lambda db: db.page(PurchasesOfBuyer, 1, NAIVE)),
    "since a naive instant": (InvalidKey, "field", lambda db: db.page(PurchasesOfBuyer, 1, since=NAIVE)),
    "since of another type": (InvalidKey, "field", lambda db: db.page(PurchasesOfBuyer, 1, since=5)),
    "until of another type": (InvalidKey, "field", lambda db: db.page(Purchase, "o", until="5")),
    "since NaN": (InvalidKey, "field", lambda db: db.page(ThingsBySize, since=float("nan"))),
    "starts_with on an int": (InvalidKey, "field", lambda db: db.page(Purchase, "o", starts_with="1")),
    "starts_with bytes on a text": (InvalidKey, "field", lambda db: db.page(Purchase, starts_with=b"o")),
    "a bound behind the last field": (InvalidQuery, "view", lambda db: db.page(PurchasesOfTag, "new", since=1)),
    "any of 31": (InvalidQuery, "given", lambda db: db.page(PurchasesOfProduct, any_of(*map(str, range(31))))),
    "any of none": (InvalidQuery, "given", lambda db: db.page(PurchasesOfProduct, any_of())),
    "two any_of": (InvalidQuery, "view", lambda db: db.page(PurchasesOfProduct, any_of("p"), any_of(1, 2))),
    "any_of another type": (InvalidKey, "field", lambda db: db.page(PurchasesOfProduct, any_of("p", 5))),
    # Cursors.
    "a cursor that is none": (InvalidCursor, None, lambda db: db.page(Purchase, cursor="!")),
    "a cursor that is bytes": (InvalidCursor, None, lambda db: db.page(Purchase, cursor=b"x")),
    "an empty cursor": (InvalidCursor, None, lambda db: db.page(Purchase, cursor="")),
    "a cursor cut short": (InvalidCursor, None, lambda db: db.page(Purchase, cursor=a_cursor(db, Purchase)[:20])),
    "a cursor of another view": (
        InvalidCursor,
        None,
        lambda db: db.page(PurchasesOfBuyer, 1, cursor=a_cursor(db, PurchasesOfProduct, "p")),
    ),
    "a cursor of entities for a view": (
        InvalidCursor,
        None,
        lambda db: db.page(PurchasesOfBuyer, 1, cursor=a_cursor(db, Purchase)),
    ),
    "a cursor from other parameters": (
        InvalidCursor,
        None,
        lambda db: db.page(PurchasesOfBuyer, 2, cursor=a_cursor(db, PurchasesOfBuyer, 1)),
    ),
    "a cursor from other bounds": (
        InvalidCursor,
        None,
        lambda db: db.page(Purchase, "o", since=2, cursor=a_cursor(db, Purchase, "o")),
    ),
    "a cursor from another condition": (
        InvalidCursor,
        None,
        lambda db: db.page(Purchase, where=field(Purchase.quantity) > 9, cursor=a_cursor(db, Purchase)),
    ),
    "an unsigned cursor with a signature": (
        InvalidCursor,
        None,
        lambda db: db.page(Purchase, cursor=signed_cursor()),
    ),
}


def signed_cursor():
    with connect("memory://", SCHEMA, workers=0, cursor_secret=b"s" * 32) as other:
        fill(other)
        return a_cursor(other, Purchase)


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_call_is_refused_and_changes_nothing(db, case):
    kind, fact, call = WRONG[case]
    before = all_rows(db)
    with pytest.raises(kind) as refusal:
        call(db)
    assert type(refusal.value) is kind
    assert refusal.value.retryable == (kind is Conflict)
    assert isinstance(refusal.value, StoreError if kind in (Conflict, LimitExceeded) else UsageError)
    assert fact is None or fact in refusal.value.facts, refusal.value
    assert all_rows(db) == before


def test_who_owns_a_unique_value_is_said(db):
    with pytest.raises(AlreadyExists) as refusal:
        db.save(customer(3, name="Customer 1"))
    assert refusal.value.facts["owner"] == "Customer(1)"
    with pytest.raises(AlreadyExists) as refusal:
        db.create(purchase(1))
    assert refusal.value.facts["owner"] == "Purchase('o', 1)"


def test_the_field_and_the_limit_are_said(db):
    with pytest.raises(InvalidValue) as refusal:
        db.save(purchase(quantity="1"))
    assert (refusal.value.facts["model"], refusal.value.facts["field"]) == ("Purchase", "quantity")
    with pytest.raises(InvalidKey) as refused:
        db.save(product(LONG))
    assert (refused.value.facts["field"], refused.value.facts["limit"]) == ("code", 200)
    with pytest.raises(LimitExceeded) as exceeded:
        db.save(thing(raw=bytes(2_000_000)))
    assert exceeded.value.facts["limit"] == 1_000_000


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_ints_beyond_64_bits_are_accepted(url, face):
    db = face(url, SCHEMA, workers=0)
    fill(db)
    for number in (2**64, -(2**64), 10**100):
        assert db.save(purchase(1, quantity=number)).quantity == number
        assert db.get(SalesOfProduct, "p").units == number + 2 + 3
        assert db.page(PurchasesOfProduct, "p", number)[0].source == Ref(("o", 1))
        assert db.save(customer(number, name=str(number))).number == number
    db.close()


def test_a_wrong_step_in_a_transaction_leaves_nothing_of_it(db):
    before = all_rows(db)
    with pytest.raises(MissingReference):
        db.transact([("save", (customer(9),), {}), ("save", (purchase(9, buyer=99),), {})])
    with pytest.raises(NotFound):
        db.transact([("save", (customer(9),), {}), ("get", (Customer, 99), {})])
    with pytest.raises(UsageError):
        db.transact([("save", (customer(9),), {}), ("get", (SalesOfProduct, "p"), {})])
    with pytest.raises(Conflict):
        db.transact([("save", (customer(9),), {}), ("delete", (Customer, 1), {"if_version": 3})])
    assert all_rows(db) == before


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_tampered_cursor_is_refused(url, face):
    db = face(url, SCHEMA, workers=0, cursor_secret=b"s" * 32)
    fill(db)
    cursor = a_cursor(db, PurchasesOfBuyer, 1)
    assert len(db.page(PurchasesOfBuyer, 1, cursor=cursor)) == 2
    for place in range(len(cursor)):
        other = "A" if cursor[place] != "A" else "B"
        with pytest.raises(InvalidCursor):
            db.page(PurchasesOfBuyer, 1, cursor=cursor[:place] + other + cursor[place + 1 :])
    db.close()
    elsewhere = connect("memory://", SCHEMA, workers=0, cursor_secret=b"a" * 32)
    fill(elsewhere)
    with pytest.raises(InvalidCursor):
        elsewhere.page(PurchasesOfBuyer, 1, cursor=cursor)
    elsewhere.close()


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_closed_database(url, face):
    db = face(url, SCHEMA, workers=0)
    fill(db)
    db.db.close() if face is FACES["sync"] else db.runner.run(db.db.close())
    for call in (
        lambda: db.get(Customer, 1),
        lambda: db.page(Purchase),
        lambda: db.get(SalesOfProduct, "p"),
        lambda: db.save(customer(1)),
        lambda: db.delete(Customer, 1),
        db.drain,
    ):
        with pytest.raises(Closed) as refusal:
            call()
        assert not refusal.value.retryable
    db.close()


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ("mysql://localhost/shop", "scheme"),
        ("shop", "known"),
        ("", "known"),
        ("memory://?a=1", "options"),
        ("memory://#x", "url"),
        ("hbase://[", "server"),
        ("lmdb://", None),
        ("lmdb://x?durability=some", None),
        ("lmdb://x?colour=red", None),
        ("lmdb://x?durability", "url"),
        (5, "given"),
        (None, None),
    ],
)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_url_that_names_no_store(face, wrong, fact):
    with pytest.raises(InvalidUrl) as refusal:
        face(wrong, SCHEMA)
    assert not refusal.value.retryable
    assert fact is None or fact in refusal.value.facts


@pytest.mark.parametrize("schema", [None, Customer, (Customer,), "shop"])
def test_a_schema_that_is_none(url, schema):
    with pytest.raises(UsageError) as refusal:
        connect(url, schema)
    assert "given" in refusal.value.facts


@pytest.mark.parametrize("secret", ["t" * 32, 5, bytearray(32)])
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_cursor_secret_that_is_none(face, secret):
    with pytest.raises(UsageError) as refusal:
        face("memory://", SCHEMA, cursor_secret=secret)
    assert refusal.value.facts == {"given": type(secret)}


@pytest.mark.parametrize("secret", [b"", b"?", b"secret of 15 by"])
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_cursor_secret_that_can_be_guessed(face, tmp_path, secret):
    for url in ("memory://", "memory://?span=row", f"lmdb://{tmp_path}/store?durability=none"):
        with pytest.raises(UsageError, match=r"secrets\.token_bytes") as refusal:
            face(url, SCHEMA, cursor_secret=secret)
        assert refusal.value.facts == {"bytes": len(secret)}
        assert "secret of 15 by" not in repr(refusal.value)
    face("memory://", SCHEMA, cursor_secret=b"secret of 16 byt", workers=0).close()
    assert not (tmp_path / "store").exists()


def test_a_file_that_is_not_a_store_of_ours(tmp_path):
    path = tmp_path / "store"
    path.mkdir()
    (path / "data.mdb").write_bytes(b"a letter" * 4096)
    with pytest.raises(Corrupt) as refusal:
        connect(f"lmdb://{path}", SCHEMA)
    assert not refusal.value.retryable
    assert (path / "data.mdb").read_bytes() == b"a letter" * 4096


# A store that is opened again under another schema.


class Note(Model[int]):
    number: Key[int]
    text: str


class NotesByText(Index[Note]):
    text: str = by(Note.text)


class NoteCount(Aggregate[Note]):
    notes: int = count()


def declared(name, base, fields, **space):
    """A class with other fields, declared as a `class` statement would."""
    space |= {"__annotations__": fields, "__module__": __name__}
    return new_class(name, (base,), {}, lambda body: body.update(space))


def described(**fields):
    """Another model Note, and a view of it."""
    fields = {"number": Key[int], "text": str} | fields
    note = declared("Note", Model, fields)
    return note, declared("NotesByText", Index[note], {"text": fields["text"]}, text=by(note.text))


CHANGED = {
    "a field of another type": (lambda: Schema(*described(text=int)), "model"),
    "a field more": (lambda: Schema(*described(more=str)), "changed"),
    "a model missing": (lambda: Schema(Customer), "model"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_store_opened_under_a_schema_that_does_not_fit(tmp_path, case):
    make, fact = CHANGED[case]
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note, NotesByText), workers=0) as db:
        db.save(Note(number=1, text="one"))
        before = all_rows(db)
    with pytest.raises(SchemaMismatch) as refusal:
        connect(url, make(), workers=0)
    assert fact in refusal.value.facts
    assert not refusal.value.retryable
    with connect(url, Schema(Note, NotesByText), workers=0) as db:
        assert all_rows(db) == before
        assert db.page(NotesByText)[0].text == "one"


def test_a_struct_inside_a_model_that_was_changed(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    first, second = (declared("Inner", msgspec.Struct, {"size": kind}) for kind in (int, str))
    model = declared("Holder", Model, {"number": Key[int], "inner": first})
    with connect(url, Schema(model), workers=0) as db:
        db.save(model(number=1, inner=first(size=1)))
    with pytest.raises(SchemaMismatch):
        connect(url, Schema(declared("Holder", Model, {"number": Key[int], "inner": second})), workers=0)


class Place(msgspec.Struct):
    city: str
    state: str


class Person(Model[int]):
    number: Key[int]
    home: Place


def living(path=Place.city, **promises):
    shown = declared("Where", Copy[Person], {"city": str}, city=within(Person.home, path), **promises)
    return Schema(Person, declared("Letter", Model, {"number": Key[int], "to": shown | None}))


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        ({}, {"path": Place.state}, "to.city"),
        ({"on_delete": "clear"}, {"on_delete": "keep"}, "to"),
        ({"missing_ok": True}, {"missing_ok": False}, "to"),
    ],
)
def test_a_copy_that_takes_another_path_or_promises_more(tmp_path, before, after, named):
    url = f"lmdb://{tmp_path}/store?durability=none"
    first = living(**before)
    with connect(url, first, workers=0) as db:
        letter = first.named()["Letter"]
        db.save(Person(number=1, home=Place(city="Paris", state="France")))
        db.save(letter(number=1, to=None))
    with pytest.raises(SchemaMismatch) as refusal:
        connect(url, living(**after), workers=0)
    assert refusal.value.facts["changed"] == [named]
    connect(url, first, workers=0).close()


def test_a_view_added_to_a_store_with_data_is_not_served_before_it_is_built(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note), workers=0) as db:
        db.save(Note(number=1, text="one"))
    with connect(url, Schema(Note, NotesByText, NoteCount), workers=0) as db:
        for call in (lambda: db.page(NotesByText), lambda: db.get(NoteCount), lambda: db.page(NoteCount)):
            with pytest.raises(NotReady) as refusal:
                call()
            assert refusal.value.retryable
            assert "view" in refusal.value.facts
        db.save(Note(number=1, text="uno"))
        assert db.get(Note, 1).text == "uno"


def test_a_view_added_to_an_empty_kind_is_served_at_once(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note), workers=0):
        pass
    with connect(url, Schema(Note, NotesByText), workers=0) as db:
        db.save(Note(number=1, text="one"))
        assert len(db.page(NotesByText)) == 1


def test_an_older_program_writes_the_views_of_a_newer_schema(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note, NotesByText, NoteCount), workers=0) as db:
        db.save(Note(number=1, text="one"))
    with connect(url, Schema(Note, NotesByText), workers=0) as db:
        db.save(Note(number=2, text="two"))
    with connect(url, Schema(Note, NotesByText, NoteCount), workers=0) as db:
        assert db.get(NoteCount).notes == 2


def test_two_schemas_that_only_add_open_one_store(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note, NotesByText), workers=0) as first:
        first.save(Note(number=1, text="one"))
        with connect(url, Schema(Note, NotesByText, Customer), workers=0) as second:
            second.save(customer(1))
            assert second.get(Note, 1).text == "one"
            first.save(Note(number=2, text="two"))
            assert [row.text for row in second.page(NotesByText)] == ["one", "two"]


def test_a_read_only_database_of_another_schema(tmp_path):
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note), workers=0) as db:
        db.save(Note(number=1, text="one"))
    with pytest.raises(SchemaMismatch):
        connect(f"lmdb://{tmp_path}/store?read_only=true", Schema(Note, Customer))
    with connect(f"lmdb://{tmp_path}/store?read_only=true", Schema(Note)) as db:
        assert db.get(Note, 1).text == "one"
        with pytest.raises((UsageError, StoreError)) as refusal:
            db.save(Note(number=2, text="two"))
        assert not refusal.value.retryable


class Shown(Copy[Note]):
    text: str


class Later(Model[int]):
    number: Key[int]
    note: Shown


def test_a_source_older_than_its_first_holder_updates_it_all_the_same(tmp_path):
    """The note had no copies when it was saved, so its record has no copied values."""
    url = f"lmdb://{tmp_path}/store?durability=none"
    with connect(url, Schema(Note), workers=0) as db:
        db.save(Note(number=1, text="one"))
    with connect(url, Schema(Note, Later), workers=0) as db:
        db.save(Later(number=1, note=Shown.of(1)))
        db.patch(Note, 1, text="uno")
        assert db.get(Later, 1).note.text == "uno"
