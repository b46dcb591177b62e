"""What is published: wheels and source distributions of oneread and of oneread-native.

`python -m tools.wheels FOLDER ZIG` makes them in a folder. The compiled ones are made for all platforms on this one
machine, by the program of the package ziglang; each is checked, and the one for this machine is tested. See
docs/design/native.md.
"""

import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZipFile

from elftools.elf.elffile import ELFFile

ROOT: Final = Path(__file__).parent.parent
LIBRARY: Final = "oneread_native.abi3.so"


class Target(NamedTuple):
    """One platform: what the compiler calls it, its processor, and the libraries that every such machine has."""

    compiler: str
    processor: str
    libraries: frozenset[str]


_GLIBC: Final = frozenset({"libc.so.6", "libpthread.so.0"})
_MUSL: Final = frozenset({"libc.so"})

TARGETS: Final = {
    "manylinux2014_x86_64": Target("x86_64-linux-gnu.2.17", "EM_X86_64", _GLIBC),
    "manylinux2014_aarch64": Target("aarch64-linux-gnu.2.17", "EM_AARCH64", _GLIBC),
    "musllinux_1_2_x86_64": Target("x86_64-linux-musl", "EM_X86_64", _MUSL),
    "musllinux_1_2_aarch64": Target("aarch64-linux-musl", "EM_AARCH64", _MUSL),
}

_NEWEST_GLIBC: Final = (2, 17)
_TESTS: Final = [f"tests/unit/engines/lmdb/test_{name}.py" for name in ("calls", "commit", "decide")]


def faults(library: bytes, target: Target) -> list[str]:
    """Why a library would not run on every machine of a platform, or shows more than it must."""
    file: Any = ELFFile(BytesIO(library))
    found = [f"it is for {file['e_machine']}"] if file["e_machine"] != target.processor else []
    needed = {tag.needed for tag in file.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
    found += [f"it needs {name}" for name in sorted(needed - target.libraries)]
    found += [f"it needs {name}" for name in sorted(_versions(file)) if _is_too_new(name)]
    found += [f"it exports {name}" for name in sorted(_exported(file) - {"PyInit_oneread_native"})]
    if file.get_section_by_name(".symtab") is not None:
        found.append("it is not stripped")
    return found


def _versions(file: Any) -> Iterator[str]:
    """The versions of symbols that it asks of libraries, as GLIBC_2.17."""
    asked = file.get_section_by_name(".gnu.version_r")
    for _library, versions in asked.iter_versions() if asked is not None else ():
        for version in versions:
            yield version.name


def _is_too_new(version: str) -> bool:
    library, _, number = version.partition("_")
    return library != "GLIBC" or tuple(map(int, number.split("."))) > _NEWEST_GLIBC


def _exported(file: Any) -> set[str]:
    symbols = file.get_section_by_name(".dynsym").iter_symbols()
    return {each.name for each in symbols if each.name and each["st_shndx"] != "SHN_UNDEF"}


def build(folder: Path, kind: str, *to: str, **environment: str) -> None:
    """Builds a wheel or a source distribution of the package in a folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", *to]
    subprocess.run(command, check=True, cwd=folder, env=os.environ | environment)


def build_native(to: Path, name: str, zig: Path) -> None:
    """Builds the wheel of oneread-native for one platform, and checks what it holds."""
    target = TARGETS[name]
    compiler = shlex.join([str(zig), "cc", "-target", target.compiler])
    build(ROOT / "native", "wheel", str(to), CC=compiler, LDFLAGS="-s", _PYTHON_HOST_PLATFORM=name)
    (wheel,) = to.glob(f"oneread_native-*-cp311-abi3-{name}.whl")
    with ZipFile(wheel) as files:
        found = faults(files.read(LIBRARY), target)
    if found:
        wheel.unlink()
        sys.exit(f"{wheel.name} would not run on every machine that it is for, and is not kept: {'; '.join(found)}")


def try_installed(wheels: Path) -> None:
    """Installs what fits this machine, and tests it."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--only-binary=:all:"]
        options += ["--find-links", str(wheels), "--target", folder]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, "oneread-native"], check=True)
        path = os.pathsep.join([folder, str(ROOT / "src"), str(ROOT)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *_TESTS]
        subprocess.run(command, check=True, cwd=ROOT, env=os.environ | {"ONEREAD_NATIVE": "1", "PYTHONPATH": path})


def main(to: Path, zig: Path) -> None:
    shutil.rmtree(to, ignore_errors=True)
    for folder in (ROOT, ROOT / "native"):
        build(folder, "sdist", str(to))
    build(ROOT, "wheel", str(to))
    for name in TARGETS:
        build_native(to, name, zig)
    if platform.system() == "Linux":
        try_installed(to)
    print(*sorted(f"{path.name} {path.stat().st_size:,} bytes" for path in to.iterdir()), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:  # noqa: PLR2004 - the program, the folder and the compiler
        sys.exit("usage: python -m tools.wheels FOLDER ZIG")
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute())
