"""Bounds on means and quantiles from samples, at a stated level."""
