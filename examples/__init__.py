"""Programs to read, run and copy from. Each is a package with a README."""
