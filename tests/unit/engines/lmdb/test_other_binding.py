"""The tests of LMDB's stores, run again on the binding that this process does not use."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from oneread.engines.lmdb import binding

ROOT = Path(__file__).resolve().parents[4]
FILES = [
    "tests/cli/test_backup.py",
    "tests/conformance/test_lmdb.py",
    "tests/failures/test_damaged_files.py",
    "tests/failures/test_damaged_rows.py",
    "tests/failures/test_foreign_files.py",
    "tests/failures/test_fork.py",
    "tests/failures/test_full_disk.py",
    "tests/failures/test_full_map.py",
    "tests/failures/test_hidden_rows.py",
    "tests/failures/test_interrupts.py",
    "tests/failures/test_killed_backups.py",
    "tests/failures/test_killed_writers.py",
    "tests/failures/test_limits_of_a_process.py",
    "tests/failures/test_lock_permissions.py",
    "tests/failures/test_lost_locks.py",
    "tests/failures/test_replaced_files.py",
    "tests/failures/test_same_pid.py",
    "tests/failures/test_stale_readers.py",
    "tests/unit/engines/lmdb/test_disk.py",
    "tests/unit/engines/lmdb/test_engine.py",
    "tests/unit/engines/lmdb/test_runs.py",
    "tests/unit/engines/lmdb/test_translate.py",
    "tests/unit/engines/lmdb/test_writer.py",
    "tests/unit/engines/test_scrub.py",
]


@pytest.mark.parametrize("file", FILES)
def test_they_hold_on_the_other_binding(file):
    if find_spec("oneread_native") is None:
        pytest.skip("oneread-native is not installed")
    asked = "0" if binding.NATIVE else "1"
    of_this_run = ("PYTEST_", "COV_CORE")
    env = {name: value for name, value in os.environ.items() if not name.startswith(of_this_run)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", file]
    env |= {"ONEREAD_NATIVE": asked, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    ran = subprocess.run(command, env=env, check=False, capture_output=True, text=True, cwd=ROOT)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert " passed" in ran.stdout
