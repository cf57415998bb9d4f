"""Report: figures of a run, from its results only."""
