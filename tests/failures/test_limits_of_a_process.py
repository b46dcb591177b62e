"""The system refuses a process: large files, address space, open files.

The story: under `ulimit -v`, `-f` or `-n`, in some containers and at hosters, a store said that it could not answer, or
that its commit's outcome is unknown. Each limit has an error that names it, wherever it is met: at opening, at the
first commit, at a later one, and for readers.
"""

import json

import pytest

from tests.failures.stores import child

BEFORE = """
import json, os, resource, sys
from oneread import Key, Model, Schema, connect
from oneread.errors import OnereadError

class Note(Model[int]):
    number: Key[int]
    text: str

site = Schema(Note)

def said(deed):
    try:
        return ["fine", deed()]
    except OnereadError as error:
        return [type(error).__name__, error.retryable, error.message]

def limit(what, soft):
    resource.setrlimit(what, (soft, resource.getrlimit(what)[1]))

def once(query=""):
    with connect(sys.argv[1] + query, site, workers=0) as db:
        return db.find(Note, 1) is not None

def show(found):
    print(json.dumps(found))
"""


def run(program, store):
    process = child(BEFORE + program, f"lmdb://{store}")
    said, _ = process.communicate()
    assert process.returncode == 0
    return json.loads(said)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def make(store):
    run("with connect(sys.argv[1], site) as db: db.save(Note(number=1, text='x'))\nshow(1)", store)


SOME_OF_EACH = """
found = []
for size in SIZES:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    found.append(said(once))
show(found)
"""


def test_a_file_that_may_not_grow_is_named_while_a_store_is_made(store):
    found = run(SOME_OF_EACH.replace("SIZES", "range(0, 100_000, 4096)"), store)
    refused = [each for each in found if each[0] != "fine"]
    assert refused
    assert found[-1] == ["fine", False]
    for kind, again, message in refused:
        assert (kind, again) == ("LimitExceeded", False)
        assert "ulimit -f" in message
    assert sorted(each.name for each in store.iterdir()) == ["data.mdb", "lock.mdb", "writer.lock"]


GROW = """
db = connect(sys.argv[1], site, workers=0)
number = 1
resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, resource.RLIM_INFINITY))

def grow():
    global number
    while number < 300:
        db.save(Note(number=number, text="x" * TEXT))
        number += 1

found = [said(grow)]
found.append(number > 1 and db.get(Note, number - 1).number == number - 1)
found.append(said(lambda: db.backup(sys.argv[1].removeprefix("lmdb://") + ".copy")))
limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)
found.append(said(grow))
found.append([each.number for page in db.scan(Note) for each in page] == list(range(1, 300)))
show(found)
"""


@pytest.mark.parametrize("text", [1000, 20_000])
@pytest.mark.parametrize("size", [200_000, 204_800])
def test_a_file_that_may_not_grow_refuses_writes_until_it_may(store, size, text):
    full, reads, _copy, later, whole = run(GROW.replace("LARGEST", str(size)).replace("TEXT", str(text)), store)
    assert full[:2] == ["LimitExceeded", False]
    assert "ulimit -f" in full[2]
    assert reads
    assert later == ["fine", None]
    assert whole


BACKUPS = """
with connect(sys.argv[1], site, workers=0) as db:
    db.save_all([Note(number=number, text="x" * 1000) for number in range(500)])
    limit(resource.RLIMIT_FSIZE, 100_000)
    target = sys.argv[1].removeprefix("lmdb://") + ".copy"
    show([said(lambda: db.backup(target, compact=compact)) for compact in (False, True)])
"""


def test_a_backup_that_may_not_grow_is_named_and_not_kept(store):
    for kind, again, message in run(BACKUPS, store):
        assert (kind, again) == ("LimitExceeded", False)
        assert "ulimit -f" in message
    assert [each.name for each in store.parent.iterdir()] == ["store"]


ADDRESSES = """
limit(resource.RLIMIT_AS, 8 << 30)
show([said(lambda: once(query)) for query in QUERIES])
"""


@pytest.mark.parametrize("is_made", [False, True])
def test_too_little_address_space_is_named_and_a_smaller_map_opens(store, is_made):
    queries = ["", "?read_only=true", "?map_size=1G", "?map_size=1G&read_only=true"]
    if is_made:
        make(store)
    else:
        queries.remove("?read_only=true")
    *refused, opened, read = run(ADDRESSES.replace("QUERIES", str(queries)), store)
    assert (opened, read) == (["fine", is_made], ["fine", is_made])
    for kind, again, message in refused:
        assert (kind, again) == ("LimitExceeded", False)
        assert "map_size" in message
    assert sorted(each.name for each in store.iterdir()) == ["data.mdb", "lock.mdb", "writer.lock"]


OPEN_FILES = """
once("QUERY")  # everything is imported
found = []
highest = max(map(int, os.listdir("/proc/self/fd")))
for more in range(24):
    limit(resource.RLIMIT_NOFILE, highest + more)
    found.append(said(lambda: once("QUERY")))
limit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
show([*found, said(lambda: once("QUERY"))])
"""


@pytest.mark.parametrize("query", ["", "?read_only=true"])
def test_too_many_open_files_are_named(store, query):
    make(store)
    found = run(OPEN_FILES.replace("QUERY", query), store)
    refused = [each for each in found if each[0] != "fine"]
    assert len(refused) > 1
    assert found[-1] == ["fine", True]
    for kind, again, message in refused:
        assert (kind, again) == ("Unavailable", True)
        assert "open files" in message
