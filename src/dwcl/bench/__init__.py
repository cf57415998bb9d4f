"""Measurements of speed: as ratios within one run, against named references."""
