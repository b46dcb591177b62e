import ast
from pathlib import Path

import oneread


def imported(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def test_one_module_imports_a_binding_to_lmdb():
    root = Path(oneread.__file__).parent
    found = [str(path.relative_to(root)) for path in root.rglob("*.py") if "lmdb" in imported(path)]
    assert found == ["engines/lmdb/binding.py"]
