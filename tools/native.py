"""oneread-native, the compiled binding to LMDB: `python -m tools.native install` builds it where a C compiler is.

Where there is none it says so, and stores of LMDB run on py-lmdb. See docs/design/native.md.
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


def install() -> int:
    """Build and install it, or say what it lacks: nothing needs it."""
    what = lacking()
    if what is not None:
        print(f"oneread-native is not built, and LMDB's stores run on py-lmdb: {what}")
        return 0
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--force-reinstall"]
    return subprocess.run([sys.executable, "-m", "pip", "install", *options, str(FOLDER)], check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.native install")
    sys.exit(install())
