"""What the project's own people run: generators, reports and the servers that tests and benchmarks start."""
