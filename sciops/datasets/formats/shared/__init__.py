"""What the readers and the writers of several layouts share."""
