"""The browser in which tests open the sites of `examples`: Chromium and its driver.

`python -m tools.browser install` installs Debian's packages where one of them is not found.
"""

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from tools import debian

INSTALL = debian.command("chromium", "chromium-driver")


class Browser(NamedTuple):
    """The two programs; of one version, as Debian packages them."""

    browser: Path
    driver: Path


def find_browser() -> Browser:
    """Find both programs on PATH.

    Raises:
        FileNotFoundError: one of them is not there; the message says what installs them.
    """
    browser, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if browser is None or driver is None:
        raise FileNotFoundError(f"no {'Chromium' if browser is None else 'chromedriver'} found; as root: {INSTALL}")
    return Browser(Path(browser), Path(driver))


def install() -> int:
    """Make sure that both are installed: nothing when they are, Debian's packages when we are root, else say how."""
    try:
        find_browser()
    except FileNotFoundError:
        return debian.install(INSTALL, "Chromium or its driver is missing, in which tests open pages")
    return 0


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.browser install")
    sys.exit(install())
