"""The files of the project as its version control sees them, or as a walk finds them in an unpacked archive."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MADE_BY_TOOLS = {"site", "htmlcov", "dist", "build", "__pycache__", "data"}


@cache
def files() -> list[Path]:
    """Every source file, new ones included, relative to the root."""
    listing = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    if (ROOT / ".git").exists():
        names = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split("\0")
        found = [Path(name) for name in names if name]
    else:
        found = [path.relative_to(ROOT) for path in walk()]
    return [path for path in found if (ROOT / path).is_file()]


def walk() -> list[Path]:
    """Every file below the root that no tool made and no tool's folder holds."""
    tooling = {path.name for path in ROOT.iterdir() if path.name.startswith(".") and path.is_dir()} - {".ci"}
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not (tooling | MADE_BY_TOOLS) & set(path.relative_to(ROOT).parts)
    ]


def text(path: Path) -> str | None:
    """What a file says, or None where it is not text."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def python_files(*folders: str) -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and (not folders or path.parts[0] in folders)]


@cache
def parsed(source: str) -> ast.Module:
    """A module, parsed once for all rules that look at it; none of them changes it."""
    return ast.parse(source)
