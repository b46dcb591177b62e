"""Benchmarks: what oneread costs beside what one would write by hand, and beside what one would pick instead.

`python -m benchmarks list` names them, `python -m benchmarks run` runs them. A figure counts only beside its peer's,
measured in the same run.
"""
