"""Compares derived rows with what the entities require, and repairs them, on data in use."""
