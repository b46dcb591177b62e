"""The benchmarks, one module for each kind of work. Their numbers are those of the performance page."""
