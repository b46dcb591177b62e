"""What follows one change within its call: holders of copies, and groups whose numbers entities show."""

import pytest

from examples.qa.schema import SITE
from examples.shop.schema import SHOP, Customer, ProductSales, Purchase
from oneread import Aggregate, Key, Model, Schema, by, count, rollup
from oneread.costs.declared import of
from oneread.errors import UsageError


class Child(Model[int]):
    number: Key[int]
    parent: int


class ChildrenOf(Aggregate[Child]):
    parent: int = by(Child.parent)
    children: int = count()


class Parent(Model[int]):
    parent: Key[int]
    children: int = rollup(ChildrenOf.children)


FAMILY = (Child, ChildrenOf, Parent)


@pytest.mark.parametrize(("inline", "in_rows", "in_a_row"), [(1000, 1000, 100), (7, 7, 7), (0, 0, 0)])
def test_holders_are_bounded_by_inline_and_by_the_kind_of_store(inline, in_rows, in_a_row):
    schema = Schema(*SHOP.models, *SHOP.views, inline=inline)
    assert of(schema).following(Customer).holders == in_rows
    assert of(schema, "row").following(Customer).holders == in_a_row
    assert of(schema).following(Purchase).holders == 0


@pytest.mark.parametrize(("inline", "in_rows", "in_a_row"), [(1000, 2, 2), (1, 2, 1), (0, 2, 0)])
def test_an_entity_may_leave_one_group_for_another(inline, in_rows, in_a_row):
    schema = Schema(*FAMILY, inline=inline)
    assert of(schema).following(Child).groups == {ChildrenOf: in_rows}
    assert of(schema, "row").following(Child).groups == {ChildrenOf: in_a_row}


def test_groups_that_nothing_shows_are_left_out():
    assert ProductSales in SHOP.views
    assert not of(SHOP).following(Purchase).groups


def test_only_models_of_the_schema_have_followers():
    with pytest.raises(UsageError):
        of(SITE).following(Child)
