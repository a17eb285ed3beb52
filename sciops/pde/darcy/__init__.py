"""Darcy flow: −∇·(A∇u) = f between walls or periodic, solved to a stated residual for batches of A."""

from sciops.pde.darcy.solver import Solution, SolverError, residual, solve

__all__ = ["Solution", "SolverError", "residual", "solve"]
