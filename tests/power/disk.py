"""A model of a disk below a page cache: what it may hold when the power fails.

What was written is in the cache; the disk holds, of each sector, the bytes of the last completed sync or of any write
since, whatever other sectors hold: writes are dropped, kept, reordered and torn. A completed sync makes permanent
what was written before it began. A failed one makes the written pages clean without that: only writing one again lets
a later sync put it on disk. Names are entries of a folder: permanent once the folder is synced, until then any number
of the first changes may be there. Sources: T. S. Pillai and others, "All File Systems Are Not Created Equal", OSDI
2014; A. Rebello and others, "Can Applications Recover from fsync Failures?", USENIX ATC 2020.
"""

from pathlib import PurePath

from tests.power.recording import DSYNC, FOLDER, SKIPPED, relative_target

PAGE = 4096
METAS = (0, 1)  # LMDB's two meta pages


class File:
    """One file: the bytes in the cache, the bytes on disk, and for each page what the disk may hold instead."""

    def __init__(self):
        self.cache, self.durable = bytearray(), bytearray()
        self.sizes = []  # (moment, size) since the last sync
        self.versions = {}  # page -> [(moment, bytes)] since it was last known to be on disk
        self.dirty = set()
        self.moment = 0

    def write(self, offset, data):
        self.moment += 1
        end = offset + len(data)
        self._grow(end)
        self.cache[offset:end] = data
        for page in self._pages(offset, len(data)):
            self.versions.setdefault(page, []).append((self.moment, bytes(self.cache[page * PAGE : (page + 1) * PAGE])))
            self.dirty.add(page)

    def resize(self, size):
        assert size >= len(self.cache), "the model's files only grow"
        self.moment += 1
        self._grow(size)

    def begin_sync(self):
        return self.moment, frozenset(self.dirty)

    def end_sync(self, begun, *, good, within=None):
        """Ends a sync of the whole file, or of the bytes `within`; a failed one only makes pages clean."""
        moment, dirty = begun
        for page in dirty if within is None else dirty & set(self._pages(*within)):
            versions = self.versions.get(page, [])
            later = [version for version in versions if version[0] > moment]
            if not later:
                self.dirty.discard(page)
            if good and len(later) < len(versions):
                self._put(page, versions[len(versions) - len(later) - 1][1])
                self.versions[page] = later
        if good and within is None:
            sizes = [size for grown, size in self.sizes if grown <= moment]
            self._fit(sizes[-1] if sizes else len(self.durable))
            self.sizes = self.sizes[len(sizes) :]

    def rebuilt(self, choose, size):
        """The bytes after a power failure: `choose(page, versions)` answers a page's, `size` the file's."""
        found = bytearray(self.durable)
        for page, versions in self.versions.items():
            if versions:
                before = bytes(self.durable[page * PAGE : (page + 1) * PAGE]).ljust(PAGE, b"\0")
                after = [(0, before), *((moment, data.ljust(PAGE, b"\0")) for moment, data in versions)]
                end = (page + 1) * PAGE
                found.extend(bytes(max(0, end - len(found))))
                found[page * PAGE : end] = choose(page, after)
        sizes = [len(self.durable), *(grown for _, grown in self.sizes)]
        wanted = size(sizes)
        return bytes(found[:wanted].ljust(wanted, b"\0"))

    def _grow(self, size):
        if size > len(self.cache):
            self.cache.extend(bytes(size - len(self.cache)))
            self.sizes.append((self.moment, size))

    def _put(self, page, data):
        self._fit(max(len(self.durable), page * PAGE + len(data)))
        self.durable[page * PAGE : page * PAGE + len(data)] = data

    def _fit(self, size):
        del self.durable[size:]
        self.durable.extend(bytes(size - len(self.durable)))

    @staticmethod
    def _pages(offset, size):
        return range(offset // PAGE, (offset + size + PAGE - 1) // PAGE)


class Folder:
    """Names and what they stand for: as programs see them, and as they are on disk with the changes since."""

    def __init__(self):
        self.entries, self.durable, self.changes = {}, {}, []

    def change(self, removed=None, added=None, what=None):
        self.changes.append((removed, added, what))
        _apply(self.entries, self.changes[-1])

    def end_sync(self, count):
        for change in self.changes[:count]:
            _apply(self.durable, change)
        del self.changes[:count]

    def rebuilt(self, count):
        found = dict(self.durable)
        for change in self.changes[: count(len(self.changes))]:
            _apply(found, change)
        return found


def _apply(entries, change):
    removed, added, what = change
    if removed is not None:
        entries.pop(removed, None)
    if added is not None:
        entries[added] = what


class Disk:
    """The watched folder, given one record after the other."""

    def __init__(self, world):
        self.world = world
        self.top = Folder()
        self._begun = {}

    def take(self, record):
        _TAKES[record.kind](self, record)

    def moment(self, path):
        """How many changes a file has seen; 0 when it is not there yet."""
        try:
            return self._find(path).moment
        except KeyError:
            return 0

    def _folder(self, path):
        return self._find(PurePath(path).parent)

    def _find(self, path):
        found = self.top
        for part in PurePath(path).parts:
            found = found.entries[part]
        return found

    def _make(self, record):
        self._folder(record.path).change(
            added=PurePath(record.path).name, what=File() if record.kind == "O" else Folder()
        )

    def _remove(self, record):
        self._folder(record.path).change(removed=PurePath(record.path).name)

    def _rename(self, record):
        target = PurePath(relative_target(record, self.world))
        assert target.parent == PurePath(record.path).parent, "the model renames within one folder"
        name = PurePath(record.path).name
        self._folder(record.path).change(removed=name, added=target.name, what=self._find(record.path))

    def _write(self, record):
        file = self._find(record.path)
        if not record.ended:
            if not record.flags & SKIPPED:
                file.write(record.offset, record.data)
            self._begun[record.call] = file.begin_sync(), len(record.data)
        elif record.flags & DSYNC:
            begun, size = self._begun.pop(record.call)
            file.end_sync(begun, good=record.result >= 0, within=(record.offset, size))

    def _sync(self, record):
        found = self._find(record.path)
        if record.flags & FOLDER:
            if not record.ended:
                self._begun[record.call] = len(found.changes)
            elif record.result == 0:
                found.end_sync(self._begun.pop(record.call))
        elif not record.ended:
            self._begun[record.call] = found.begin_sync()
        else:
            found.end_sync(self._begun.pop(record.call), good=record.result == 0)

    def _resize(self, record):
        file = self._find(record.path)
        file.resize(record.offset if record.kind == "T" else max(record.offset, len(file.cache)))

    def _pass(self, record):
        """An acknowledgement, or a map for writing, of which the model knows nothing: the tests look at these."""


_TAKES = {
    "O": Disk._make, "M": Disk._make, "U": Disk._remove, "R": Disk._rename, "W": Disk._write, "S": Disk._sync,
    "T": Disk._resize, "G": Disk._resize, "A": Disk._pass, "X": Disk._pass,
}  # fmt: skip


def newest(_page, versions):
    return versions[-1][1]


def oldest(_page, versions):
    return versions[0][1]


def before_newest(_page, versions):
    return versions[-2 if len(versions) > 1 else -1][1]


def torn(rng, sector):
    """Each sector of a page from any of its versions."""

    def choose(_page, versions):
        parts = [rng.choice(versions)[1][at : at + sector] for at in range(0, PAGE, sector)]
        return b"".join(parts)

    return choose


def _of_metas(metas, others):
    return lambda page, versions: (metas if page in METAS else others)(page, versions)


def _up_to(rng, moments):
    """A disk that writes in order: everything up to some moment."""
    last = rng.randint(0, moments)
    return lambda _page, versions: max(version for version in versions if version[0] <= last)[1]


def ways(rng, moments):
    """By name, how a disk chooses among the bytes it may hold: the extremes first, then by chance."""
    return {
        "nothing that was not synced": (oldest, min),
        "everything": (newest, max),
        "the meta page only": (_of_metas(newest, oldest), max),
        "the meta page only, and the file short": (_of_metas(newest, oldest), min),
        "all but the meta page": (_of_metas(oldest, newest), max),
        "an older meta page": (_of_metas(before_newest, newest), max),
        "the meta page, data torn at 512": (_of_metas(newest, torn(rng, 512)), max),
        "the meta page, data torn at 4096": (_of_metas(newest, torn(rng, PAGE)), max),
        "torn at 512": (torn(rng, 512), rng.choice),
        "torn at 4096": (torn(rng, PAGE), rng.choice),
        "in order": (_up_to(rng, moments), max),
    }


def put(folder, place, way, count):
    """Writes what a folder of the model holds after a power failure to a real one."""
    place.mkdir()
    for name, what in folder.rebuilt(count).items():
        if isinstance(what, Folder):
            put(what, place / name, way, count)
        else:
            (place / name).write_bytes(what.rebuilt(*way))
