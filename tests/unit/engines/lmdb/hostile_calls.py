"""`python hostile_calls.py SEED SEQUENCES`: sequences of random calls of oneread-native, with what no program gives it.

Wrong types, sizes at every end, objects of other environments and ones that have ended, truth values and numbers that
close things while they are asked for, forks, a second thread. Each call may answer or raise; the sanitizers of the
build that runs it end the process where it does anything else. After each sequence the stores are read from begin to
end. It prints how many calls answered, and how many raised.
"""

import gc
import os
import random
import sys
import tempfile
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

import oneread_native as native

STEPS = 200
SIZE = 1 << 22
EXPECTED = (native.Error, TypeError, KeyError, OverflowError, ValueError, ZeroDivisionError)
BYTES = [b"", b"\0", b"a", b"b", b"c", b"d", b"a\0b", b"k" * 511, b"k" * 512, b"v" * 3000, b"v" * 70000]
NUMBERS = [0, 1, -1, 2, 4096, 2**31 - 1, -(2**31), 2**31, 2**32 + 1, 2**63 - 1, -(2**63), 2**64, 2**70]
OTHERS = [None, True, "", "text", 1.5, (), [], {}, b"".join, object(), bytearray(b"a"), memoryview(b"a"), ((),), [[]]]
CALLS = {
    native.Environment: {
        "add": 4, "are_files": 1, "begin": 2, "cell": 2, "close": 0, "column": 5, "commit": 6, "copyfd": 2,
        "decide": 9, "info": 0, "open_db": 3, "reader_check": 0, "readers": 0, "stat": 0, "together": 3,
        "__enter__": 0, "__exit__": 3,
    },
    native.Transaction: {
        "abort": 0, "commit": 0, "cursor": 1, "decide": 8, "delete": 2, "get": 3, "id": 0, "put": 3, "stat": 1,
        "__enter__": 0, "__exit__": 3,
    },
    native.Cursor: {
        "delete": 0, "first": 0, "item": 0, "iternext": 0, "iterprev": 0, "key": 0, "last": 0, "next": 0, "prev": 0,
        "putmulti": 2, "set_key": 1, "set_range": 1, "__enter__": 0, "__exit__": 3, "__iter__": 0,
    },
    native.Decided: {"reads": 0, "writes": 0},
}  # fmt: skip
ENDS = {"abort", "close", "commit", "__exit__"}
MAKES = {
    native.Environment: [
        ("begin", 2),
        ("cell", 2),
        ("column", 5),
        ("open_db", 3),
        ("commit", 6),
        ("decide", 8),
        ("add", 4),
        ("together", 3),
    ],
    native.Transaction: [("cursor", 1), ("get", 3), ("put", 3)],
    native.Cursor: [("putmulti", 2), ("set_range", 1), ("iternext", 0)],
    native.Decided: [("writes", 0)],
}
NAMES = [
    "db", "write", "turn", "files", "snapshot", "reads", "writes", "fd", "compact", "key", "txn", "create", "default",
    "value", "items", "append", "other",
    "start", "stop", "limit", "reverse", "firsts",
]  # fmt: skip
READS = ["get", "stat", "id", "first", "last", "next", "prev", "item", "key", "set_range", "set_key", "info", "readers"]


class Hostile:
    """Is asked for its truth, its number, its entries or its path, and calls something else first."""

    def __init__(self, calls):
        self._calls = calls

    def _act(self):
        self._calls.step(nested=True)

    def __bool__(self):
        self._act()
        return True

    def __index__(self):
        self._act()
        return 1

    def __iter__(self):
        yield b"a", b"1"
        self._act()
        yield b"b", b"2"

    def __fspath__(self):
        self._act()
        return str(self._calls.path())


class Calls:
    """One sequence: all objects that it has been given, and a source of random choices."""

    def __init__(self, folder, seed):
        self._folder = folder
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._turn = os.open(folder / "turn", os.O_RDWR | os.O_CREAT)
        self._nothing = os.open(os.devnull, os.O_RDWR)
        self._nested = 0
        self._is_child = False
        self.made = []
        self.counts = {"answered": 0, "raised": 0}

    def close(self):
        self.made.clear()
        gc.collect()
        os.close(self._turn)
        os.close(self._nothing)

    def path(self):
        return self._folder / self._random.choice(["one", "two"])

    def step(self, *, nested=False):
        """Makes a random call; one within another is not nested further."""
        if nested and self._nested:
            return
        self._nested += nested
        try:
            target = self._random.choice(self.made[-self._random.choice([2, 4, 40]) :]) if self.made else None
            self._call(self._choose(target), target)
        finally:
            self._nested -= nested

    def _choose(self, target):
        dice = self._random.random()
        if dice < 0.04 or target is None:
            return self._open
        for below, other in ((0.08, self._forget), (0.085, self._fork), (0.09, self._compile), (0.10, self._beside)):
            if dice < below:
                return other
        if type(target) not in CALLS:
            return lambda: next(target, None)
        name, count = self._random.choice([*CALLS[type(target)].items()])
        if name in ENDS and self._random.random() < 0.7:
            name, count = self._random.choice(MAKES[type(target)])
        arguments, named = self._arguments(target, name, count)
        return lambda: getattr(target, name)(*arguments, **named)

    def _call(self, call, target):
        try:
            answer = call()
        except EXPECTED as failure:
            self.counts["raised"] += 1
            if "was closed" in str(failure) and target in self.made:
                self.made.remove(target)
            return
        self.counts["answered"] += 1
        for each in answer if type(answer) is tuple else (answer,):
            if type(each).__module__ == native.__name__ and len(self.made) < 40:
                self.made.append(each)

    def _arguments(self, target, name, count):
        """What the call takes, most of the time; each argument may be something else, by another name or missing."""
        usual = {
            "begin": lambda: (self._one(native.Database),),
            "open_db": lambda: (self._bytes(),),
            "cursor": lambda: (self._one(native.Database),),
            "stat": lambda: (self._one(native.Database),) * count,
            "get": lambda: (self._bytes(), None, self._one(native.Database)),
            "put": lambda: (self._bytes(), self._bytes()),
            "delete": lambda: (self._bytes(),)[:count],
            "__exit__": lambda: self._random.choice([(None,) * 3, (TypeError, TypeError(), None), ()]),
            "copyfd": lambda: (self._nothing,),
            "commit": lambda: (
                self._turn,
                self._files(),
                self._last(target),
                self._rows(),
                self._rows(),
                self._one(native.Decided),
            ),
            "add": lambda: (self._turn, self._files(), self._tables(), self._added()),
            "decide": lambda: (
                {name: self._one(native.Database) for name in ("roots", "views", "counts", "system")},
                self._random.choice([(), ((b"a", b"k", b"", (), None, 0, 0, 0, (b"b",), ()),)]),
                self._random.choice([1, Hostile(self)]),
                self._random.choice([{}, {b"a": None, b"b": None}]),
                self._random.choice([1, Hostile(self)]),
                self._random.choice([(), (self._bytes(),)]),
                self._random.choice([True, False, Hostile(self)]),
                self._bytes(),
                self._random.choice([(), (("roots", self._bytes(), None),)]),
            )[:count],
            "are_files": lambda: (self._files(),),
            "cell": lambda: (self._one(native.Database), self._bytes()),
            "column": lambda: (
                self._one(native.Database),
                self._bytes(),
                self._bytes(),
                self._random.choice([1, 9]),
                self._truth(),
            ),
            "together": lambda: (
                self._one(native.Database),
                self._bytes(),
                tuple((self._one(native.Database), self._bytes(), 2) for _ in range(3)),
            ),
            "putmulti": lambda: ([(self._bytes(), self._bytes()) for _ in range(3)],),
        }.get(name, lambda: tuple(self._bytes() for _ in range(count)))
        given = [*usual()] if count else []
        for place in range(len(given)):
            if self._random.random() < 0.1:
                given[place] = self._anything()
        if self._random.random() < 0.1:
            given = given[: self._random.randrange(len(given) + 1)] + [self._anything()] * self._random.randrange(3)
        named = {"write": self._truth()} if name == "begin" and self._random.random() < 0.7 else {}
        if self._random.random() < 0.1:
            named[self._random.choice(NAMES)] = self._anything()
        if given and name not in {"add", "copyfd", "commit"} and self._random.random() < 0.1:
            named[self._random.choice(NAMES)] = given.pop()
        if name == "copyfd" and given:  # any other number may be a file of the store's own
            given[0] = self._random.choice([self._nothing, -1, 2**31, 2**70, None, "text", Descriptor(self)])
        return given, {each: value for each, value in named.items() if each != "fd"}

    def _anything(self):
        return self._random.choice(
            [
                self._bytes,
                self._number,
                self._truth,
                self._rows,
                self._files,
                lambda: self._one(object),
                lambda: self._random.choice(OTHERS),
                lambda: Hostile(self),
            ]
        )()

    def _bytes(self):
        return self._random.choice(BYTES)

    def _number(self):
        return self._random.choice(NUMBERS)

    def _last(self, environment):
        with suppress(native.Error):
            return environment.info()["last_txnid"] - self._random.choice([0, 0, 1])
        return 0

    def _truth(self):
        return self._random.choice([True, False, Hostile(self)])

    def _one(self, kind):
        return self._random.choice([None, *(each for each in self.made if isinstance(each, kind))])

    def _rows(self):
        def rows():
            values = [None, *BYTES, self._anything if self._random.random() < 0.02 else b""]
            return tuple((self._bytes(), self._random.choice(values)) for _ in range(self._random.randrange(6)))

        return self._random.choice([None, (), tuple((self._one(native.Database), rows()) for _ in range(3))])

    def _tables(self):
        return {name: self._one(native.Database) for name in ("counts", "other")}

    def _added(self):
        """A question of `add`; now and then something else in one of its places."""
        values = [True, None, b"", *BYTES]
        rows = tuple(("other", self._bytes(), self._random.choice(values)) for _ in range(self._random.randrange(3)))
        keys = tuple(self._bytes() for _ in range(self._random.choice([0, 1, 2, 17])))
        asked = ["counts", rows, keys[:1], keys, self._number(), self._random.choice([1, 2**45 - 1, 2**45])]
        if self._random.random() < 0.2:
            asked[self._random.randrange(6)] = self._anything()
        return tuple(asked)

    def _files(self):
        paths = [self._folder / "turn", self._folder / "one/data.mdb", self._folder / "missing"]
        known = [(os.fsencode(path), path.stat().st_ino if path.exists() else 0, 0) for path in paths]
        return self._random.choice(
            [(), (), tuple(known), ((b"\0", 1, 1),), ((b"", Hostile(self), 2**70),), (known,) * 9]
        )

    def _open(self):
        if self._is_child:  # it would wait for a write transaction of its parent, which waits for it
            return None
        path = self.path()
        if not path.exists():
            path.mkdir()
        options = {"map_size": SIZE, "max_dbs": 4, "sync": False, "max_spare_txns": self._random.randrange(3)}
        if self._random.random() < 0.3:
            names = ["map_size", "max_dbs", "max_readers", "max_spare_txns", "readonly", "metasync", "subdir"]
            options[self._random.choice(names)] = self._random.choice([self._number(), Hostile(self), None, "text"])
        return native.open(self._random.choice([str(path), os.fsencode(path), path, Hostile(self)]), **options)

    def _forget(self):
        self.made.pop(self._random.randrange(len(self.made)))

    def _compile(self):
        return native.Program(self._anything())

    def _fork(self):
        while len([*Path("/proc/self/task").iterdir()]) > 1:  # one that is ending may hold a lock of the sanitizer
            time.sleep(0.001)
        child = os.fork()
        if not child:
            self._is_child = True
            try:
                for _ in range(10):
                    self.step()
                self.made.clear()
                gc.collect()
            except BaseException:  # noqa: BLE001 - of whatever kind: only the child ends
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def _beside(self):
        """Reads in two threads at one time."""

        def read(choices):
            for _ in range(20):
                target, name = choices.choice(self.made), choices.choice(READS)
                with suppress(*EXPECTED, AttributeError):
                    getattr(target, name)(*([choices.choice(BYTES)] if name in {"get", "set_range", "set_key"} else []))

        threads = [threading.Thread(target=read, args=(random.Random(self._number()),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Descriptor:
    """The descriptor of a file that takes everything."""

    def __init__(self, calls):
        self._calls = calls

    def __index__(self):
        self._calls.step(nested=True)
        return self._calls._nothing


def read_all(path):
    """Reads each entry of each database."""
    with (
        native.open(str(path), max_dbs=64, map_size=SIZE, readonly=True) as environment,
        environment.begin() as reading,
    ):
        for name, _value in [*reading.cursor()]:
            database = None
            with suppress(native.IncompatibleError, native.InvalidParameterError):  # a row beside the databases
                database = environment.open_db(name, reading, create=False)
            if database is not None:
                assert reading.stat(database)["entries"] == len([*reading.cursor(database)])


def main(seed, sequences):
    counts = {"answered": 0, "raised": 0}
    for number in range(seed, seed + sequences):
        with tempfile.TemporaryDirectory() as name:
            calls = Calls(Path(name), number)
            print(f"sequence {number}", file=sys.stderr, flush=True)
            for _ in range(STEPS):
                calls.step()
            calls.close()
            for kind, count in calls.counts.items():
                counts[kind] += count
            for path in Path(name).glob("*/data.mdb"):
                read_all(path.parent)
    print(counts["answered"], counts["raised"])


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
