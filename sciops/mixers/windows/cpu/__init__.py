"""Window and multipole attention on CPUs, band by band in the cache, with gradients written out.

`attention` : LayerNorm, projections and attention of a band; `across_windows` : the softmax of very small windows;
`sampling` : the learned samplers of a pyramid; `pyramid` : a whole multipole layer as one differentiable step. The
same functions in torch's own operations are `plain`, `sampling` and `multipole` one folder up;
`WindowAttention.in_bands` chooses between them.
"""
