"""Debian's packages for what pip cannot install: a database server, a browser."""

import os
import shutil
import subprocess
import sys


def command(*packages: str) -> str:
    """The command that installs them, for a person or for `install`."""
    return f"apt-get update && apt-get install -y --no-install-recommends {' '.join(packages)}"


def install(text: str, missing: str) -> int:
    """Run the command when we are root, else say what is missing and how to install it; returns the exit code."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        return subprocess.run(["sh", "-c", text], check=False, env=environment, stdin=subprocess.DEVNULL).returncode
    print(f"{missing}. As root: {text}", file=sys.stderr)
    return 1
