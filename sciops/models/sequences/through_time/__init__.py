"""Linear recurrences along a sequence, solved in parallel, and the gradients of recurrent networks by them."""

from sciops.models.sequences.through_time.scan import Coefficient, Diagonal, FourierDiagonal, Matrix, reverse_scan

__all__ = ["Coefficient", "Diagonal", "FourierDiagonal", "Matrix", "reverse_scan"]
