"""Where a step's time goes: kinds of operations, shares that add up, the rate of products."""

import pytest
import torch

from studies.benchmarks.docs_page import _profiles
from studies.kit import profiles


@pytest.mark.parametrize(
    "operation, kind",
    [
        ("aten::mm", "matrix products"),
        ("aten::addmm_", "matrix products"),
        ("aten::addcmul_", profiles.OTHER),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention kernels"),
        ("aten::copy_", "copies and filling"),
        ("aten::gelu_backward", "activations"),
        ("aten::native_layer_norm", "normalisation and softmax"),
        ("aten::_fft_r2c", "Fourier transforms"),
        ("aten::mmm", profiles.OTHER),
    ],
)
def test_kinds_of_operations(operation, kind):
    assert profiles.kind_of(operation) == kind


def test_shares_of_a_step_are_the_whole_and_products_are_counted(capsys):
    a = torch.ones(256, 128)

    def step():
        for _ in range(4):
            torch.relu(a @ a.T)

    found = profiles.profiled(step, 1, repeats=3)
    assert sum(found["kinds"].values()) == pytest.approx(found["seconds"])
    assert {"matrix products", "activations", profiles.BETWEEN} <= set(found["kinds"]) and found["calls"] >= 12
    product = found["kinds"]["matrix products"]
    assert (
        found["rate"] * product <= 1.001 * 4 * 2 * 256 * 256 * 128
    )  # less where the profiler's own time is scaled out
    assert found["rate"] > 0
    profiles.print_profiles({"a step": found})
    assert "a step: " in capsys.readouterr().out


def test_the_page_has_a_column_a_step():
    one = {
        "seconds": 2.0,
        "threads": 1,
        "calls": 7,
        "rate": 5e9,
        "kinds": {"matrix products": 1.5, profiles.BETWEEN: 0.5},
    }
    other = {**one, "kinds": {"activations": 1.0, profiles.BETWEEN: 1.0}}
    (table,) = _profiles({"profiles": {"a | b": one, "c": other}})
    lines = table.splitlines()
    assert lines[0] == "| where the time goes, ms | a \\| b | c |"
    assert lines[2] == "| matrix products | 1500.00 (75%) |  |" and lines[4].startswith(
        f"| {profiles.BETWEEN} | 500.00"
    )
    assert lines[-1] == "| products, GFLOP/s | 5 | 5 |" and _profiles({}) == []
