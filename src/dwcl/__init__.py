"""Multi-view clustering with dual-weighted contrastive learning."""

__version__ = "0.1.0"
