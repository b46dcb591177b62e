import pytest

from oneread.engines.lmdb import LmdbEngine, options_from_url
from oneread.errors import InvalidUrl
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ({}, {}),
        ({"durability": "none"}, {"durability": "none"}),
        ({"durability": "may_lose_last"}, {"durability": "may_lose_last"}),
        ({"durability": "sync"}, {"durability": "group"}),
        ({"read_only": "True"}, {"read_only": True}),
        ({"read_only": "0"}, {"read_only": False}),
        ({"map_size": "1048576"}, {"map_size": 1 << 20}),
        ({"map_size": "512M"}, {"map_size": 512 << 20}),
        ({"map_size": "2GiB"}, {"map_size": 2 << 30}),
        ({"map_size": "1tb"}, {"map_size": 1 << 40}),
        ({"max_readers": "200", "prefix": "eu."}, {"max_readers": 200, "prefix": "eu."}),
        ({"timeout": "2.5"}, {"timeout": 2.5}),
    ],
)
def test_a_query_becomes_arguments(query, options):
    assert options_from_url(query) == options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durabilty", "group"),
        ("durability", "fsync"),
        ("read_only", "maybe"),
        ("map_size", "big"),
        ("map_size", "10"),
        ("map_size", "65T"),
        ("map_size", "-1G"),
        ("max_readers", "0"),
        ("max_readers", "65537"),
        ("max_readers", "²"),
        ("prefix", "a/b"),
        ("prefix", "x" * 65),
        ("timeout", "soon"),
        ("timeout", "-1"),
        ("timeout", "nan"),
        ("timeout", "inf"),
    ],
)
def test_an_option_that_is_wrong_is_named(name, value):
    with pytest.raises(InvalidUrl, match=name):
        options_from_url({name: value})


def test_an_engine_checks_what_it_is_given_itself(tmp_path):
    with pytest.raises(InvalidUrl, match="prefix"):
        LmdbEngine(str(tmp_path / "store"), prefix="\0")
    with pytest.raises(InvalidUrl, match="durability"):
        LmdbEngine(str(tmp_path / "store"), durability="never")
    assert not (tmp_path / "store").exists()


def test_a_name_of_older_releases_is_the_same_durability(tmp_path):
    path = str(tmp_path / "store")
    one, two = LmdbEngine(path, durability="sync"), LmdbEngine(path, durability="group")
    with pytest.raises(InvalidUrl, match="other options"):
        LmdbEngine(path, durability="may_lose_last")
    one.close()
    two.close()


def test_tenants_share_a_folder_and_nothing_else(tmp_path):
    path = str(tmp_path / "store")
    one, two = LmdbEngine(path, prefix="one."), LmdbEngine(path, prefix="two.")
    one.answer(Mutate("roots", [RowMutation(b"a", {b"d:b": Cell(b"1", 1)})]))
    assert two.answer(Read("roots", [b"a"])) == [None]
    assert one.point("roots", b"a", b"d:b") == (b"1", 1)
    one.close()
    two.close()
