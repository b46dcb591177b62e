"""Every kind of fault, planted one by one: each function spoils one thing and says what must be found.

A fault is told by (kind, view, table, key, entity).
"""

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.emitted_record import HIDDEN, REFERENCES, ROWS, view_token
from oneread.store.rows import VALUE, Cell
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, task_key
from oneread.transactions.root import BODY, EMITTED, VERSION
from tests.simulation.schema import (
    City,
    Customer,
    CustomersOfEmail,
    Product,
    Purchase,
    PurchasesAlso,
    PurchasesOfBuyer,
    PurchasesOfTown,
    SalesOfProduct,
    SalesOfTown,
)

PLANTED = []
LEFT = []
"""Those that only somebody who knows what is right can mend."""


def planted(function):
    PLANTED.append(function)
    return function


def left(function):
    LEFT.append(function)
    return function


# Index rows.


@planted
def an_index_row_is_missing(store):
    key, _row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 3)
    store.put("views", key, None)
    return "missing", "PurchasesOfBuyer", "views", key, "Purchase(3)"


@planted
def one_of_several_rows_of_an_entity_is_missing(store):
    key, _row = store.row_of(store.index(PurchasesAlso), Purchase, 4)
    store.put("views", key, None)
    return "missing", "PurchasesAlso", "views", key, "Purchase(4)"


@planted
def an_index_row_shows_something_else(store):
    key, _row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 3)
    _other, row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 4)
    store.show("views", key, row[VALUE].value)
    return "different", "PurchasesOfBuyer", "views", key, "Purchase(3)"


@planted
def an_index_row_lies_under_another_value_too(store):
    key, row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 3)
    other, _row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 2)
    stray = other[: -len(key[-2:])] + key[-2:]
    store.put("views", stray, row)
    return "dangling", "PurchasesOfBuyer", "views", stray, "Purchase(3)"


@planted
def an_index_row_of_a_deleted_entity_is_there(store):
    key, row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 7)
    stray = key[:-2] + store.root(Purchase, 8)[0][2:]
    store.put("views", stray, row)
    return "dangling", "PurchasesOfBuyer", "views", stray, "Purchase(8)"


@planted
def an_index_row_of_an_entity_that_never_was_is_there(store):
    key, row = store.row_of(store.index(PurchasesOfBuyer), Purchase, 7)
    stray = key[:-2] + store.catalog.kinds[Purchase].key((99,))[2:]
    store.put("views", stray, row)
    return "dangling", "PurchasesOfBuyer", "views", stray, "Purchase(99)"


@planted
def an_index_row_has_a_key_that_is_none(store):
    stray = store.index(PurchasesOfBuyer) + b"\x15"
    store.show("views", stray, b"\x90")
    return "dangling", "PurchasesOfBuyer", "views", stray, ""


@planted
def an_index_row_has_no_cell_to_read(store):
    key, row = store.row_of(store.index(PurchasesOfTown), Purchase, 5)
    store.put("views", key, {b"d:x": row[VALUE]})
    return "unreadable", "PurchasesOfTown", "views", key, "Purchase(5)"


@planted
def an_index_row_has_a_cell_too_many(store):
    key, row = store.row_of(store.index(PurchasesOfTown), Purchase, 5)
    store.put("views", key, row | {b"m:x": row[VALUE]})
    return "unreadable", "PurchasesOfTown", "views", key, "Purchase(5)"


# Least and greatest.


@planted
def a_row_of_a_greatest_is_missing(store):
    key, _row = store.row_of(store.extremum(SalesOfProduct, "dearest"), Purchase, 7)
    store.put("views", key, None)
    return "missing", "SalesOfProduct.dearest", "views", key, "Purchase(7)"


@planted
def a_row_of_a_least_shows_something_else(store):
    key, _row = store.row_of(store.extremum(SalesOfProduct, "cheapest"), Purchase, 2)
    store.show("views", key, b"\xa19")
    return "different", "SalesOfProduct.cheapest", "views", key, "Purchase(2)"


@planted
def a_row_of_a_greatest_belongs_to_nobody(store):
    key, row = store.row_of(store.extremum(SalesOfTown, "largest"), Purchase, 7)
    stray = key[:-2] + store.root(Purchase, 8)[0][2:]
    store.put("views", stray, row)
    return "dangling", "SalesOfTown.largest", "views", stray, "Purchase(8)"


# Newest values.


@planted
def a_row_of_a_newest_value_is_missing(store):
    key, _row = store.row_of(store.extremum(SalesOfTown, "newest"), Purchase, 7)
    store.put("views", key, None)
    return "missing", "SalesOfTown.newest", "views", key, "Purchase(7)"


@planted
def a_row_of_a_newest_value_shows_something_else(store):
    key, _row = store.row_of(store.extremum(SalesOfTown, "newest"), Purchase, 2)
    store.show("views", key, b"\xa19")
    return "different", "SalesOfTown.newest", "views", key, "Purchase(2)"


@planted
def a_row_of_a_newest_value_belongs_to_no_entity(store):
    key, row = store.row_of(store.extremum(SalesOfTown, "newest"), Purchase, 7)
    stray = key[:-2] + store.root(Purchase, 8)[0][2:]
    store.put("views", stray, row)
    return "dangling", "SalesOfTown.newest", "views", stray, "Purchase(8)"


# Back-references and holds.


@planted
def a_back_reference_is_missing(store):
    key, _row = store.pointer(BACK_REFERENCES, (Customer, 2), (Purchase, 1))
    store.put("views", key, None)
    return "missing", "back-reference", "views", key, "Purchase(1)"


@planted
def a_back_reference_says_something_else(store):
    key, _row = store.pointer(BACK_REFERENCES, (Customer, 2), (Purchase, 1))
    store.show("views", key, b"\xc3")
    return "different", "back-reference", "views", key, "Purchase(1)"


@planted
def a_back_reference_points_at_one_who_refers_to_another(store):
    key, _row = store.pointer(BACK_REFERENCES, (Customer, 3), (Purchase, 1))
    store.show("views", key, b"\xc0")
    return "dangling", "back-reference", "views", key, "Purchase(1)"


@planted
def a_back_reference_has_another_selection(store):
    start, holder = BACK_REFERENCES + store.root(Customer, 2)[0], store.root(Purchase, 1)[0]
    key = start + b"\xff\x00\x01\x02" + holder
    store.show("views", key, b"\xc0")
    return "dangling", "back-reference", "views", key, "Purchase(1)"


@planted
def a_back_reference_has_no_selection(store):
    key = BACK_REFERENCES + store.root(Customer, 2)[0] + store.root(Purchase, 1)[0]
    store.show("views", key, b"\xc0")
    return "dangling", "back-reference", "views", key, "Purchase(1)"


@planted
def a_back_reference_ends_in_no_key(store):
    key = BACK_REFERENCES + store.root(Customer, 3)[0] + b"\x00"
    store.show("views", key, b"\xc0")
    return "dangling", "back-reference", "views", key, "an entity of model number 0, with a key of 1 bytes"


@planted
def a_back_reference_points_at_a_kind_that_refers_to_nobody_of_the_kind(store):
    key = BACK_REFERENCES + store.root(City, 2)[0] + store.root(Product, 1)[0]
    store.show("views", key, b"\xc0")
    return "dangling", "back-reference", "views", key, "Product(1)"


@planted
def a_hold_is_missing(store):
    key, _row = store.pointer(HOLDS, (Product, 2), (Purchase, 1))
    store.put("views", key, None)
    return "missing", "hold", "views", key, "Purchase(1)"


@planted
def a_hold_is_left_over(store):
    key, _row = store.pointer(HOLDS, (Product, 1), (Purchase, 1))
    store.show("views", key, b"\xc0")
    return "dangling", "hold", "views", key, "Purchase(1)"


# Groups.


@planted
def a_group_is_missing(store):
    key = next(iter(store.rows("counts", store.group(SalesOfProduct))))
    store.put("counts", key, None)
    return "missing", "SalesOfProduct", "counts", key, ""


@planted
def a_count_is_wrong(store):
    key = store.sums(SalesOfProduct, lambda numbers: [numbers[0] + 1, *numbers[1:]])
    return "different", "SalesOfProduct", "counts", key, ""


@planted
def a_sum_is_wrong(store):
    key = store.sums(SalesOfTown, lambda numbers: [numbers[0], numbers[1] * 2])
    return "different", "SalesOfTown", "counts", key, ""


@planted
def two_numbers_of_a_group_have_changed_places(store):
    key = store.sums(SalesOfProduct, lambda numbers: numbers[::-1])
    return "different", "SalesOfProduct", "counts", key, ""


@planted
def a_group_has_a_number_too_many(store):
    key = store.sums(SalesOfProduct, lambda numbers: [*numbers, 0])
    return "different", "SalesOfProduct", "counts", key, ""


@planted
def a_group_cannot_be_read(store):
    key = store.sums(SalesOfProduct, lambda numbers: numbers)
    store.show("counts", key, b"\xc1")
    return "unreadable", "SalesOfProduct", "counts", key, ""


@planted
def a_group_has_a_cell_too_many(store):
    key = store.sums(SalesOfProduct, lambda numbers: numbers)
    store.put("counts", key, store.rows("counts", key)[key] | {b"d:x": Cell(b"?", 1)})
    return "unreadable", "SalesOfProduct", "counts", key, ""


@planted
def a_group_to_which_nobody_contributes_is_there(store):
    _key, row = next(iter(store.rows("counts", store.group(SalesOfTown)).items()))
    stray = store.group(SalesOfTown) + b"\x03nowhere\x00"
    store.put("counts", stray, row)
    return "dangling", "SalesOfTown", "counts", stray, ""


@planted
def a_group_of_zeros_is_there(store):
    stray = store.group(SalesOfTown) + b"\x03nowhere\x00"
    store.show("counts", stray, b"\x92\x00\x00")
    return "dangling", "SalesOfTown", "counts", stray, ""


# Taken values.


def claim(store, number):
    owner = store.root(Customer, number)[0]
    rows = store.rows("counts", store.index(CustomersOfEmail))
    return next(key for key, row in rows.items() if row[VALUE].value == owner)


@planted
def a_taken_value_is_free(store):
    key = claim(store, 2)
    store.put("counts", key, None)
    return "missing", "CustomersOfEmail", "counts", key, "Customer(2)"


@planted
def a_taken_value_names_another_owner(store):
    key = claim(store, 2)
    store.show("counts", key, store.root(Customer, 3)[0])
    return "different", "CustomersOfEmail", "counts", key, "Customer(2)"


@planted
def a_taken_value_is_held_by_one_who_has_another(store):
    key = store.index(CustomersOfEmail) + b"\x03nobody\x00"
    store.show("counts", key, store.root(Customer, 3)[0])
    return "dangling", "CustomersOfEmail", "counts", key, "Customer(3)"


@planted
def a_taken_value_is_held_by_no_key(store):
    key = store.index(CustomersOfEmail) + b"\x03nobody\x00"
    store.show("counts", key, b"who?")
    return "dangling", "CustomersOfEmail", "counts", key, ""


# Commit rows.


@planted
def a_record_is_missing(store):
    key = store.change_root(Purchase, 3, record=None)
    return "missing", "record", "roots", key, "Purchase(3)"


@planted
def a_record_says_something_else(store):
    record = store.record(Purchase, 3)
    record[view_token(ROWS, store.index(PurchasesOfBuyer))] = []
    key = store.change_root(Purchase, 3, record=emitted_record.encode_record(record))
    return "different", "record", "roots", key, "Purchase(3)"


@planted
def a_record_names_no_sources(store):
    record = store.record(Purchase, 3)
    record[REFERENCES] = []
    key = store.change_root(Purchase, 3, record=emitted_record.encode_record(record))
    return "different", "record", "roots", key, "Purchase(3)"


@planted
def a_record_cannot_be_read(store):
    key = store.change_root(Purchase, 3, record=b"\xc1")
    return "unreadable", "record", "roots", key, "Purchase(3)"


@planted
def a_record_has_text_that_is_no_text(store):
    key = store.change_root(Purchase, 3, record=b"\x81\xc4\x01u\x81\xa1\xff\x01")
    return "unreadable", "record", "roots", key, "Purchase(3)"


@planted
def a_record_of_hidden_copies_cannot_be_read(store):
    key = store.change_root(Customer, 3, record=b"\x81")
    return "unreadable", "record", "roots", key, "Customer(3)"


@planted
def a_deleted_entity_still_tells_something(store):
    record = store.record(Purchase, 8)
    record[view_token(ROWS, store.index(PurchasesOfBuyer))] = [b"\x15\x01", b""]
    key = store.change_root(Purchase, 8, record=emitted_record.encode_record(record))
    return "different", "record", "roots", key, "Purchase(8)"


@planted
def a_deleted_entity_has_no_record(store):
    key = store.change_root(Product, 3, record=None)
    return "missing", "record", "roots", key, "Product(3)"


@planted
def a_version_is_missing(store):
    key = store.change_root(Purchase, 3, version=None)
    return "missing", "version", "roots", key, "Purchase(3)"


@planted
def a_version_is_not_its_stamp(store):
    key = store.change_root(Purchase, 3, version=b"\x00" * 8)
    return "different", "version", "roots", key, "Purchase(3)"


@planted
def a_version_is_stamped_in_the_far_future(store):
    key, row = store.root(Purchase, 3)
    store.put("roots", key, row | {VERSION: Cell(row[VERSION].value, 2**62)})
    return "different", "version", "roots", key, "Purchase(3)"


@left
def a_body_cannot_be_read(store):
    body = store.root(Purchase, 3)[1][BODY].value
    key = store.change_root(Purchase, 3, body=body[:2] + b"\xc1")
    return "unreadable", "entity", "roots", key, "Purchase(3)"


@left
def a_body_has_a_layout_that_nobody_knows(store):
    body = store.root(Customer, 3)[1][BODY].value
    key = store.change_root(Customer, 3, body=b"\x7f\xff" + body[2:])
    return "unreadable", "entity", "roots", key, "Customer(3)"


@left
def a_body_is_that_of_another_entity(store):
    key = store.change_root(Purchase, 3, body=store.root(Purchase, 4)[1][BODY].value)
    return "different", "entity", "roots", key, "Purchase(3)"


# Copies.


@planted
def a_copy_that_no_view_shows_is_wrong(store):
    purchase = store.db.get(Purchase, 3)
    wrong = msgspec.structs.replace(purchase.product, name="another")
    key = store.commit_with(msgspec.structs.replace(purchase, product=wrong))
    return "different", "copy", "roots", key, "Purchase(3)"


@planted
def a_copy_that_views_show_is_wrong(store):
    customer = store.db.get(Customer, 4)
    wrong = msgspec.structs.replace(customer.city, land="elsewhere")
    key = store.commit_with(msgspec.structs.replace(customer, city=wrong))
    return "different", "copy", "roots", key, "Customer(4)"


@planted
def a_copy_says_that_its_source_was_deleted(store):
    purchase = store.db.get(Purchase, 3)
    wrong = msgspec.structs.replace(purchase.product, deleted=True)
    key = store.commit_with(msgspec.structs.replace(purchase, product=wrong))
    return "different", "copy", "roots", key, "Purchase(3)"


@planted
def a_copy_of_a_deleted_source_says_that_it_lives(store):
    store.db.save(Customer(number=9, name="nine"))
    number = store.db.get(Purchase, 5).buyer.ref.key[0]
    store.db.patch(Purchase, 5, buyer=type(store.db.get(Purchase, 5).buyer).of(9))
    store.db.delete(Customer, 9)
    purchase = store.db.get(Purchase, 5)
    assert purchase.buyer.deleted, number
    wrong = msgspec.structs.replace(purchase.buyer, deleted=False)
    key = store.commit_with(msgspec.structs.replace(purchase, buyer=wrong))
    return "different", "copy", "roots", key, "Purchase(5)"


@planted
def a_hidden_copy_is_wrong(store):
    customer = store.db.get(Customer, 4)
    used = dict.fromkeys(store.record(Customer, 4)[HIDDEN], 77)
    key = store.commit_with(customer, used=used)
    return "different", "copy", "roots", key, "Customer(4)"


# The outbox.


@planted
def a_task_cannot_be_read(store):
    key = task_key(store.root(Customer, 1)[0])
    store.show("system", key, b"\xc1")
    return "unreadable", "task", "system", key, "Customer(1)"


@planted
def a_task_is_of_a_source_that_never_was(store):
    key = store.task(store.catalog.kinds[Customer].key((99,)))
    return "dangling", "task", "system", key, "Customer(99)"


@planted
def a_task_is_of_another_source_than_its_key_says(store):
    key = task_key(store.root(Customer, 1)[0])
    store.show("system", key, msgspec.msgpack.encode((store.root(Customer, 2)[0], b"", 0)))
    return "different", "task", "system", key, "Customer(1)"


# Rows of nobody.


@planted
def a_row_of_views_is_under_no_view(store):
    store.show("views", b"\x7f\x00\x00\x01abc", b"\xc0")
    return "dangling", "stray", "views", b"\x7f\x00\x00\x01abc", ""


@planted
def a_row_of_views_has_a_short_key(store):
    store.show("views", b"\x00\x07", b"\xc0")
    return "dangling", "stray", "views", b"\x00\x07", ""


@planted
def a_row_of_views_is_under_a_generation_that_never_was(store):
    key = store.index(PurchasesOfBuyer)[:2] + b"\x00\x09abc"
    store.show("views", key, b"\xc0")
    return "dangling", "stray", "views", key, ""


@planted
def a_back_reference_is_under_a_kind_that_nobody_copies(store):
    key = BACK_REFERENCES + store.root(Purchase, 3)[0] + store.root(Purchase, 4)[0]
    store.show("views", key, b"\xc0")
    return "dangling", "stray", "views", key, ""


@planted
def a_row_of_counts_is_under_no_view(store):
    store.show("counts", b"\x7f\x00\x00\x01abc", b"\x91\x01")
    return "dangling", "stray", "counts", b"\x7f\x00\x00\x01abc", ""


@left
def an_entity_is_of_no_model(store):
    store.put("roots", b"\x7f\x00\x15\x01", {VERSION: Cell(b"\x00" * 8, 0), EMITTED: Cell(b"\x80", 0)})
    return "dangling", "stray", "roots", b"\x7f\x00\x15\x01", ""
