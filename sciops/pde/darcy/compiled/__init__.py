"""The multigrid solver compiled by numba: one sample at a time, on the CPU."""
