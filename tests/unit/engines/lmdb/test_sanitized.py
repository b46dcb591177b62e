"""The binding's own tests, with it compiled so that a wrong access to memory ends the process."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tools.native import FOLDER, lacking

FLAGS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
SEQUENCES = int(os.environ.get("ONEREAD_HOSTILE_SEQUENCES", "150"))
"""Of 200 calls each; `make soak` sets it higher."""
ROOT = Path(__file__).resolve().parents[4]
TESTS = [
    Path(__file__).with_name(f"test_{name}.py")
    for name in ("add", "calls", "commit", "compare", "decide", "json", "reads")
]
PAST_THE_END = """
#include <Python.h>
static PyObject *look(PyObject *module, PyObject *none) {
    volatile char *some = malloc(1);
    (void)module, (void)none;
    return PyLong_FromLong(some[1]);
}
static PyMethodDef methods[] = {{"read", look, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "wrong", NULL, -1, methods, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit_wrong(void) { return PyModule_Create(&definition); }
"""


@pytest.fixture(scope="module")
def sanitizer():
    """The path of gcc's library, which must be loaded before all others."""
    what = lacking()
    if what is not None:
        pytest.skip(f"no sanitizer: {what}")
    asked = [os.environ.get("CC", "cc"), "-print-file-name=libasan.so"]
    found = Path(subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip())
    if not found.exists():
        pytest.skip("no sanitizer: the C compiler has no AddressSanitizer")
    nothing = [sys.executable, "-c", "pass"]
    if subprocess.run(nothing, env=environment(str(found), ROOT), check=False, capture_output=True).returncode != 0:
        pytest.skip("no sanitizer: no Python runs under it on this machine")
    return str(found)


def environment(sanitizer, folder):
    others = {name: value for name, value in os.environ.items() if not name.startswith(("COV", "PYTEST"))}
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    options = {"ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc", "LD_PRELOAD": sanitizer}
    return others | options | {"PYTHONPATH": path}


@pytest.fixture(scope="module")
def sanitized(sanitizer, tmp_path_factory):
    """The environment variables of a process that has the sanitized binding."""
    folder = tmp_path_factory.mktemp("sanitized")
    subprocess.run([sys.executable, str(FOLDER / "hatch_build.py"), str(folder), *FLAGS], check=True)
    env = environment(sanitizer, folder)
    which = [sys.executable, "-c", "import oneread_native; print(oneread_native.__file__)"]
    assert subprocess.run(which, env=env, check=True, capture_output=True, text=True).stdout.startswith(str(folder))
    return env


def test_no_call_reads_or_writes_memory_that_is_not_its_own(sanitized):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, TESTS)]
    ran = subprocess.run(command, env=sanitized, check=False, capture_output=True, text=True, cwd=FOLDER.parent)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "skipped" not in ran.stdout


def test_no_sequence_of_calls_does(sanitized):
    """A sequence that ends the process is the last one that it names: `hostile_calls.py SEQUENCE 1` repeats it."""
    program = [sys.executable, "-X", "faulthandler", str(Path(__file__).with_name("hostile_calls.py"))]
    first = 0 if "CI" in os.environ else random.randrange(1 << 32)
    command = [*program, str(first), str(SEQUENCES)]
    ran = subprocess.run(command, env=sanitized, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-5000:]
    assert ran.stderr.count("sequence ") == SEQUENCES
    answered, raised = map(int, ran.stdout.split())
    assert min(answered, raised) > 50 * SEQUENCES


def test_the_sanitizer_finds_a_read_past_the_end(sanitizer, tmp_path):
    (tmp_path / "wrong.c").write_text(PAST_THE_END)
    code = "import sysconfig; print(sysconfig.get_paths()['include'])"
    include = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    built = [os.environ.get("CC", "cc"), *FLAGS, "-fPIC", "-shared", f"-I{include}", "wrong.c", "-o", "wrong.so"]
    subprocess.run(built, check=True, cwd=tmp_path)
    command = [sys.executable, "-c", "import wrong; wrong.read()"]
    env = environment(sanitizer, tmp_path)
    ran = subprocess.run(command, env=env, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode != 0
    assert "wrong.c:6" in ran.stderr
