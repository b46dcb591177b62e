"""What people see of the library's objects in a prompt or a notebook."""

import asyncio
import importlib.metadata

import pytest

import oneread
from oneread import Refusal, Schema, add, append, connect, connect_async, remove, set_to
from oneread.errors import InvalidFields, InvalidValue, NotFound
from tests.unit.database.shop import SCHEMA, SHOP, Customer, Product, Purchase, PurchasesOfBuyer, purchase


@pytest.fixture
def db():
    with connect("memory://", SCHEMA) as opened:
        opened.save(Customer(number=1, name="<b>Ada</b> & Bob"))
        opened.save(Product(code="p", name="Pear"))
        opened.save_all([purchase(line) for line in range(8)])
        yield opened


def test_the_release_is_a_name_of_the_package():
    assert oneread.__version__ == importlib.metadata.version("oneread")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        oneread.nothing  # noqa: B018 - the attribute is what is asked for


def test_a_database_says_where_it_is_and_how_much_it_declares(db, tmp_path):
    models, views = len(SCHEMA.models), len(SCHEMA.views)
    assert repr(db) == f"<Database MemoryEngine(): {models} models, {views} views>"
    with connect(f"lmdb://{tmp_path}/store", SCHEMA) as on_disk:
        assert f"LmdbEngine('{tmp_path}/store')" in repr(on_disk)

    async def main():
        async with connect_async("memory://", SCHEMA) as other:
            return repr(other), repr(other.tasks(await other.save(Customer(number=1, name="Ada"))))

    assert asyncio.run(main()) == (
        f"<AsyncDatabase MemoryEngine(): {models} models, {views} views>",
        "<AsyncTasks: none>",
    )


def test_a_schema_names_its_classes():
    assert repr(Schema(Customer)) == "Schema(Customer)"
    assert repr(SCHEMA) == f"Schema({', '.join(each.__name__ for each in (*SCHEMA.models, *SCHEMA.views))})"


def test_tasks_say_how_many_there_are():
    with connect("memory://", Schema(*SHOP, inline=0), workers=0) as db:
        db.save(Customer(number=1, name="Ada"))
        db.save(Product(code="p", name="Pear"))
        assert repr(db.tasks(db.save(purchase(1)))) == "<Tasks: none>"
        assert repr(db.tasks(db.patch(Customer, 1, name="Bea"))) == "<Tasks: 1 given to the worker>"


def test_a_page_shows_its_first_rows_and_counts_the_others(db):
    page = db.page(Purchase)
    text = repr(page)
    assert text.startswith("Page([Purchase(order='o', line=0, ")
    assert text.count("Purchase(order=") == 5
    assert "... (8 in all)" in text
    assert "in all" not in repr(db.page(Purchase, limit=5))
    assert repr(db.page(Purchase, "nothing")) == "Page([], next=None, previous=None)"


def test_a_page_is_an_escaped_table_in_a_notebook(db):
    html = db.page(Purchase, limit=2)._repr_html_()
    assert html.startswith("<table><thead><tr><th>order</th><th>line</th><th>buyer</th><th>buyer.name</th>")
    assert html.count("<tr>") == 3
    assert "&lt;b&gt;Ada&lt;/b&gt; &amp; Bob" in html
    assert "<b>" not in html
    rows = db.page(PurchasesOfBuyer, 1)
    assert rows._repr_html_().count("<tr>") == 1 + len(rows)
    assert db.page(Purchase, "nothing")._repr_html_() == "<table><thead><tr></tr></thead><tbody></tbody></table>"


def test_a_copy_that_only_refers_is_shown_by_its_key():
    page = oneread.Page([purchase(1, buyer=7)], None, None, None, truncated=False)
    assert "<td>7</td>" in page._repr_html_()
    assert "Buyer.of(7)" in repr(page)


def test_steps_of_a_patch_and_refusals_of_them_show_no_function():
    steps = {"a": add(1), "b": append("x"), "c": remove("x"), "d": set_to(None)}
    assert repr(steps) == "{'a': add(1), 'b': append('x'), 'c': remove('x'), 'd': set_to(None)}"
    refusal = Refusal(NotFound("there is no such entity"), (("patch", Purchase, ("o", 1), {"quantity": add(1)}),), 7)
    assert "lambda" not in repr(refusal)
    assert "add(1)" in repr(refusal)


WRONG = {
    "unknown": (lambda: Customer(number=1, nmae="Ada"), {"unknown": ["nmae"], "perhaps": {"nmae": "name"}}),
    "nothing like it": (lambda: Customer(number=1, zzz=1), {"unknown": ["zzz"]}),
    "missing": (lambda: Customer(name="Ada"), {"missing": ["number"]}),
    "nothing": (Customer, {"missing": ["number", "name"]}),
    "without names": (lambda: Customer(1, "Ada"), {"given": (1, "Ada")}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_constructor_says_which_fields_are_wrong(wrong):
    make, facts = WRONG[wrong]
    for kind in (TypeError, InvalidValue, InvalidFields):
        with pytest.raises(kind) as refused:
            make()
    assert refused.value.facts["model"] is Customer
    assert facts.items() <= refused.value.facts.items()
    assert refused.value.__cause__ is not None


def test_an_error_in_a_models_own_code_is_not_taken_for_wrong_fields():
    class Odd(oneread.Model[int]):
        number: oneread.Key[int]

        def __post_init__(self):
            raise TypeError("of my own")

    with pytest.raises(TypeError, match="of my own") as raised:
        Odd(number=1)
    assert type(raised.value) is TypeError


def test_a_bulk_writer_says_how_far_it_is(db):
    with db.bulk(batch=2, on_refused=lambda _refusal: None) as bulk:
        assert repr(bulk) == "<Bulk: 0 stored, 0 refused, 0 waiting>"
        for number in (2, "three", 4):
            bulk.save(Customer(number=number, name=f"Eve {number}"))
        assert repr(bulk) == "<Bulk: 1 stored, 1 refused, 1 waiting>"
    assert repr(bulk) == "<Bulk: 2 stored, 1 refused, 0 waiting>"

    async def main():
        async with connect_async("memory://", SCHEMA) as other, other.bulk() as writer:
            await writer.save(Customer(number=1, name="Ada"))
            return repr(writer)

    assert asyncio.run(main()) == "<AsyncBulk: 0 stored, 0 refused, 1 waiting>"
