"""The emitted record: what is stored is read back unchanged."""

from decimal import Decimal
from unittest.mock import ANY

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Ref, Schema, by, connect, count, shown, total, within
from oneread.derivations import emitted_record
from oneread.errors import Corrupt, InvalidDeclaration
from oneread.store.keys import view_prefix

BIG = [2**63, 2**64, -(2**63) - 1, 2**70, -(2**70)]


@pytest.mark.parametrize("number", [0, 1, -1, 2**63 - 1, -(2**63), *BIG])
def test_a_record_with_ints_of_any_size_is_read_back(number):
    sums = emitted_record.view_token(emitted_record.SUMS, b"\x00\x01\x00\x01")
    record = {
        sums: [b"k", [1, number, "2.5", None]],
        emitted_record.HIDDEN: {"product.maker": number},
        emitted_record.REFERENCES: [b"k"],
    }
    assert emitted_record.decode_record(emitted_record.encode_record(record)) == record


@pytest.mark.parametrize("form", [emitted_record.ROWS, emitted_record.SUMS, emitted_record.UNIQUE])
@pytest.mark.parametrize("number", [1, 31, 32, 0x7FFF])
@pytest.mark.parametrize("generation", [1, 2, 0xFFFF])
def test_a_token_says_its_form_and_its_view(form, number, generation):
    prefix = view_prefix(number, generation)
    token = emitted_record.view_token(form, prefix)
    assert (emitted_record.form_of(token), emitted_record.view_of(token)) == (form, prefix)
    assert len(emitted_record.encode_record({token: []})) == (3 if number < 32 and generation == 1 else ANY)


def test_a_token_of_no_view_is_its_own_form():
    assert emitted_record.form_of(emitted_record.REFERENCES) == emitted_record.REFERENCES
    assert emitted_record.view_of(emitted_record.REFERENCES) == b""


@pytest.mark.parametrize("data", [b"\xc1", b"", b"\x81\xc4\x01u\x81\xa1\xff\x01"])
def test_bytes_that_are_not_a_record_are_corrupt(data):
    with pytest.raises(Corrupt):
        emitted_record.decode_record(data)


class Maker(Model[int]):
    number: Key[int]
    size: int
    price: Decimal = Decimal("1.50")


class Made(Copy[Maker]):
    size: int


class Product(Model[int]):
    number: Key[int]
    maker: Ref[Maker]
    made: Made


class ProductsOfSize(Index[Product]):
    size: int = by(within(Product.maker, Maker.size))
    price: Decimal = shown(within(Product.maker, Maker.price))


class Sizes(Aggregate[Product]):
    products: int = count()
    size: int = total(within(Product.made, Made.size))


@pytest.mark.parametrize("size", BIG)
def test_a_hidden_copy_of_any_size_follows(url, size):
    with connect(url, Schema(Maker, Product, ProductsOfSize, Sizes)) as db:
        db.save(Maker(number=1, size=size))
        db.save(Product(number=1, maker=Maker.at(1), made=Made.of(1)))
        db.patch(Maker, 1, size=size + 1)
        assert db.get(Product, 1).made.size == size + 1
        assert len(db.page(ProductsOfSize, size)) == 0
        assert [row.price for row in db.page(ProductsOfSize, size + 1)] == [Decimal("1.50")]
        assert db.get(Sizes).size == size + 1
        db.delete(Product, 1)
        assert db.get(Sizes) == Sizes(products=0, size=0)


@pytest.mark.parametrize("condition", [Maker.size, lambda maker: maker.size > 1, True])
def test_a_condition_that_is_none_is_refused(condition):
    class Wrong(Index[Maker]):
        where = condition

        size: int = by(Maker.size)

    with pytest.raises(InvalidDeclaration, match="condition"):
        Schema(Maker, Wrong)


@pytest.mark.parametrize("number", [1, *BIG])
def test_a_view_behind_two_references_of_an_entity_with_a_large_key(url, number):
    class Owner(Model[int]):
        number: Key[int]

    class Thing(Model[int]):
        number: Key[int]
        owner: Ref[Owner]

    class Loan(Model[int]):
        number: Key[int]
        thing: Ref[Thing]

    class LoansOfOwner(Index[Loan]):
        owner: Ref[Owner] = by(within(Loan.thing, Thing.owner))

    with connect(url, Schema(Owner, Thing, Loan, LoansOfOwner), workers=0) as db:
        db.save(Owner(number=number))
        db.save(Thing(number=1, owner=Owner.at(number)))
        db.save(Loan(number=1, thing=Thing.at(1)))
        db.patch(Loan, 1, thing=Thing.at(1))
        assert [row.owner for row in db.page(LoansOfOwner, number)] == [Owner.at(number)]
        assert db.verify().clean
