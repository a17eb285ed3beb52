"""Training on several processes: process group, gradients averaged or sharded."""
