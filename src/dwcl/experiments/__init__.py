"""Experiments: named settings, and the runs that use them."""
