"""Real servers, started privately for tests and benchmarks: own folder, loopback only, gone afterwards."""
