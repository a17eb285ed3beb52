"""What differs between training on fields, labels and tokens: `task_of`."""

from sciops.training.tasks.tasks import task_of

__all__ = ["task_of"]
