"""The version of sciops."""

__version__ = "0.1.0"
