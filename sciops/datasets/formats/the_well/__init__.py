"""Files and folders of The Well: reader, writer and the rules of its format."""

from sciops.datasets.formats.the_well.reader import READER
from sciops.datasets.formats.the_well.writer import remark, write

__all__ = ["READER", "WRITERS", "remark"]

WRITERS = {"the-well": write}
