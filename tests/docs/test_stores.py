"""The table of what each store can do is the one that the engines' declarations make, and every store has a row."""

from importlib import import_module

import pytest

from tools.docs import stores

connecting = import_module("oneread.connect")

TEXT = stores.PAGE.read_text(encoding="utf-8")


def test_the_table_is_as_the_engines_declare():
    assert stores.page_with_table(TEXT) == TEXT, "run: python -m tools.docs.stores"


def test_an_old_table_is_found_and_a_missing_one_refused():
    old = TEXT.replace("| `lmdb://` | yes |", "| `lmdb://` | no |")
    assert old != TEXT
    assert stores.page_with_table(old) == TEXT
    with pytest.raises(ValueError, match="no table"):
        stores.page_with_table("# URLs of stores\n")


def test_every_scheme_has_a_row():
    assert {url.partition("://")[0] for url in stores.STORES} == {*connecting._OPENERS}


def test_a_store_that_is_opened_can_what_the_table_says(tmp_path):
    for url in ("lmdb://", "memory://", "memory://?span=row"):
        engine, _may_write = connecting._open_engine(url.replace("lmdb://", f"lmdb://{tmp_path}/store"), 1.0)
        assert engine.capabilities == stores.STORES[url]
        engine.close()
