"""Caches: memcached, and one in the process's memory for tests."""
