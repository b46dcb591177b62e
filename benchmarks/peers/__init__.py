"""Peers: what one would write by hand, and what one would pick instead."""
