"""Linear recurrences along a sequence, solved in parallel, and the gradients of recurrent networks by them."""
