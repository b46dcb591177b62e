from datetime import UTC, datetime

import pytest

from oneread.launches.differences import (
    FoundDifference,
    LaunchDifference,
    ResultForms,
    ShownPage,
    ShownRow,
    SideOutcome,
    at_both_looks,
    bounded,
    compare_outcomes,
)

FORMS = ResultForms(
    lambda result: result if isinstance(result, ShownPage) else None, lambda _old, _new: False, lambda value: value
)


def page(*rows, has_next=False):
    return ShownPage([ShownRow((key,), {"name": name}) for key, name in rows], has_next)


def compare(old, new, equal=None):
    return compare_outcomes(SideOutcome(old), SideOutcome(new), equal, FORMS)


def test_equal_pages_do_not_differ():
    assert compare(page((1, "a"), (2, "b")), page((1, "a"), (2, "b"))) == []


def test_a_row_that_the_new_side_lacks_has_besides_or_has_otherwise():
    found = compare(page((1, "a"), (2, "b")), page((3, "c"), (2, "x")))
    assert found == [
        FoundDifference("missing", (1,), 0, {"name": "a"}),
        FoundDifference("extra", (3,), 0, None, {"name": "c"}),
        FoundDifference("other value", (2,), 1, {"name": "b"}, {"name": "x"}, ("name",)),
    ]


def test_rows_in_another_order():
    found = compare(page((1, "a"), (2, "b")), page((2, "b"), (1, "a")))
    assert [(each.kind, each.row) for each in found] == [("other order", (1,))]


def test_another_end():
    found = compare(page((1, "a"), has_next=True), page((1, "a")))
    assert found == [FoundDifference("other end", old={"next": True}, new={"next": False})]


def test_fields_that_only_the_new_side_shows_do_not_differ():
    old, new = ShownPage([ShownRow((1,), {"a": 1})], False), ShownPage([ShownRow((1,), {"a": 1, "b": 2})], False)
    assert compare(old, new) == []
    assert [each.fields for each in compare(new, old)] == [("b",)]


def test_other_results_are_compared_as_a_whole():
    assert compare([1, 2], [1, 2]) == []
    assert compare([1], [2]) == [FoundDifference("other value", old={"result": [1]}, new={"result": [2]})]
    assert compare([1, 2], [2, 1], lambda old, new: sorted(old) == sorted(new)) == []


def test_the_same_error_on_both_sides_does_not_differ():
    assert compare_outcomes(SideOutcome(error=KeyError), SideOutcome(error=KeyError), None, FORMS) == []
    (found,) = compare_outcomes(SideOutcome(1), SideOutcome(error=KeyError), None, FORMS)
    assert (found.kind, found.old, found.new) == ("failed", None, {"error": "KeyError"})


def test_what_is_there_at_one_look_only_is_left_out():
    first, second = compare(page((1, "a"), (2, "b")), page()), compare(page((2, "b"), (3, "c")), page())
    assert [each.row for each in at_both_looks(first, second)] == [(2,)]


@pytest.mark.parametrize("values", [True, False])
def test_a_stored_difference_has_values_where_they_are_wanted_and_few(values):
    made = LaunchDifference(
        launch="a", kind="missing", at=datetime.now(UTC), process="p", verb="top", old={"name": "a"}, new=None
    )
    assert bounded(made, values=values).old == ({"name": "a"} if values else {})
    assert bounded(made, values=values).new is None
    large = LaunchDifference(
        launch="a", kind="missing", at=datetime.now(UTC), process="p", verb="top", old={"name": "a" * 5_000}
    )
    assert bounded(large, values=values).old == {}
