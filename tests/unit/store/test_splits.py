"""Splits of tables as URLs have them."""

import pytest

from oneread.errors import InvalidUrl
from oneread.store.splits import splits_as_url, splits_from_url


def test_what_is_written_is_read():
    splits = {"roots": (b"\x00\x01", b"\x00\x02\xff"), "system": (b"journal:\x08",)}
    assert splits_as_url(splits | {"views": ()}) == "roots:0001,0002ff;system:6a6f75726e616c3a08"
    assert splits_from_url("splits", splits_as_url(splits)) == splits


@pytest.mark.parametrize(
    "text", ["", "roots", "roots:", "roots:0", "roots:00;roots:01", "tables:00", f"roots:{'00' * 256}"]
)
def test_other_text_is_refused(text):
    with pytest.raises(InvalidUrl, match="splits are tables with keys in hexadecimal"):
        splits_from_url("splits", text)
