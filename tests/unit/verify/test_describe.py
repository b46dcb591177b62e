"""Faults in words: names, fields and values; never bytes."""

import re

import msgspec
import pytest

from oneread.plans.progress import ValueDifference
from tests.unit.verify.damaged import Damaged
from tests.unit.verify.faults import LEFT, PLANTED

TEXTS = {
    "an_index_row_is_missing": "PurchasesOfBuyer 4/3 of Purchase 3: the row is missing",
    "an_index_row_shows_something_else": (
        "PurchasesOfBuyer 4/3 of Purchase 3: source: 4 -> 3, buyer: 1 -> 4, quantity: 4 -> 3, "
        "price: Decimal('1') -> Decimal('0.75')"
    ),
    "an_index_row_of_an_entity_that_never_was_is_there": "PurchasesOfBuyer 4/7 of Purchase 99: no entity has this row",
    "an_index_row_has_no_cell_to_read": (
        "PurchasesOfTown 'city 1' of Purchase 5: the row cannot be read: no readable cell"
    ),
    "a_row_of_a_least_shows_something_else": (
        "SalesOfProduct.cheapest 1 of Purchase 2: cheapest: Decimal('9') -> Decimal('0.5')"
    ),
    "a_back_reference_is_missing": "back-reference from Customer 2 to Purchase 1: the row is missing",
    "a_hold_is_left_over": "hold from Product 1 to Purchase 1: no entity has this row",
    "a_group_is_missing": ("SalesOfProduct 1: the group is missing: contributions=3, sum of Purchase.quantity=12"),
    "a_count_is_wrong": "SalesOfProduct 1: contributions: 4 -> 3",
    "a_group_to_which_nobody_contributes_is_there": "SalesOfTown nowhere: no entity counts in this group",
    "a_taken_value_names_another_owner": "CustomersOfEmail 2@x: owner: Customer 3 -> Customer 2",
    "a_record_is_missing": "Purchase 3: its record is missing",
    "a_record_says_something_else": "Purchase 3: its record: rows in PurchasesOfBuyer: nothing -> 4/3",
    "a_record_names_no_sources": "Purchase 3: its record: back-references: nothing -> Customer 4, Product 2",
    "a_record_cannot_be_read": (
        "Purchase 3: its record cannot be read: the emitted record of a root row cannot be read"
    ),
    "a_body_is_that_of_another_entity": "Purchase 3: the row holds Purchase 4",
    "a_copy_that_no_view_shows_is_wrong": "Purchase 3: product.name: 'another' -> 'product 2'",
    "a_copy_says_that_its_source_was_deleted": "Purchase 3: product.deleted: True -> False",
    "a_copy_of_a_deleted_source_says_that_it_lives": "Purchase 5: buyer.deleted: False -> True",
    "a_hidden_copy_is_wrong": "Customer 4: born_in.region.size: 77 -> 2",
    "a_task_is_of_another_source_than_its_key_says": (
        "Customer 1: its task does not belong to its key: it names Customer(2)"
    ),
    "a_row_of_views_is_under_no_view": (
        "a row of views of view number 32512, generation 1, with a key of 7 bytes: it belongs to no model, view or "
        "task of the schema"
    ),
    "an_entity_is_of_no_model": (
        "a row of roots of model number 32512, with a key of 4 bytes: it belongs to no model, view or task of the "
        "schema"
    ),
}
_BYTES = re.compile(r"\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{6,}\b|b'|\\\\x[0-9a-f]{2}(?!')|\ufffd")


@pytest.mark.parametrize("plant", [*PLANTED, *LEFT], ids=lambda plant: plant.__name__)
def test_a_fault_is_said_without_bytes(plant):
    store = Damaged("memory://")
    try:
        plant(store)
        faults = store.db.verify().faults
    finally:
        store.close()
    assert TEXTS.get(plant.__name__, faults[0].text) in [fault.text for fault in faults]
    for fault in faults:
        said = msgspec.to_builtins(fault)
        for name in ("text", "row", "entity", "expected", "found"):
            assert not _BYTES.search(said[name]), said[name]
        for each in fault.differences:
            assert f"{each.field}: {each.found or 'nothing'} -> {each.expected or 'nothing'}" in fault.text
    assert faults[0].text


def test_each_difference_is_one_value_of_the_fault():
    store = Damaged("memory://")
    try:
        PLANTED[[each.__name__ for each in PLANTED].index("a_copy_that_views_show_is_wrong")](store)
        fault = next(fault for fault in store.db.verify().faults if fault.view == "copy")
    finally:
        store.close()
    assert fault.differences == (ValueDifference("city.land", "'region 1'", "'elsewhere'"),)
    assert (fault.entity, fault.row) == ("Customer(4)", "Customer(4).city")
