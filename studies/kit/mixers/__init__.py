"""Mixers by name, and their training on fields."""
