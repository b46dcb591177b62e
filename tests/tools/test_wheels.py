"""What `make wheels` publishes. Its compiler is of 400 MB, so here that of the machine does the same."""

import os
import platform
import subprocess
import sys
import tarfile
import tomllib
from runpy import run_path
from zipfile import ZipFile

import pytest

from tests.tidy import tree
from tools import native, wheels

HERE = f"manylinux2014_{platform.machine()}"
MUSL = HERE.replace("manylinux2014", "musllinux_1_2")
BUILD = native.FOLDER / "hatch_build.py"
EMPTY = "void PyInit_oneread_native(void) {}"
REQUIRED = "import hatchling.build as b; print(b.get_requires_for_build_wheel(), b.get_requires_for_build_sdist())"


@pytest.fixture(scope="module")
def compiler():
    what = native.lacking()
    if what is not None:
        pytest.skip(f"nothing is compiled: {what}")
    if HERE not in wheels.TARGETS:
        pytest.skip(f"no wheel is for this machine: {HERE}")
    return os.environ.get("CC", "cc")


@pytest.fixture
def zig(monkeypatch, compiler, tmp_path):
    """Takes the arguments of that program, and compiles for this machine."""
    program = tmp_path / "zig"
    program.write_text(f'#!/bin/sh\nshift 3\nexec {compiler} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("CFLAGS", "-O0")
    return program


@pytest.fixture
def made(compiler, tmp_path):
    """Compiles a library, and says what is wrong with it."""

    def make(source, *flags, target=HERE):
        (tmp_path / "made.c").write_text(source)
        command = [compiler, "-shared", "-fPIC", "-nostdlib", "made.c", "-o", "made.so", *flags]
        subprocess.run(command, check=True, cwd=tmp_path)
        return wheels.faults((tmp_path / "made.so").read_bytes(), wheels.TARGETS[target])

    return make


def test_what_runs_everywhere_has_no_fault(made):
    assert made(EMPTY, "-s") == []
    assert made(EMPTY, "-s", target=MUSL) == []


def test_what_a_wheel_must_not_have_is_found(made):
    other = {"x86_64": "aarch64", "aarch64": "x86_64"}[platform.machine()]
    (found,) = made(EMPTY, "-s", target=f"manylinux2014_{other}")
    assert found.startswith("it is for EM_")
    assert made(EMPTY) == ["it is not stripped"]
    assert made(f"{EMPTY} int shown; void too(void) {{}}", "-s") == ["it exports shown", "it exports too"]


@pytest.mark.parametrize(
    ("version", "fault"),
    [
        ("GLIBC_2.2.5", None),
        ("GLIBC_2.17", None),
        ("GLIBC_2.18", "it needs GLIBC_2.18"),
        ("OTHER_1", "it needs OTHER_1"),
    ],
)
def test_symbols_of_a_newer_libc_are_found(made, tmp_path, version, fault):
    (tmp_path / "versions").write_text(f"{version} {{ global: other; }};")
    made("void other(void) {}", "-Wl,--version-script=versions", "-Wl,-soname=libc.so.6")
    (tmp_path / "made.so").rename(tmp_path / "other.so")
    found = made("extern void other(void); void PyInit_oneread_native(void) { other(); }", "-s", "other.so")
    assert found == ([] if fault is None else [fault])
    assert "it needs libc.so.6" in made(
        "void PyInit_oneread_native(void) {}", "-Wl,--no-as-needed", "other.so", target=MUSL
    )


def test_a_wheel_that_has_a_fault_is_not_kept(zig, tmp_path):
    """The machine's own libc is not musl, or not that of the other processor."""
    with pytest.raises(SystemExit, match=f"cp311-abi3-{MUSL}.whl would not run on every machine"):
        wheels.build_native(tmp_path / "dist", MUSL, zig)
    assert [*(tmp_path / "dist").iterdir()] == []


def test_all_that_is_published_is_made_and_tried(monkeypatch, zig, tmp_path):
    monkeypatch.setattr(wheels, "faults", lambda _library, _target: [])
    monkeypatch.setattr(wheels, "TARGETS", {name: wheels.TARGETS[name] for name in (MUSL, HERE)})
    wheels.main(tmp_path / "dist", zig)
    version = project("pyproject.toml")["version"]
    names = [f"oneread-{version}.tar.gz", f"oneread-{version}-py3-none-any.whl", f"oneread_native-{version}.tar.gz"]
    names += [f"oneread_native-{version}-cp311-abi3-{name}.whl" for name in wheels.TARGETS]
    assert {path.name for path in (tmp_path / "dist").iterdir()} == {*names}
    with ZipFile(tmp_path / "dist" / names[-1]) as files:
        about = files.read(f"oneread_native-{version}.dist-info/WHEEL").decode()
    assert f"Tag: cp311-abi3-{names[-1][:-4].rpartition('-')[2]}\n" in about


@pytest.mark.usefixtures("compiler")
def test_the_same_files_make_the_same_bytes(tmp_path):
    """From a checkout, and from what its source distribution holds, in another folder."""
    wheels.build(native.FOLDER, "sdist", str(tmp_path))
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(packed) as files:
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.3 and before have none
        files.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    made = []
    for build in (BUILD, unpacked / "hatch_build.py"):
        to = tmp_path / f"made-{len(made)}"
        subprocess.run([sys.executable, str(build), str(to), "-O0"], check=True)
        made.append((to / wheels.LIBRARY).read_bytes())
    assert made[0] == made[1]


def project(path):
    return tomllib.loads(tree.text(tree.ROOT / path))["project"]


def required(path, **environment):
    env = {name: value for name, value in os.environ.items() if name != "CC"} | {"PATH": path} | environment
    ran = subprocess.run(
        [sys.executable, "-c", REQUIRED], env=env, check=True, capture_output=True, text=True, cwd=native.FOLDER
    )
    return ran.stdout.strip()


def test_a_machine_without_a_compiler_asks_for_one(compiler, tmp_path):
    zig = run_path(str(BUILD))["ZIG"]
    assert required(str(tmp_path)) == f"{[zig]} []"
    assert required(os.environ["PATH"], CC=compiler) == "[] []"
    assert required(str(tmp_path), CC="no-such-compiler") == "[] []"
    assert [zig] == tomllib.loads(tree.text(tree.ROOT / "pyproject.toml"))["dependency-groups"]["wheels"]


def test_a_compiler_that_was_asked_for_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "ziglang").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    build = run_path(str(BUILD))
    assert build["find_compiler"]() == [sys.executable, "-m", "ziglang", "cc"]
    assert build["lacking"]() is None
    monkeypatch.setenv("CC", "no-such-compiler")
    assert build["find_compiler"]() is None


def test_a_build_that_cannot_be_says_what_it_lacks(tmp_path):
    env = os.environ | {"CC": "no-such-compiler -O2"}
    ran = subprocess.run(
        [sys.executable, str(BUILD), str(tmp_path)], env=env, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("oneread-native cannot be built: no C compiler (no-such-compiler) is found")


def test_headers_that_differ_by_machine_are_this_pythons(monkeypatch, tmp_path):
    """Debian's pyconfig.h includes that of the machine which is compiled for, and only the own one is installed."""
    own, shared = tmp_path / "some-linux-gnu/python3.11", tmp_path / "python3.11"
    for folder, text in (
        (own, "#define OWN"),
        (
            shared,
            "# include <x86_64-linux-gnu/python3.11/pyconfig.h>\n# include <aarch64-linux-gnu/python3.11/pyconfig.h>",
        ),
    ):
        folder.mkdir(parents=True)
        (folder / "pyconfig.h").write_text(text)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(shared)})
    monkeypatch.setattr("sysconfig.get_config_var", lambda _name: "some-linux-gnu")
    run_path(str(BUILD))["write_configuration"](tmp_path / "to")
    found = {str(path.relative_to(tmp_path / "to")): path.read_text() for path in (tmp_path / "to").rglob("*.h")}
    assert found == {f"{name}-linux-gnu/python3.11/pyconfig.h": "#define OWN" for name in ("x86_64", "aarch64")}
