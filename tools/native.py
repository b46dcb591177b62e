"""oneread-native, the compiled binding to LMDB: `python -m tools.native install STAMP` builds it where a C compiler is.

Where there is none it says so, and stores of LMDB run on py-lmdb. The stamp is a file that says to make that it was
built. See docs/design/native.md.
"""

import subprocess
import sys
from pathlib import Path
from runpy import run_path

FOLDER = Path(__file__).parent.parent / "native"


def lacking() -> str | None:
    """What a build lacks here; None where it lacks nothing."""
    what: str | None = run_path(str(FOLDER / "hatch_build.py"))["lacking"]()
    return what


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
