"""A keeper of nothing: tells its process, or fails where a file says so."""

import os
import sys
from pathlib import Path

from tools.servers.shared import keep

if __name__ == "__main__":
    folder = Path(sys.argv[2])
    if folder.name == "failing":
        sys.exit("this one never starts")
    keep(folder, str(os.getpid()))
