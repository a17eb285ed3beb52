"""Evolution equations: fields at the requested times from an initial field, in Fourier space or exactly in time."""

from sciops.pde.evolution.trajectory import Trajectory

__all__ = ["Trajectory"]
