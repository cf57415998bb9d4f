"""Evaluation: scores against known classes, and the linear probe. Nothing here trains networks."""
