"""What is wrong with a data set, and what it is and holds."""
