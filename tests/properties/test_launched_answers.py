"""Each answer of a launch is exactly that of one side, and no key goes back while the percentage rises."""

from hypothesis import given
from hypothesis import strategies as st

from oneread import LaunchGuard, LaunchOptions, Schema, connect, sticky
from tests.unit.counters.handles import Nothing

KEYS = st.one_of(st.integers(0, 50), st.text(max_size=5), st.tuples(st.integers(0, 3), st.booleans()))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("call"), KEYS),
        st.tuples(st.just("person"), KEYS),
        st.tuples(st.just("reads"), st.floats(0, 100)),
        st.tuples(st.just("shadow"), st.floats(0, 100)),
        st.tuples(st.just("back"), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_answer_is_of_one_side_and_no_key_goes_back(steps):
    with connect("memory://", Schema(Nothing), workers=0) as db:
        top = db.launch("top", old=lambda key: ("old", key), new=lambda key: ("new", key), key=lambda key: key)
        assert top(0) == ("old", 0)
        db.launches.set("top", options=LaunchOptions(settle=0.0, guard=LaunchGuard(fewest=1_000_000)))
        percent, on_new = 0.0, set()
        for what, value in steps:
            if what == "reads":
                if value < percent:
                    on_new.clear()
                percent = db.launches.set("top", reads=value).reads
                for key in range(30):
                    check(top(key)[0], repr(key), percent, on_new)
            elif what == "shadow":
                db.launches.set("top", shadow=value)
            elif what == "back":
                db.launches.back("top")
                percent, on_new = 0.0, set()
            elif what == "person":
                with sticky(value):
                    side, _about = top("another key")
                check(side, repr(value), percent, on_new)
            else:
                side, about = top(value)
                assert about == value
                check(side, repr(value), percent, on_new)


def check(side, key, percent, on_new):
    assert side in ("old", "new")
    assert side == "new" or key not in on_new, "this key went back while the percentage rose"
    assert percent or side == "old"
    assert percent < 100 or side == "new"
    if side == "new":
        on_new.add(key)
