"""Data: the container of views, readers, the catalogue, scaling, synthetic and embedded data."""
