"""What power failures leave of a recorded run, opened in another process: a damaged LMDB file can kill its reader."""

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import PurePath

from tests.power.disk import Disk, put, ways
from tests.power.recording import DSYNC, FOLDER, ROOT, records

FAILURES = int(os.environ.get("ONEREAD_POWER_FAILURES", "12"))
SEED = int(os.environ.get("ONEREAD_POWER_SEED", "1"))


class Opener:
    """A process that opens stores until it dies of one; then there is another."""

    def __init__(self):
        self._process = None

    def faults(self, left, acknowledged):
        if not left.exists():
            return [f"the folder is gone, and in it {acknowledged}"] if acknowledged else []
        if self._process is None:
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.power.programs", "check"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                env=environment,
                text=True,
            )
        asked = {"url": f"lmdb://{left}?durability=none", "acknowledged": acknowledged}
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer:
            return json.loads(answer)
        code = self._process.wait(timeout=60)
        self.close()
        return [f"the process that opened it died ({code})"]

    def close(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait(timeout=60)
            self._process = None


class Run:
    """What was recorded below the folder `world` of one store in it.

    Arguments:
        opener: opens what power failures leave.
    """

    def __init__(self, world, opener, store="store"):
        self.world = world
        self.opener = opener
        self.store = store
        self.data = f"{store}/data.mdb"
        self.records = records(world)
        assert not [record for record in self.records if record.kind == "X" and record.path == self.data]

    def acknowledgements(self, end, process=None):
        """Those among the first `end` records, of all processes or of one."""
        return [record for record in self.records[:end] if self._is_mark(record) and process in (None, record.process)]

    def acknowledged(self, end, process=None):
        """The newest version of each key that was acknowledged among the first `end` records."""
        return newest(self.acknowledgements(end, process))

    def all_but_last(self, end):
        """Likewise, without the last acknowledgement."""
        return newest(self.acknowledgements(end)[:-1])

    def before_last_sync(self, end):
        """Likewise, of what was acknowledged before the last sync that succeeded began."""
        ended = {record.call for record in self.records[:end] if self._is_sync(record) and record.ended}
        begun = [at for at, record in enumerate(self.records[:end]) if record.call in ended and not record.ended]
        return newest(self.acknowledgements(max(begun, default=0)))

    def marks(self):
        """After which records something had just been acknowledged."""
        return [at for at, record in enumerate(self.records, 1) if self._is_mark(record)]

    def _is_mark(self, record):
        return record.kind == "A" and record.data.startswith(f"{self.store} ".encode())

    def _is_sync(self, record):
        return record.kind == "S" and not record.flags & FOLDER and record.path == self.data

    def syncs(self):
        return [record for record in self.records if self._is_sync(record) and record.ended]

    def meta_writes(self):
        """LMDB's writes of a meta page: behind the page's head, short; the synchronous ones and the others."""
        found = [
            record
            for record in self.records
            if record.kind == "W" and not record.ended and record.path == self.data and 0 < len(record.data) < 512
        ]
        return [bool(record.flags & DSYNC) for record in found]

    def broken(self, place, failures, required, *, left_in=None):
        """Lets the power fail and opens what is left; answers what was wrong, and how to see it again.

        Arguments:
            place: a folder for what is left; made here.
            failures: pairs of a number of records and a way of `ways`.
            required: of a number of records, what must be there after them.
            left_in: the folder that is opened afterwards; that of the store unless given.
        """
        rng = random.Random(SEED)
        disk, taken, found = Disk(self.world), 0, []
        place.mkdir()
        for number, (moment, name) in enumerate(sorted(failures)):
            for record in self.records[taken:moment]:
                disk.take(record)
            taken = moment
            left = place / str(number)
            put(disk.top, left, ways(rng, disk.moment(self.data))[name], rng.choice(NAMES)(rng))
            wrong = self.opener.faults(left / (left_in or self.store), required(moment))
            found += [f"seed {SEED}, after record {moment}, a disk with {name}: {wrong[:3]}"] if wrong else []
            shutil.rmtree(left)
        return found

    def sampled(self, count):
        """Failures after acknowledgements, in the middle of syncs, and anywhere; each way of the disk in turn."""
        rng = random.Random(SEED)
        own = [
            at
            for at, record in enumerate(self.records, 1)
            if PurePath(record.path).parts[:1] == (self.store,) or self._is_mark(record)
        ]
        anywhere = range(own[0], own[-1] + 1)
        marks = self.marks()
        syncing = [at for at in own if self._is_sync(self.records[at - 1]) and not self.records[at - 1].ended]
        moments = [marks[0], marks[-1], *(rng.choice((marks, syncing, anywhere)[at % 3]) for at in range(count))]
        names = rng.sample(WAYS, len(WAYS))
        return [(moment, names[at % len(names)]) for at, moment in enumerate(moments)]


def newest(acknowledgements):
    found = {}
    for record in acknowledgements:
        _, model, key, version = record.data.decode().split()
        found[model, int(key)] = int(version)
    return [(model, key, version) for (model, key), version in found.items()]


BACKUP = b"backup"
WAYS = sorted(ways(random.Random(0), 0))
NAMES = [
    lambda _rng: lambda _changes: 0,
    lambda _rng: lambda changes: changes,
    lambda rng: lambda changes: rng.randint(0, changes),
]
"""How many of a folder's changes since its sync are there."""
