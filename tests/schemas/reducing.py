"""Makes a failing program small: drops declarations, fields, options, steps and arguments while it fails alike."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from tests.schemas.program import NAME, Declaration


def reduce(program, failure_of, most=2_000):
    """The smallest program found that fails alike; `failure_of` gives what must be alike, None if it runs."""
    wanted, tried = failure_of(program), 0
    known = {program}
    while True:
        smaller = None
        for candidate in candidates(program):
            if candidate in known:
                continue
            known.add(candidate)
            tried += 1
            if tried > most:
                return program
            if failure_of(candidate) == wanted:
                smaller = candidate
                break
        if smaller is None:
            return program
        program = smaller


def candidates(program):
    """Programs with a little less, the largest cuts first."""
    yield from fewer_steps(program)
    yield from fewer_declarations(program)
    for place, step in enumerate(program.steps):
        for less in shorter(step):
            yield replace(program, steps=(*program.steps[:place], less, *program.steps[place + 1 :]))
    for each in program.declarations:
        for place, line in enumerate(each.lines):
            for less in simpler(line):
                yield with_lines(program, each, (*each.lines[:place], less, *each.lines[place + 1 :]))


def fewer_steps(program):
    """Programs without some steps that follow each other."""
    steps = program.steps
    size = len(steps) // 2
    while size:
        for start in range(0, len(steps), size):
            yield replace(program, steps=steps[:start] + steps[start + size :])
        size //= 2


def fewer_declarations(program):
    """Programs without a declaration, a field or an option."""
    for each in reversed(program.declarations):
        yield without(program, each.name)
    for each in program.declarations:
        for line in each.lines:
            name = line.partition(":")[0]
            yield without(program, name) if NAME.fullmatch(name) else without_line(program, each, line)
    for place in range(len(program.options)):
        yield replace(program, options=program.options[:place] + program.options[place + 1 :])


def without(program, name):
    """The program without a name: in no line, and in no step or argument of one."""
    kept = [step for each in program.steps if (step := without_name(each, name)) is not None]
    return replace(program.without({name}), steps=tuple(kept))


def without_line(program, declaration, line):
    return with_lines(program, declaration, tuple(each for each in declaration.lines if each != line))


def with_lines(program, declaration, lines):
    changed = Declaration(declaration.name, declaration.base, lines)
    found = tuple(changed if each is declaration else each for each in program.declarations)
    return replace(program, declarations=found)


class _Dropping(ast.NodeTransformer):
    """Drops arguments and entries that are called by a name."""

    def __init__(self, name):
        self.name = name

    def visit_Call(self, node):
        node.keywords = [each for each in node.keywords if each.arg != self.name]
        return self.generic_visit(node)

    def visit_Dict(self, node):
        kept = [(key, value) for key, value in zip(node.keys, node.values, strict=True)
                if not (isinstance(key, ast.Constant) and key.value == self.name)]  # fmt: skip
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        return self.generic_visit(node)


def without_name(step, name):
    """A step without a name; None where it is about nothing else."""
    if name not in NAME.findall(step):
        return step
    less = ast.unparse(_Dropping(name).visit(ast.parse(step, mode="eval")))
    return None if name in NAME.findall(less) else less


def shorter(step) -> Iterator[str]:
    """A step with one argument or element less."""
    tree = ast.parse(step, mode="eval")
    for node in ast.walk(tree):
        for several in (getattr(node, "keywords", []), node.elts if isinstance(node, ast.List) else []):
            for each in list(several):
                place = several.index(each)
                several.remove(each)
                yield ast.unparse(tree)
                several.insert(place, each)
        if isinstance(node, ast.Dict) and len(node.keys) > 1:
            for place in range(len(node.keys)):
                key, value = node.keys.pop(place), node.values.pop(place)
                yield ast.unparse(tree)
                node.keys.insert(place, key)
                node.values.insert(place, value)


def simpler(line) -> Iterator[str]:
    """A line of a declaration with one argument less."""
    try:
        tree = ast.parse(line)
    except SyntaxError:
        return
    for node in ast.walk(tree):
        several = getattr(node, "keywords", [])
        for each in list(several):
            several.remove(each)
            yield ast.unparse(tree)
            several.append(each)
