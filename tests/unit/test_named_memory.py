"""`memory://NAME`: a store of this process that can be opened again, by several programs and under another schema."""

import asyncio
import types

import pytest

from oneread import Index, Key, Model, Schema, by, connect, connect_async, migration, renamed
from oneread.engines import one_row_memory
from oneread.engines.memory import forget
from oneread.errors import Closed, InvalidUrl, NotFound, Outdated, Unsupported


def note(fields, /, **values):
    space = {"__annotations__": {"number": Key[int]} | fields, "__module__": __name__} | values
    return types.new_class("Note", (Model,), {}, lambda into: into.update(space))


ONE = note({"text": str})
TWO = note({"title": str}, evolution=(renamed("text", to="title"),))


@pytest.fixture
def url():
    yield "memory://a store/of this test"
    forget("a store/of this test")
    one_row_memory.forget("a store/of this test")


def test_a_schema_changes_between_two_openings(url):
    with connect(url, Schema(ONE)) as db:
        db.save(ONE(number=1, text="x"))
    with connect(url, Schema(TWO)) as db:
        db.patch(TWO, 1, title="y")
    with connect(url, Schema(ONE)) as db:
        assert db.get(ONE, 1).text == "y"


def test_a_view_that_is_dropped_between_two_openings_cuts_those_off_that_declare_it(url):
    class NotesByText(Index[ONE]):
        text: str = by(ONE.text)

    with connect(url, Schema(ONE, NotesByText)) as db:
        with migration(url, Schema(ONE)) as change:
            change.apply(drop=["NotesByText"])
        connect(url, Schema(ONE)).close()
        with pytest.raises(Outdated):
            db.save(ONE(number=1, text="x"))


def test_several_are_open_at_once_and_closed_each_by_itself(url):
    first, second = connect(url, Schema(ONE)), connect(url, Schema(ONE))
    first.save(ONE(number=1, text="x"))
    first.close()
    with pytest.raises(Closed):
        first.get(ONE, 1)
    assert second.get(ONE, 1).text == "x"
    second.close()
    with pytest.raises(Closed):
        second.get(ONE, 1)

    async def read():
        async with connect_async(url, Schema(ONE)) as db:
            return await db.get(ONE, 1)

    assert asyncio.run(read()).text == "x"


def test_names_are_stores_of_their_own_and_no_name_is_a_new_one_each_time(url):
    for other in (url, "memory://another", "memory://", "memory://"):
        with connect(other, Schema(ONE)) as db:
            with pytest.raises(NotFound):
                db.get(ONE, 1)
            db.save(ONE(number=1, text=other))
    with connect(url, Schema(ONE)) as db:
        assert db.get(ONE, 1).text == url
    forget("another")
    with connect("memory://another", Schema(ONE)) as db:
        assert db.find(ONE, 1) is None
    forget("another")


def test_a_cursor_of_one_is_good_for_another(url):
    with connect(url, Schema(ONE)) as db:
        db.save_all([ONE(number=number, text="x") for number in range(3)])
        cursor = db.page(ONE, limit=2).next
    with connect(url, Schema(ONE)) as db:
        assert [row.number for row in db.page(ONE, cursor=cursor)] == [2]


@pytest.mark.parametrize(
    "options", ["?read_only=true", "?read_only=true&span=row", "?read_only=true&span=row&deletes=remove"]
)
def test_a_store_is_opened_for_reading_where_it_is(url, options):
    for missing in (url, "memory://"):
        with pytest.raises(InvalidUrl, match="there is no store here"):
            connect(f"{missing}{options}", Schema(ONE))
    with connect(url + options.replace("true", "false"), Schema(ONE)) as db:
        db.save(ONE(number=1, text="x"))
        with connect(url + options, Schema(ONE), workers=1) as reader:
            assert reader.get(ONE, 1).text == "x"
            with pytest.raises(Unsupported, match="read_only"):
                reader.save(ONE(number=2, text="y"))
    with pytest.raises(InvalidUrl, match="true or false"):
        connect(url + options.replace("true", "yes"), Schema(ONE))
