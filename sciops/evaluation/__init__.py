"""What a table of errors says: paired comparisons with their uncertainty."""

from sciops.evaluation.paired import Verdict, paired_verdict

__all__ = ["Verdict", "paired_verdict"]
