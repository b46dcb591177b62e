"""Files under another name until they are complete, and the unfinished ones of killed processes.

The maker of an unfinished file holds an exclusive `flock` on it while it lives. Its PID would not identify it: every
container has a PID 1. See docs/formats/lmdb.md.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Final

SUFFIX: Final = "unfinished"
_TOKEN_BYTES: Final = 8


def name_beside(target: Path) -> Path:
    """A new hidden name in the folder of `target`, which no other process uses."""
    return target.with_name(f".{target.name}.{secrets.token_hex(_TOKEN_BYTES)}.{SUFFIX}")


def hold(file: int) -> None:
    """Locks a file until the descriptor is closed: its maker lives. Does nothing where locks are not supported."""
    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def leftovers(folder: Path, name: str = "*", within: str = "") -> list[Path]:
    """The unfinished files and folders of killed processes in a folder, for one target name or for all.

    `within` is the file that the maker of an unfinished folder holds.
    """
    pattern = f".{'*' if name == '*' else _literal(name)}.*.{SUFFIX}"
    return sorted(path for path in folder.glob(pattern) if _is_leftover(path / within if path.is_dir() else path))


def remove_leftovers(target: Path, within: str = "") -> list[Path]:
    """Removes the unfinished files of killed processes that were making `target`; returns them."""
    removed: list[Path] = []
    for path in leftovers(target.absolute().parent, target.name, within):
        with _held(path / within if path.is_dir() else path) as mine:
            if mine and path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif mine:
                path.unlink(missing_ok=True)
        if not path.exists():
            removed.append(path)
    return removed


def _literal(name: str) -> str:
    """A name as a pattern that matches only it."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in name)


def _is_leftover(path: Path) -> bool:
    with _held(path) as mine:
        return mine


@contextlib.contextmanager
def _held(path: Path) -> Generator[bool]:
    """Whether the lock on an unfinished file was free; it is held meanwhile. A folder without the file is empty."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield True
        return
    except OSError:
        yield False
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
        return
    else:
        yield True
    finally:
        os.close(file)
