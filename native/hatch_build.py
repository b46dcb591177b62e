"""Builds the extension: LMDB's files with the patches of its series applied, and the binding to it.

`python hatch_build.py FOLDER [flags]` makes `oneread_native.abi3.so` in a folder; flags are the compiler's, as
-fsanitize=address. As a hook of hatchling it puts the same file into the wheel.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
NAME = "oneread_native.abi3.so"
_SOURCES = ("lmdb.h", "midl.h", "mdb.c", "midl.c")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_OURS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")
_THEIRS = ("-w", "-UNDEBUG")  # as py-lmdb compiles them: what LMDB asserts is checked


class BuildHook(BuildHookInterface[Any]):
    """Compiles before the wheel is packed."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        made = compile_module(Path(self.directory, "compiled"), version=self.metadata.version)
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
        build_data.update(pure_python=False, tag=f"cp311-abi3-{platform}")
        build_data["force_include"][str(made)] = NAME


def compile_module(to: Path, flags: tuple[str, ...] = ("-O2",), version: str = "0") -> Path:
    """Compiles and links all files; CC names the compiler, CFLAGS adds to the flags."""
    to.mkdir(parents=True, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    given = (*flags, *shlex.split(os.environ.get("CFLAGS", "")))
    with tempfile.TemporaryDirectory() as folder:
        patched = Path(folder)
        write_patched(patched)
        include = [f"-I{patched}", f"-I{sysconfig.get_paths()['include']}"]
        objects: list[str] = []
        jobs = [(patched / name, _THEIRS) for name in _SOURCES if name.endswith(".c")]
        jobs += [(path, _OURS) for path in sorted(HERE.glob("src/*.c"))]
        for path, own in jobs:
            objects.append(str(patched / f"{path.stem}.o"))
            defined = f'-DONEREAD_NATIVE_VERSION="{version}"'
            command = [*compiler, *given, *own, defined, "-fPIC", "-fvisibility=hidden", *include]
            subprocess.run([*command, "-c", str(path), "-o", objects[-1]], check=True)
        unfinished = to / f"{NAME}.unfinished"
        subprocess.run([*compiler, *given, "-shared", "-pthread", *objects, "-o", str(unfinished)], check=True)
        return unfinished.rename(to / NAME)


def write_patched(to: Path) -> None:
    """Writes LMDB's files, with every patch applied exactly where it says."""
    texts = {name: (HERE / "lmdb" / name).read_text().splitlines() for name in _SOURCES}
    for patch in (HERE / "lmdb" / "patches" / "series").read_text().split():
        apply_patch((HERE / "lmdb" / "patches" / patch).read_text(), texts)
    for name, lines in texts.items():
        (to / name).write_text("\n".join([*lines, ""]))


def apply_patch(patch: str, texts: dict[str, list[str]]) -> None:
    """Applies a unified diff; ValueError where a line that it takes out, or that is around it, is another one."""
    lines: list[str] = []
    added = at = 0
    for line in patch.splitlines():
        hunk = _HUNK.match(line)
        if line.startswith("+++ "):
            lines, added = texts[line.split("\t")[0].rpartition("/")[2]], 0
        elif hunk:
            at = int(hunk[1]) - 1 + added
        elif line.startswith("+"):
            lines.insert(at, line[1:])
            at, added = at + 1, added + 1
        elif lines and (not line or line[0] in " -") and not line.startswith("--- "):
            if lines[at] != line[1:]:
                raise ValueError(f"line {at + 1} is {lines[at]!r}, and the patch has {line!r}")
            if line.startswith("-"):
                del lines[at]
                added -= 1
            else:
                at += 1
        else:
            lines = []


if __name__ == "__main__":
    print(compile_module(Path(sys.argv[1]), tuple(sys.argv[2:]) or ("-O2",)))
