"""Builds the extension: LMDB's files with the patches of its series applied, and the binding to it.

`python hatch_build.py FOLDER [flags]` makes `oneread_native.abi3.so` in a folder; flags are the compiler's, as
-fsanitize=address. As a hook of hatchling it puts the same file into the wheel; where the machine has no C compiler it
asks for ziglang, which is one. CC names another compiler, CFLAGS and LDFLAGS add to its flags, and where it compiles
for another platform _PYTHON_HOST_PLATFORM names that. The same files make the same bytes, in whatever folder.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).parent
NAME = "oneread_native.abi3.so"
ZIG = "ziglang>=0.17"
_SOURCES = ("lmdb.h", "midl.h", "mdb.c", "midl.c")
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
_OURS = ("-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror")
_THEIRS = ("-w", "-UNDEBUG")  # as py-lmdb compiles them: what LMDB asserts is checked
_PAGES = ("-include", str(HERE / "src" / "page_writes.h"))  # for LMDB's pages to be written by page_writes.c


class BuildHook(BuildHookInterface[Any]):
    """Compiles before the wheel is packed."""

    def dependencies(self) -> list[str]:
        return [ZIG] if has_headers() and find_compiler() is None and "CC" not in os.environ else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()  # until the wheel is packed, and this hook is forgotten
        made = compile_module(Path(self._folder.name), version=self.metadata.version)
        platform = re.sub(r"[-.]", "_", sysconfig.get_platform())
        build_data.update(pure_python=False, tag=f"cp311-abi3-{platform}")
        build_data["force_include"][str(made)] = NAME


def find_compiler() -> list[str] | None:
    """The command of the C compiler: CC or cc, else ziglang's where that is installed; None where there is none."""
    given = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(given[0]) is not None:
        return given
    return [sys.executable, "-m", "ziglang", "cc"] if "CC" not in os.environ and find_spec("ziglang") else None


def has_headers() -> bool:
    """Whether the headers of this Python are installed."""
    return Path(sysconfig.get_paths()["include"], "Python.h").exists()


def lacking() -> str | None:
    """What a build lacks here; None where it lacks nothing."""
    if not has_headers():
        return "the headers of this Python are not installed; as root: apt-get install python3-dev"
    if find_compiler() is None:
        named = shlex.split(os.environ.get("CC", "cc"))[0]
        return f"no C compiler ({named}) is found; as root: apt-get install gcc libc6-dev"
    return None


def compile_module(to: Path, flags: tuple[str, ...] = ("-O2",), version: str = "0") -> Path:
    """Compiles and links all files."""
    what, compiler = lacking(), find_compiler()
    if what is not None or compiler is None:
        sys.exit(f"oneread-native cannot be built: {what}")
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        patched = Path(folder)
        write_patched(patched)
        write_configuration(patched)
        named = [f"-ffile-prefix-map={patched}=lmdb", f"-ffile-prefix-map={HERE}=native"]
        given = [*compiler, *named, *flags, *shlex.split(os.environ.get("CFLAGS", ""))]
        include = [f"-I{patched}", f"-I{sysconfig.get_paths()['include']}"]
        objects: list[str] = []
        jobs = [(patched / "mdb.c", (*_THEIRS, *_PAGES)), (patched / "midl.c", _THEIRS)]
        jobs += [(path, _OURS) for path in sorted(HERE.glob("src/*.c"))]
        for path, own in jobs:
            objects.append(str(patched / f"{path.stem}.o"))
            defined = f'-DONEREAD_NATIVE_VERSION="{version}"'
            command = [*given, *own, defined, "-fPIC", "-fvisibility=hidden", *include]
            subprocess.run([*command, "-c", str(path), "-o", objects[-1]], check=True)
        unfinished = to / f"{NAME}.unfinished"
        linking = [*shlex.split(os.environ.get("LDFLAGS", "")), "-shared", "-pthread"]
        subprocess.run([*given, *linking, *objects, "-o", str(unfinished)], check=True)
        return unfinished.rename(to / NAME)


def write_configuration(to: Path) -> None:
    """Writes the pyconfig.h of this Python where that of another machine is looked for.

    Debian has one for each machine. What the stable ABI asks of it is the same on all Linuxes of 64 bits.
    """
    include = Path(sysconfig.get_paths()["include"])
    for name in re.findall(r"<((?:x86_64|aarch64)-linux-gnu/\S+)>", (include / "pyconfig.h").read_text()):
        own = include.parent / sysconfig.get_config_var("MULTIARCH") / include.name / "pyconfig.h"
        (to / name).parent.mkdir(parents=True)
        shutil.copyfile(own, to / name)


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
