"""Steady equations with constant coefficients on a box, solved in the eigenfunctions of −Δ."""
