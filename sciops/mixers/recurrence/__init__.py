"""Linear recurrences in which a token reads the outputs of a few earlier ones."""

from sciops.mixers.recurrence.structured import StructuredRecurrence
from sciops.mixers.recurrence.token_mixing import solve_links, solve_mixing

__all__ = ["StructuredRecurrence", "solve_links", "solve_mixing"]
