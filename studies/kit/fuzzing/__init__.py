"""Damaged and hostile files, and the process that opens them within bounds."""
