"""Puts seeds that work in place of stale ones: pipe `pytest tests/simulation -k broken` into it."""

import re
import sys
from pathlib import Path

FOUND = re.compile(r"stale seed: (\w+): (\d+) -> (\d+)")


def renewed(text, stale):
    """The source of tables with other seeds, and the rules of these that it has."""
    done = set()
    for rule, seed, other in stale:
        text, count = re.subn(rf"\b{rule}: {seed}\b", f"{rule}: {other}", text)
        done |= {rule} if count else set()
    return text, done


def main(lines, folder=Path(__file__).parent):
    """Changes the tables; returns the rules that no table has."""
    stale = sorted({found.groups() for line in lines for found in FOUND.finditer(line)})
    done = set()
    for path in sorted(folder.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        changed, rules = renewed(text, stale)
        if rules:
            path.write_text(changed, encoding="utf-8")
            print(f"{path.name}: {', '.join(sorted(rules))}")
        done |= rules
    return [rule for rule, _seed, _other in stale if rule not in done]


if __name__ == "__main__":
    missing = main(sys.stdin)
    sys.exit(f"in no table: {missing}" if missing else 0)
