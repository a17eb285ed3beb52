"""What generators share: configuration, laws of random inputs, batched solves, and writing the file."""
