"""Clustering: k-means, silhouette and the matching of labels, on tensors, by blocks."""
