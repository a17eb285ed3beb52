"""Tiny files in the exact form of every foreign layout, written without our writers."""
