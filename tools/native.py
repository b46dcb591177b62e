"""oneread-native, the compiled binding to LMDB: `python -m tools.native install STAMP` builds it where a C compiler is.

Where there is none it says so, and stores of LMDB run on py-lmdb. The stamp is a file that says to make that it was
built. See docs/design/native.md.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

FOLDER = Path(__file__).parent.parent / "native"


def lacking() -> str | None:
    """What a build lacks here; None where it lacks nothing."""
    compiler = shlex.split(os.environ.get("CC", "cc"))[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler}) is found; as root: apt-get install gcc libc6-dev"
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return "the headers of this Python are not installed; as root: apt-get install python3-dev"
    return None


def install(stamp: Path) -> None:
    """Build and install it, or say why not: nothing needs it."""
    what = lacking()
    if what is not None:
        print(f"oneread-native is not built, and LMDB's stores run on py-lmdb: {what}")
        return
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--force-reinstall"]
    if subprocess.run([sys.executable, "-m", "pip", "install", *options, str(FOLDER)], check=False).returncode == 0:
        stamp.touch()
    else:
        print("oneread-native is not built, and LMDB's stores run on py-lmdb: the compiler failed, as it says above")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] != "install":  # noqa: PLR2004 - the program, the verb and the stamp
        sys.exit("usage: python -m tools.native install STAMP")
    install(Path(sys.argv[2]))
