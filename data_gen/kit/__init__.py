"""What generators share: configuration, laws of random inputs, reproducible solves, and writing the file."""
