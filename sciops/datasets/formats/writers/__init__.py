"""Writers of foreign layouts."""
