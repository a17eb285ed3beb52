"""Backward passes of stacks of layers: layer by layer, batched, pipelined over processes, forward only."""
