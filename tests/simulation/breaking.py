"""How a rule is broken that is a few lines of a longer function: its source is edited, and compiled in its place.

A rule that is a whole function is substituted by `patch.setattr`. See docs/decisions/0135-how-rules-are-broken.md.
"""

import inspect
import sys
import textwrap


def edit(patch, owner, name, *changes, **names):
    """Substitutes a function of a class or a module by one whose source is changed, in all modules that have it.

    Each pair is what is there, exactly once, and what stands for it. `names` are given to its module, for what stands
    there.
    """
    whole = getattr(owner, name)
    source = textwrap.dedent(inspect.getsource(whole))
    for before, after in changes:
        assert source.count(before) == 1, f"{name} has not exactly one {before!r}"
        source = source.replace(before, after)
    module = inspect.getmodule(whole)
    for each, value in names.items():
        patch.setattr(module, each, value, raising=False)
    made = {}
    exec(compile("from __future__ import annotations\n" + source, module.__file__, "exec"), vars(module), made)
    substitute(patch, owner, name, made[name])


def substitute(patch, owner, name, made):
    """Puts a function in place of one of a class or a module, also where other modules have imported it."""
    whole = vars(owner)[name]
    patch.setattr(owner, name, made)
    if inspect.ismodule(owner):
        for module in [each for path, each in sys.modules.items() if path.startswith("oneread.")]:
            if vars(module).get(name) is whole:
                patch.setattr(module, name, made)
