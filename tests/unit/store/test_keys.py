from oneread.store import keys
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, back_reference_key, hold_key


def test_a_root_key_is_its_parts():
    key = keys.root_key(b"\x00\x07", b"abcdef")
    assert (keys.kind_part(key), keys.entity_part(key)) == (b"\x00\x07", b"abcdef")


def test_a_derived_row_begins_with_the_view_prefix():
    prefix = keys.view_prefix(300, 2)
    assert prefix == b"\x01\x2c\x00\x02"
    assert keys.number_and_generation(prefix) == (300, 2)
    assert (keys.view_part(prefix + b"row"), keys.row_part(prefix + b"row")) == (prefix, b"row")


def test_a_pointer_names_source_and_holder():
    source, holder = keys.root_key(b"\x00\x01", b"s"), keys.root_key(b"\x00\x02", b"h")
    for made, sort in ((back_reference_key, BACK_REFERENCES), (hold_key, HOLDS)):
        key = made(source, holder)
        assert (keys.pointer_part(key), keys.pointed_part(key)) == (sort, source + holder)


def test_a_spread_root_key_says_so_by_itself():
    for ranges in (2, 100):
        key = keys.root_key(b"\x00\x07", b"\x15\x01", ranges)
        assert key == b"\x00\x07" + keys.spread_part(b"\x15\x01", ranges) + b"\x15\x01"
        assert keys.kind_part(key) == b"\x00\x07"
        assert keys.entity_part(key) == b"\x15\x01"
    assert keys.entity_part(keys.root_key(b"\x00\x07", b"\x33\x14")) == b"\x33\x14"
    assert keys.entity_part(b"\x00\x07") == b""  # cut off
