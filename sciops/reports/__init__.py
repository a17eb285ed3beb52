"""Reports: a run or a study as one self-contained HTML page, runs side by side, and tables."""

from sciops.reports.comparison import Comparison, compare
from sciops.reports.markdown import read_markdown, write_markdown
from sciops.reports.page import page, write
from sciops.reports.parts import Code, Facts, Figure, Section
from sciops.reports.report import report
from sciops.reports.run_files import RunFiles, read_run
from sciops.reports.tables import Table, table_of

__all__ = [
    "Code",
    "Comparison",
    "Facts",
    "Figure",
    "RunFiles",
    "Section",
    "Table",
    "compare",
    "page",
    "read_markdown",
    "read_run",
    "report",
    "table_of",
    "write",
    "write_markdown",
]
