"""Clustering on tensors by blocks: k-means, silhouette, neighbours, soft and matched labels."""
