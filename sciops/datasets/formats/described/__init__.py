"""Plain arrays and the description that gives them a meaning."""
