"""Workloads: the shop's schema and data, and how they are loaded."""
