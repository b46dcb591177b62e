"""Rows of CSV: what is broken is refused by itself and by its line, and no other row is lost or cut."""

import io

import pytest

from oneread.cli import csv_rows as module
from oneread.cli.csv_rows import csv_rows
from oneread.cli.files import lines
from oneread.cli.loading import Unreadable
from oneread.transfer.content import Content

LIMIT = 40
LONG = "x" * 100


@pytest.fixture(autouse=True)
def short_lines(monkeypatch):
    monkeypatch.setattr("oneread.cli.files.LINE_BYTES", LIMIT)
    monkeypatch.setattr(module, "LINE_BYTES", LIMIT)


def read(text):
    """The rows by line, and the lines of what is refused, from the first to the last."""
    rows, refused = {}, []
    for number, row in csv_rows(lines(io.BytesIO(text.encode("utf-8", "surrogateescape")), Content())):
        if isinstance(row, Unreadable):
            refused.append((row.error.facts.get("from_line", number), number))
        else:
            rows[number] = row
    return rows, refused


@pytest.mark.parametrize(
    ("text", "rows", "refused"),
    [
        ("a,b\nc,d\n", {1: ["a", "b"], 2: ["c", "d"]}, []),
        ("a,b\nc,d", {1: ["a", "b"], 2: ["c", "d"]}, []),
        ("a,b\r\nc,d\ne,f\r\n", {1: ["a", "b"], 2: ["c", "d"], 3: ["e", "f"]}, []),
        ('a,"b\r\nc\n\rd"\ne,f', {3: ["a", "b\r\nc\n\rd"], 4: ["e", "f"]}, []),
        ("a\n\n\r\nb\n", {1: ["a"], 4: ["b"]}, []),
        ("a,\x00\nb,\ufeff\nc,\udcff", {1: ["a", "\x00"], 2: ["b", "\ufeff"], 3: ["c", "\udcff"]}, []),
        ('5" nails,b\nc,d', {1: ['5" nails', "b"], 2: ["c", "d"]}, []),
        # too long: first, last, in a row, opening and closing a cell, in the middle of one
        (f"{LONG},a\nb,c", {2: ["b", "c"]}, [(1, 1)]),
        (f"a,b\nc,{LONG}", {1: ["a", "b"]}, [(2, 2)]),
        (f"a,b\nc,{LONG}\n", {1: ["a", "b"]}, [(2, 2)]),
        (f"{LONG}\n{LONG}\na,b", {3: ["a", "b"]}, [(1, 1), (2, 2)]),
        (f'a,"{LONG}\nend"\nb,c', {3: ["b", "c"]}, [(1, 2)]),
        (f'a,"begin\n{LONG}"\nb,c', {3: ["b", "c"]}, [(1, 2)]),
        (f'a,"begin\n{LONG}\nend"\nb,c', {4: ["b", "c"]}, [(1, 3)]),
        (f'"begin\n{LONG}\nend"\nb', {4: ["b"]}, [(1, 3)]),
        (f'a,"begin\n{LONG}\n""\nend"\nb,c', {5: ["b", "c"]}, [(1, 4)]),
        (f'a,"{LONG}\n{LONG}\nb,c', {3: ["b", "c"]}, [(1, 1), (2, 2)]),
        (f'a,"{LONG}\nb,c\nd,e', {2: ["b", "c"], 3: ["d", "e"]}, [(1, 1)]),
        # a quote that is not closed, or closed by that of another row
        ('a,"b\nc,d\ne,f', {2: ["c", "d"], 3: ["e", "f"]}, [(1, 1)]),
        ('a,"b\nc,"d"\ne,f', {2: ["c", "d"], 3: ["e", "f"]}, [(1, 1)]),
        ('a,"b\nc,"d\ne,"f\ng,h', {4: ["g", "h"]}, [(1, 1), (2, 2), (3, 3)]),
        ('a,b\nc,"d', {1: ["a", "b"]}, [(2, 2)]),
        ('a,"b" c\nd,e', {2: ["d", "e"]}, [(1, 1)]),
        ('a,"' + "x\n" * 30 + 'y"\nb,c', {**{n: ["x"] for n in range(2, 31)}, 32: ["b", "c"]}, [(1, 1)]),
        ("a,b\rc,d\ne,f", {2: ["e", "f"]}, [(1, 1)]),
    ],
)
def test_every_row_is_read_or_refused(text, rows, refused):
    found = read(text)
    found[0].pop(31, None)  # `y"`, the last line of the cell that is too long
    assert found == (rows, refused)


def test_no_line_is_read_more_than_three_times(monkeypatch):
    """Each line opens a quote where a row begins with it, and keeps one open that is: without a bound, a square."""
    monkeypatch.setattr("oneread.cli.files.LINE_BYTES", 1 << 20)
    monkeypatch.setattr(module, "LINE_BYTES", 1 << 20)
    taken = []
    take = module._NumberedLines._take
    monkeypatch.setattr(module._NumberedLines, "_take", lambda self: taken.append(1) or take(self))
    _rows, refused = read('a",b,"\n' * 1000)
    assert sum(last - first + 1 for first, last in refused) == 1000
    assert len(taken) <= 3003


def test_what_is_refused_is_kept_as_it_was():
    (found,) = csv_rows(lines(io.BytesIO(b'a,"b" \xff\n'), Content()))
    assert found == (1, Unreadable(found[1].error, b'a,"b" \xff'))
