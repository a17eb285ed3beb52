"""Layers that are 1-Lipschitz for every value of their weights."""
