"""Partial differential equations: one equation a file, each with a `solve` that returns its true residual."""

from __future__ import annotations

from sciops.pde import darcy

__all__ = ["darcy"]
