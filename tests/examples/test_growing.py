"""A view is added while two programs write in processes of their own, and the process that backfills is killed."""

from examples.shop import growing
from examples.shop.__main__ import main
from oneread import connect


def test_a_view_grows_while_old_and_new_programs_write_and_backfills_are_killed(data, tmp_path, capfd):
    url = f"lmdb://{tmp_path}/store"
    assert main(["load", "--data", str(data()), "--db", url]) == 0
    assert growing.grow(url, 10**6, 3) == 0
    printed = capfd.readouterr().out
    assert "reading it: this view is not built yet" in printed
    assert printed.count("(killed)") == 3
    assert "the old program is refused after" in printed
    assert "the new program wrote" in printed
    with connect(url, growing.RELEASES["new"]) as db:
        db.drain()
        assert db.verify().clean
