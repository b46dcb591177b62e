"""The program that test_damaged_pages.py runs: flips bits in headers of LMDB's pages, and looks at each damaged store.

`python -m tests.unit.verify.flipping FOLDER SEED FLIPS` prints a line for each store of which scans show fewer or
more rows than were saved, and what verify says of it. Every store is opened in a child, because some kill it.
"""

import os
import random
import signal
import sys
from pathlib import Path

from oneread import Index, Key, Model, Schema, by, connect
from oneread.errors import OnereadError

PAGE = 4096
KEYS_OF_PAGE = range(96, 112)
"""The bits of the header's `mp_lower`, from which LMDB counts the keys of a page."""

ENTITIES = 300
OPTIONS = "?durability=none&map_size=32M&max_readers=8"


class Parcel(Model[int]):
    number: Key[int]
    town: str
    label: str


class ParcelsOfTown(Index[Parcel]):
    town: str = by(Parcel.town)


class ParcelsOfLabel(Index[Parcel]):
    label: str = by(Parcel.label)


SCHEMA = Schema(Parcel, ParcelsOfTown, ParcelsOfLabel)


def opened(folder):
    return connect(f"lmdb://{folder}{OPTIONS}", SCHEMA, workers=0)


def written(folder, draw):
    with opened(folder) as db:
        for number in draw.sample(range(ENTITIES), ENTITIES):  # pages are split where keys come in any order
            db.save(Parcel(number=number, town=draw.choice("abc"), label=f"label {number}"))


def looked(folder):
    """How many rows scans show, and what verify says; what cannot be read at all is no matter here."""
    with opened(folder) as db:
        shown = [sum(map(len, db.scan(each))) for each in (Parcel, ParcelsOfTown, ParcelsOfLabel)]
        if shown == [ENTITIES] * 3:
            return ""
        try:
            return f"{shown} {'clean' if db.verify().clean else 'faults'}"
        except OnereadError as error:
            return f"{shown} {type(error).__name__}"


def in_child(work):
    """What `work` comes to in a child; empty when the child does not live to say it."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        try:
            os.write(writing, work().encode())
        except BaseException:  # noqa: BLE001 - a store that cannot be opened says so by an error
            os._exit(1)
        os._exit(0)
    os.close(writing)
    said = os.read(reading, PAGE)
    os.close(reading)
    os.waitpid(pid, 0)
    return said.decode()


def main(folder, seed, flips):
    draw = random.Random(seed)
    in_child(lambda: written(folder / "whole", draw) or "")
    whole = (folder / "whole" / "data.mdb").read_bytes()
    places = [(page, bit) for page in range(2, len(whole) // PAGE) for bit in KEYS_OF_PAGE]
    for number, (page, bit) in enumerate(draw.sample(places, flips)):
        damaged = bytearray(whole)
        damaged[page * PAGE + bit // 8] ^= 1 << bit % 8
        store = folder / str(number)
        store.mkdir()
        (store / "data.mdb").write_bytes(damaged)
        said = in_child(lambda store=store: looked(store))
        if said:
            sys.stdout.write(f"{page} {bit} {said}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
