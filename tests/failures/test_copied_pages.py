"""Pages of commits that are copied into a mapping of the data file: what would end the process is an error, as before.

A copy that the file system cannot keep raises SIGBUS, where a write by the system says what is wrong. So each of these
is done in a process of its own, by both bindings, which must end alike.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("oneread_native", reason="oneread-native is not installed")

PROGRAM = """
import json, os, random, resource, signal, sys
from importlib import import_module
binding, folder = import_module(sys.argv[1]), sys.argv[2]
os.makedirs(f"{folder}/store", exist_ok=True)
environment = binding.open(f"{folder}/store", map_size=1 << 28, max_dbs=2, max_spare_txns=1, sync=False)
rows, chance, errors = environment.open_db(b"rows"), random.Random(5), []

def commit(times, keys=300, most=700):
    for _ in range(times):
        try:
            with environment.begin(write=True, db=rows) as writing:
                for _ in range(5):
                    writing.put(b"%05d" % chance.randrange(keys), chance.randbytes(chance.randrange(most)))
        except binding.Error as error:
            errors.append(type(error).__name__)

def fill():
    with open(f"{folder}/filler", "ab", buffering=0) as file:
        for size in (1 << 16, 512):
            try:
                while file.write(bytes(size)):
                    pass
            except OSError:
                pass

commit(400)
before = copied() if (copied := getattr(environment, "pages_copied", None)) else 0
{happens}
with environment.begin(rows) as reading:
    held = [[key.decode(), value.hex()[:8]] for key, value in reading.cursor()]
after = copied() if copied else 0
environment.close()
print(json.dumps([errors, held, before, after]))
"""


def run(binding, folder, happens):
    """The errors, the rows, and how many pages were copied before and in all; or the signal that ended it."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-c", PROGRAM.replace("{happens}", happens), binding, str(folder)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode <= 0, ended.stderr
    return json.loads(ended.stdout) if ended.returncode == 0 else [ended.returncode]


def both(folder, happens):
    """What the compiled binding came to, which is what py-lmdb did but for copies, and how many pages it copied."""
    py = run("lmdb", folder / "lmdb", happens)
    shutil.rmtree(folder / "lmdb")  # the other one needs the room
    native = run("oneread_native", folder / "native", happens)
    assert native[:2] == py[:2]
    return native


def mounted(folder, *command):
    folder.mkdir()
    if subprocess.run(["mount", *command, folder], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let tests mount a file system")
    return folder


@pytest.fixture
def tmpfs(tmp_path):
    yield mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=3m", "tmpfs")
    subprocess.run(["umount", "-l", tmp_path / "disk"], check=True)


@pytest.fixture
def ext4(tmp_path):
    with (tmp_path / "image").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, 16 << 20)
    try:
        subprocess.run(["mkfs.ext4", "-q", tmp_path / "image"], check=True)
    except FileNotFoundError:
        pytest.skip("this machine has no mkfs.ext4")
    yield mounted(tmp_path / "disk", "-o", "loop", tmp_path / "image")
    subprocess.run(["umount", "-l", tmp_path / "disk"], check=True)


FULL = """
fill()
for _ in range(5):
    os.sync()
    commit(40)
    commit(40, 900, 3000)
    fill()
"""


@pytest.mark.parametrize("disk", ["tmpfs", "ext4"])
def test_a_full_disk_is_an_error(request, disk):
    """Written pages have their places, also after the system has written them back; others have none to get."""
    folder = request.getfixturevalue(disk)
    native = both(folder, FULL)
    assert native[0]
    assert 0 < native[2] < native[3]


HOLES = """
environment.close()
file = f"{folder}/store/data.mdb"
os.truncate(file, os.path.getsize(file) + (1 << 20))
environment = binding.open(f"{folder}/store", map_size=1 << 28, max_dbs=2, max_spare_txns=1, sync=False)
copied, rows = getattr(environment, "pages_copied", None), environment.open_db(b"rows")
fill()
commit(200, 3000)
"""


def test_holes_of_the_file_on_a_full_disk_are_an_error(tmpfs):
    """Pages within the file that have no place on the disk: as where a copy has left out what is all zeros."""
    native = both(tmpfs, HOLES)
    assert native[0]


CUT = """
with environment.begin(write=True, db=rows) as writing:
    for key in [key for key, _value in writing.cursor()]:
        writing.delete(key)
commit(5, 1, 1)
os.truncate(f"{folder}/store/data.mdb", {pages} * environment.stat()["psize"])
commit(30, 50)
"""


def test_a_file_that_is_cut_ends_no_more_than_before(tmp_path):
    """LMDB reads by a mapping as well: most files that are cut end the process, by any binding."""
    ends = [both(tmp_path / f"{pages}", CUT.replace("{pages}", f"{pages}")) for pages in range(4, 64, 4)]
    assert any(len(each) == 1 for each in ends)
    assert any(len(each) > 1 and not each[0] for each in ends)


NO_ADDRESSES = """
commit(400, 5000, 8000)
environment.close()
environment = binding.open(f"{folder}/store", map_size=1 << 28, max_dbs=2, max_spare_txns=1, sync=False)
copied, rows = getattr(environment, "pages_copied", None), environment.open_db(b"rows")
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmSize")) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 20), resource.RLIM_INFINITY))
commit(50)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
commit(50)
"""


def test_a_process_that_can_map_no_more_writes_by_the_system(tmp_path):
    native = both(tmp_path, NO_ADDRESSES)
    assert (native[0], native[3]) == ([], 0)


LIMITED = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, resource.RLIM_INFINITY))
commit(20)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
commit(20)
"""


def test_a_limit_of_files_is_an_error(tmp_path):
    native = both(tmp_path, LIMITED)
    assert len(native[0]) == 20
    assert 0 < native[2] < native[3]


BROKEN = """
import subprocess
os.sync()
subprocess.run(["mount", "-o", "remount,abort", os.path.dirname(folder)], check=True)
commit(20)
"""


def test_a_file_system_that_takes_no_writes_any_more_is_an_error(ext4):
    """As ext4 after an error of the disk; what was copied before is written back, so that a copy would fail."""
    native = run("oneread_native", ext4 / "native", BROKEN)
    assert len(native[0]) == 20
    assert 0 < native[2] == native[3]


def test_where_a_page_may_get_another_place_nothing_is_copied(tmp_path):
    folders = [tmp_path / name for name in ("lower", "upper", "work")]
    for each in folders:
        each.mkdir()
    lower, upper, work = folders
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    disk = mounted(tmp_path / "disk", "-t", "overlay", "-o", options, "overlay")
    try:
        assert both(disk, "commit(20)")[3] == 0
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
