"""Openings of one schema share what is compiled, and nothing that one of their stores changes."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import msgspec
import pytest

from oneread import Aggregate, Copy, Key, Model, Schema, by, connect, count, rollup
from oneread.derivations.compiled_schema import CompiledSchema
from oneread.errors import OnereadError
from tests.unit.evolution.test_changed_schemas import note

OLD = note({"a": str, "c": int}, c=0)
NEW = note({"first": int | None, "a": str, "c": int}, first=None, c=0)


class Customer(Model[int]):
    number: Key[int]
    purchases: int = rollup(lambda: Spending.purchases)


class Buyer(Copy[Customer]):
    pass


class Purchase(Model[int]):
    number: Key[int]
    buyer: Buyer


class Spending(Aggregate[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    purchases: int = count()


def compiled_parts(catalog):
    """The compiled parts of a catalog, all but the layouts that it has to itself."""
    return [getattr(catalog, name) for name in CompiledSchema.__struct_fields__]


def are_shared(one, other):
    return all(a is b for a, b in zip(compiled_parts(one), compiled_parts(other), strict=True))


def test_openings_with_equal_numbers_share_what_is_compiled(new_url):
    schema = Schema(Customer, Purchase, Spending)
    with connect(new_url(), schema, workers=0) as one, connect(new_url(), schema, workers=0) as two:
        assert are_shared(one.operations.catalog, two.operations.catalog)
        assert one.operations.catalog.layouts is not two.operations.catalog.layouts
        one.save(Customer(number=1))
        assert two.find(Customer, 1) is None


def test_schemas_do_not_share_and_neither_do_other_numbers():
    one, two = Schema(OLD), Schema(OLD)
    assert not are_shared(one.unstored(), two.unstored())
    numbers = msgspec.structs.replace(one.unstored().numbers, kinds={"Note": 7})
    assert one.catalog(numbers).kinds[OLD].number == 7
    assert one.catalog(one.unstored().numbers).kinds[OLD].number == one.unstored().kinds[OLD].number


def test_few_are_kept_those_that_were_used_last():
    schema = Schema(OLD)
    first = schema.unstored().numbers

    def with_kind(number):
        return schema.catalog(msgspec.structs.replace(first, kinds={"Note": number}))

    made = {number: with_kind(number) for number in (11, 12, 13)}
    assert are_shared(with_kind(11), made[11])
    with_kind(14)
    with_kind(15)
    assert are_shared(with_kind(11), made[11])
    assert not are_shared(with_kind(12), made[12])


def test_what_is_refused_is_compiled_again():
    schema = Schema(OLD)
    numbers = msgspec.structs.replace(schema.unstored().numbers, layouts={"Note": 1 << 15})
    for _ in range(2):
        with pytest.raises(OnereadError, match="no more layout ids"):
            schema.catalog(numbers)


def test_a_layout_that_a_newer_program_adds_is_known_to_its_store_alone(new_url):
    """Both stores were opened with one schema, and only one of them has a newer program."""
    schema = Schema(OLD)
    urls = new_url(), new_url()
    with connect(urls[0], schema, workers=0) as grown, connect(urls[1], schema, workers=0) as quiet:
        catalogs = [db.operations.catalog for db in (grown, quiet)]
        assert are_shared(*catalogs)
        for db in (grown, quiet):
            db.save(OLD(number=1, a="before"))
        with connect(urls[0], Schema(NEW), workers=0) as newer:
            newer.save(NEW(number=2, a="new", first=7, c=2))
            grown.operations.fence.is_stale = True
            grown.run(grown.operations.fence.refresh())
            read = grown.get(OLD, 2)
            assert (read.a, read.c) == ("new", 2)
            grown.save(OLD(number=2, a="changed"))
            assert newer.get(NEW, 2).first == 7
        learnt, known = ([len(each.others()) for each in catalog.layouts.values()] for catalog in catalogs)
        assert (learnt, known) == ([2], [0])
        quiet.save(OLD(number=1, a="after"))
        assert quiet.get(OLD, 1).a == "after"


def test_totals_that_one_store_withholds_are_shown_by_others():
    schema = Schema(Customer, Purchase, Spending)
    numbers = schema.unstored().numbers
    one, two = schema.catalog(numbers), schema.catalog(numbers)
    customer = Customer(number=1, purchases=3)
    one.withhold({Spending})
    (of_one,), (of_two,) = ([each.layouts[each.kinds[Customer].prefix]] for each in (one, two))
    assert not hasattr(of_one.shown(customer), "purchases")
    assert of_two.shown(customer).purchases == 3
    document = one.entity_types[Customer].layout.encode(customer)
    assert not hasattr(of_one.decode(document), "purchases")
    assert of_two.decode(document).purchases == 3


def test_threads_may_compile_one_schema_at_once():
    schema = Schema(Customer, Purchase, Spending)
    numbers = msgspec.structs.replace(schema.unstored().numbers, last=500)
    barrier = Barrier(4)

    def compile_one(_place):
        barrier.wait()
        return schema.catalog(numbers)

    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(compile_one, range(4)))
    assert all(each.numbers == numbers for each in made)
    assert are_shared(schema.catalog(numbers), schema.catalog(numbers))
