"""Generators of PDE datasets: a frozen config and `run(config)` each."""
