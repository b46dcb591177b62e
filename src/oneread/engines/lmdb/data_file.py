"""LMDB's data file: whether it holds every page that its newest commit needs.

LMDB maps the file without checking its size: a read beyond its end kills the process (SIGBUS). The file may rightly end
before the last page number: pages that a transaction allocated and freed were never written. Those are in LMDB's free
list, so every page that the file lacks must be in that list. Structures: mdb.c (MDB_page, MDB_meta, MDB_db, MDB_node).
See docs/formats/lmdb.md.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from oneread.errors import Corrupt

_PAGE: Final = struct.Struct("<QHHHH")  # number, -, flags, end of the pointers, start of the nodes
_META: Final = struct.Struct("<16xII16xI36xQI36xQQQ")  # magic, version, page size, free root, -, main root, last, txn
_NODE: Final = struct.Struct("<HHHH")  # low and high half of the size or page, flags, size of the key
_MAGIC: Final = (0xBEEFC0DE, 1)
_BRANCH, _LEAF = 1, 2
_BIG: Final = 1
_NONE: Final = (1 << 64) - 1
_WORD: Final = 8
_TRIES: Final = 100
_SHORT: Final = "the data file ends too early: pages of the store are missing; restore it from a copy"
_WRONG: Final = "the data file is damaged: a page is not what it should be; restore it from a copy"
_EMPTY: Final = "the data file is empty; restore it from a copy, or remove it when nothing was ever stored"


class _Meta(NamedTuple):
    """One of the two meta pages."""

    transaction: int
    page_size: int
    free_root: int
    main_root: int
    last: int


def check_data_file(folder: str, path: Path) -> None:
    """Costs about 20 microseconds; where the file is shorter than its last page number says, its free list is read.

    Raises:
        Corrupt: the file is empty, lacks a page that is in use, or a root page is not a page of a tree.
    """
    if struct.calcsize("P") != _WORD:
        return
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(_TRIES):
            meta = _newest(file)
            size = os.fstat(file).st_size
            if not size:
                raise Corrupt(_EMPTY, path=folder)
            if meta is None:
                return  # LMDB says what it is instead
            try:
                _check(file, meta, size // meta.page_size, folder)
            except (Corrupt, struct.error) as failure:
                if _newest(file) == meta:
                    raise failure if isinstance(failure, Corrupt) else Corrupt(_WRONG, path=folder) from failure
            else:
                return  # else a writer has reused the pages of a commit that was the newest
    finally:
        os.close(file)


def held_back(path: Path, reader: int) -> int:
    """Bytes of pages that writers cannot use again while a reader of this transaction reads.

    LMDB uses pages again that were given up before the oldest reader's transaction (mdb.c: mdb_page_alloc). While
    others write, the list may be one of an older moment, or be cut short where its pages are used again.
    """
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        meta = _newest(file)
        if meta is None or struct.calcsize("P") != _WORD:
            return 0
        held = 0
        with contextlib.suppress(Corrupt, struct.error):
            for transaction, _page in _free(file, meta, str(path.parent)):
                held += meta.page_size if transaction >= reader else 0
        return held
    finally:
        os.close(file)


def _check(file: int, meta: _Meta, pages: int, folder: str) -> None:
    for root in (meta.free_root, meta.main_root):
        if root != _NONE:
            _tree_page(file, meta, root, folder)
    lacking = meta.last + 1 - pages
    if lacking > 0:
        free = sum([1 for _freed, page in _free(file, meta, folder) if pages <= page <= meta.last])
        if free < lacking:
            raise Corrupt(
                _SHORT, path=folder, bytes=pages * meta.page_size, expected_bytes=(meta.last + 1) * meta.page_size
            )


def _newest(file: int) -> _Meta | None:
    first = _meta(os.pread(file, _META.size, 0))
    if first is None or not 1 << 9 <= first.page_size <= 1 << 16:
        return None
    second = _meta(os.pread(file, _META.size, first.page_size))
    return max(first, second or first)


def _meta(raw: bytes) -> _Meta | None:
    if len(raw) < _META.size:
        return None
    magic, version, page_size, free_root, _flags, main_root, last, transaction = _META.unpack(raw)
    return _Meta(transaction, page_size, free_root, main_root, last) if (magic, version) == _MAGIC else None


def _tree_page(file: int, meta: _Meta, number: int, folder: str) -> tuple[int, bytes]:
    """The flags and bytes of a page of a tree."""
    raw = os.pread(file, meta.page_size, number * meta.page_size) if number <= meta.last else b""
    if len(raw) < meta.page_size:
        raise Corrupt(_SHORT, path=folder, page=number)
    own, _pad, flags, lower, upper = _PAGE.unpack_from(raw)
    if own != number or flags & 7 not in (_BRANCH, _LEAF) or not _PAGE.size <= lower <= upper <= meta.page_size:
        raise Corrupt(_WRONG, path=folder, page=number)
    return flags & 7, raw


def _free(file: int, meta: _Meta, folder: str) -> Iterator[tuple[int, int]]:
    """The pages of LMDB's free list, each with the transaction that gave it up."""
    waiting = [] if meta.free_root == _NONE else [meta.free_root]
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in seen:
            raise Corrupt(_WRONG, path=folder, page=number)
        seen.add(number)
        flags, raw = _tree_page(file, meta, number, folder)
        lower = _PAGE.unpack_from(raw)[3]
        for place in struct.unpack_from(f"<{(lower - _PAGE.size) // 2}H", raw, _PAGE.size):
            low, high, node_flags, key = _NODE.unpack_from(raw, place)
            start, size = place + _NODE.size + key, low | high << 16
            if flags == _BRANCH:
                waiting.append(size | node_flags << 32)
                continue
            transaction, first = struct.unpack_from("<QQ", raw, start - _WORD)
            if node_flags & _BIG:
                listed = os.pread(file, size, first * meta.page_size + _PAGE.size)
            else:
                listed = raw[start : start + size]
            yield from ((transaction, page) for page in _numbers(listed))


def _numbers(raw: bytes) -> tuple[int, ...]:
    """What one entry of the free list holds: how many, then the page numbers."""
    if len(raw) < _WORD:
        return ()
    (count,) = struct.unpack_from("<Q", raw)
    return struct.unpack_from(f"<{min(count, len(raw) // _WORD - 1)}Q", raw, _WORD)
