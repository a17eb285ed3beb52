"""What a local kernel sees outside the grid."""

import pytest
import torch

from sciops import Grid
from sciops.models import build_model
from sciops.models.spine.blocks import LocalKernel


@pytest.mark.parametrize("dilation", [(1, 1), (2, 3), (9, 1)])
def test_a_constant_stays_constant_where_the_field_is_continued_by_its_end_values(dilation):
    grid = Grid((7, 9))
    kernel = LocalKernel(3, 2, padding="replicate").double()
    y = kernel(torch.ones(2, 7, 9, 3, dtype=torch.float64), grid, dilation)
    torch.testing.assert_close(y, kernel.weight.sum((1, 2, 3)).expand_as(y), rtol=0, atol=1e-13)
    zeros = LocalKernel(3, 2).double()
    zeros.load_state_dict(kernel.state_dict())
    assert not torch.allclose(zeros(torch.ones_like(y), grid, dilation), y)


@pytest.mark.parametrize("padding", ["zeros", "replicate"])
def test_spread_kernels_agree_with_the_coarse_grid_at_shared_nodes_up_to_the_wall(padding):
    coarse, fine = Grid((9, 9)), Grid((17, 17))
    kernel = LocalKernel(2, 2, padding=padding).double()
    u = torch.randn(1, 17, 17, 2, dtype=torch.float64)
    torch.testing.assert_close(
        kernel(u, fine, (2, 2))[:, ::2, ::2], kernel(u[:, ::2, ::2], coarse, (1, 1)), rtol=0, atol=1e-13
    )


def test_the_choice_is_stored_and_a_wrong_one_refused():
    grid = Grid((9, 9))
    model = build_model("fno", modes=(3, 3), local=True, local_padding="replicate", grid=grid)
    assert model.config["options"]["local_padding"] == "replicate"
    with pytest.raises(ValueError, match="replicate"):
        build_model("fno", modes=(3, 3), local=True, local_padding="mirror", grid=grid)
