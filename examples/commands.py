"""What the command lines of the examples share: mistakes are said in one line, and each end has an exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from examples.shop.mistakes import Mistake
from oneread.errors import OnereadError


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def exit_code(command: str, run: Callable[[], int]) -> int:
    """Runs a command; returns its exit code, 2 when it failed. What was wrong is said on stderr."""
    try:
        return run()
    except (Mistake, OnereadError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has seen enough: `report | head`
        return 141
    except OSError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; the same `load` continues after its last whole batch", file=sys.stderr)
        return 130
