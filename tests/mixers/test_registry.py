"""Mixers of one's own by name: what `register` takes, and what a class declares about itself."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sciops import Grid, build_model
from sciops.lipschitz import RULES, lipschitz_bound
from sciops.lipschitz import register as register_rule
from sciops.mixers import MIXERS, Traits, WindowAttention, imported_mixer, register, resolved_options, traits_of
from sciops.spectral import layer_spectra

NODES_OF_A_RING = Grid((4,), centering="periodic")
NODES, CELLS = Grid((4,)), Grid((4,), centering="cell")


class Twice(nn.Module):
    """y = c x."""

    traits = Traits(coordinates="none")

    def __init__(self, channels, *, factor=2.0, modes=(5, 5), axes=2):
        super().__init__()
        self.channels, self.factor = channels, factor

    def forward(self, x, grid=None):
        return self.factor * x

    def lipschitz_rule(self, setting):
        return abs(self.factor), "a number"


class Louder(Twice):
    def forward(self, x, grid=None):
        return 3 * super().forward(x)


@pytest.fixture
def registered():
    rules = dict(RULES)
    register("twice", Twice)
    yield
    MIXERS.pop("twice", None)
    RULES.clear()
    RULES.update(rules)


def test_a_name_is_taken_once(registered):
    assert MIXERS["twice"] is Twice and register("twice", Twice) is Twice  # a module that is run again
    with pytest.raises(ValueError, match="'twice' is taken by Twice: choose another"):
        register("twice", Louder)
    with pytest.raises(ValueError, match="'spectral' is taken by SpectralMixer"):
        register("spectral")(Twice)


def test_only_classes_that_a_model_can_make():
    class Needy(nn.Module):
        def __init__(self, channels, *, size):
            super().__init__()

    for kind, message in (
        (Twice(3), "expected a class of torch modules"),
        (Needy, "Needy.: expected a default for 'size'"),
        (nn.GELU, "expected 'channels' as its first parameter"),
    ):
        with pytest.raises(TypeError, match=message):
            register("needy", kind)
    assert "needy" not in MIXERS


def test_a_model_gives_axes_and_modes_and_writes_the_rest_out(registered):
    assert resolved_options("twice", {"modes": 3}, 1) == {"factor": 2.0, "modes": (3,), "axes": 1}
    model = build_model("operator", mixer="twice", mixer_options={"factor": 0.5}, ndim=1, width=4, depth=1)
    assert model.config["options"]["mixer_options"] == {"factor": 0.5, "modes": [5], "axes": 1}
    assert model.coordinates == "none" and model.blocks[0].mixer.factor == 0.5
    with pytest.raises(TypeError, match="mixer 'twice': unknown option 'facter'; it takes .* did you mean 'factor'?"):
        build_model("operator", mixer="twice", mixer_options={"facter": 1})
    # of mixers that differ in their coordinates
    assert build_model("operator", mixer=("twice", "window")).coordinates == "linear"


def test_what_spectral_mixers_declare():
    declared = {basis: traits_of("spectral", {"basis": basis}) for basis in ("fourier", "sine", "cosine")}
    assert [one.periodic for one in declared.values()] == [True, False, False]
    assert [one.coordinates for one in declared.values()] == ["linear", "none", "wall"]
    assert traits_of("convolution", {}) == Traits()


def test_modules_that_cannot_be_imported():
    assert imported_mixer("polynomial") == "polynomial"
    assert imported_mixer("sciops.mixers:WindowAttention") == "window"
    with pytest.raises(ValueError, match="mixer 'no_such_module:Mixer': No module named"):
        imported_mixer("no_such_module:Mixer")
    with pytest.raises(ValueError, match="torch.nn registers no class 'Linear'"):
        imported_mixer("torch.nn:Linear")


def reason(module, grid=CELLS):
    bound = lipschitz_bound(module, grid)
    assert bound.value is None
    return str(bound)


def test_a_rule_that_a_class_brings_along(registered, monkeypatch):
    assert lipschitz_bound(Twice(3, factor=-3.0), CELLS).value == pytest.approx(3.0)
    # it counts every point alike, and the change to the quadrature norm is counted for it
    assert lipschitz_bound(Twice(3), NODES).value == pytest.approx(2 * 2**0.5)
    monkeypatch.setattr(Twice, "lipschitz_quadrature", True, raising=False)
    assert lipschitz_bound(Twice(3), NODES).value == pytest.approx(2.0)
    register_rule(Twice, lambda mixer, setting: 7.0)
    assert lipschitz_bound(Twice(3), CELLS).value == pytest.approx(7.0)
    del RULES[Twice]
    assert lipschitz_bound(Twice(3), CELLS).value == pytest.approx(2.0)


def test_a_rule_for_a_mixer_beside_a_skip_is_used(registered, monkeypatch):
    torch.manual_seed(0)
    model = build_model(
        "operator",
        in_channels=1,
        out_channels=1,
        width=4,
        depth=1,
        mixer="twice",
        block="classic",
        norm="none",
        grid=CELLS,
    ).double()
    apart = lipschitz_bound(model, CELLS).value
    eye, skip = torch.eye(4, dtype=torch.float64), model.blocks[0].skip.weight.detach()
    rule = lambda mixer, skip, setting: (setting.sigma(skip + mixer.factor * eye), "together")  # noqa: E731
    monkeypatch.setattr(Twice, "lipschitz_rule_with_skip", rule, raising=False)
    together = lipschitz_bound(model, CELLS).value
    norm = lambda w: float(torch.linalg.matrix_norm(w, 2))  # noqa: E731
    assert float(together / apart) == pytest.approx(norm(skip + 2 * eye) / (norm(skip) + 2), rel=1e-9)


def test_a_rule_speaks_for_its_own_class_alone(registered, monkeypatch):
    assert "no rule for Louder: its own code comes before that of Twice" in reason(Louder(3))

    class Named(WindowAttention):
        traits = Traits(coordinates="wall")

    bound = lipschitz_bound(Named(4, norm=False), CELLS, radius=1.0).value
    assert bound is not None and "pass radius=" in reason(Named(4, norm=False))
    model = Twice(3)
    model.register_forward_hook(lambda module, inputs, output: 9 * output)
    assert "forward hook" in reason(model)
    monkeypatch.setattr(Twice, "forward", lambda self, x, grid=None: 9 * x)
    assert "Twice.forward replaced" in reason(Twice(3))


def test_spectra_find_the_channels_of_a_registered_mixer_where_there_are_as_many_as_points(registered):
    mixer, x = Twice(4, axes=1), torch.zeros(1, 4, 4)
    x[..., 0] = torch.tensor([1.0, 0.0, -1.0, 0.0])  # the first wave in one channel, and no other
    spectra = layer_spectra(nn.Sequential(mixer), x, NODES_OF_A_RING, layers=["0"])
    assert spectra.values[0] == pytest.approx([0.0, 4 * 0.5 / 4, 0.0])


def test_a_mixer_in_a_sequence_of_layers_knows_its_grid(registered):
    seen = []
    register_rule(Twice, lambda mixer, setting: seen.append((setting.grid.shape, setting.shape)) or 2.0)
    assert lipschitz_bound(nn.Sequential(Twice(3), nn.Linear(3, 3)), CELLS).value is not None
    assert seen == [((4,), (1, 4, 3))]
    assert torch.equal(Twice(3)(torch.ones(1, 4, 3)), torch.full((1, 4, 3), 2.0))
