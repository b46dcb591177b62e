"""Steps do to a value what they say, exactly, and only to values that they are for."""

from datetime import timedelta
from decimal import Decimal, localcontext

import pytest

from oneread import add, append, remove
from oneread.database.patches import patching
from oneread.errors import InvalidValue
from tests.unit.database.shop import customer, purchase


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        (add(1), 2, 3),
        (add(0.5), 1.0, 1.5),
        (add(timedelta(1)), timedelta(2), timedelta(3)),
        (add(Decimal("0.1")), Decimal("1e30"), Decimal("1000000000000000000000000000000.1")),
        (add(1), Decimal("1e30"), Decimal(1000000000000000000000000000001)),
        (append(3), [1, 2], [1, 2, 3]),
        (append(3), (1,), (1, 3)),
        (append(3), {1}, {1, 3}),
        (append(1), frozenset({1}), frozenset({1})),
        (remove(1), [1, 2, 1], [2]),
        (remove(9), [1], [1]),
        (remove(1), {1, 2}, {2}),
        (remove(1), (1,), ()),
    ],
)
def test_a_step_gives_exactly(step, before, after):
    with localcontext() as context:
        context.prec = 3
        given = step.apply(before)
    assert given == after
    assert type(given) is type(after)


def test_several_fields_change_at_once():
    changed = patching(type(purchase()), {"quantity": add(2), "remark": "!"})
    assert changed(purchase(quantity=1)) == purchase(quantity=3, remark="!")


@pytest.mark.parametrize("step", [append("x"), remove("x"), add("x")])
@pytest.mark.parametrize("field", ["number", "country"])
def test_a_step_on_another_kind_of_value_names_field_and_verb(step, field):
    if step.name == "add" and field == "country":
        assert patching(type(customer()), {field: step})(customer()).country == "Icelandx"
        return
    if field == "number":
        with pytest.raises(InvalidValue, match="part of the key"):
            patching(type(customer()), {field: step})
        return
    with pytest.raises(InvalidValue) as refusal:
        patching(type(customer()), {field: step})(customer())
    assert refusal.value.facts == {
        "model": "Customer", "field": field, "verb": step.name, "operand": "x", "stored": str,
    }  # fmt: skip


@pytest.mark.parametrize(("field", "perhaps"), [("contry", {"perhaps": "country"}), ("zzz", {})])
def test_a_misspelt_field_says_which_one_is_perhaps_meant(field, perhaps):
    with pytest.raises(InvalidValue, match="no such field") as refusal:
        patching(type(customer()), {field: "x"})
    assert refusal.value.facts == {"model": "Customer", "field": field} | perhaps
