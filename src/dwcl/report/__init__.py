"""Report: figures of a run, from its results only; pages of the methods, from their docstrings."""
