"""1-Lipschitz classifiers of the study of spectral norms: their bound, their radii, their comparison."""

import math

import numpy as np
import pytest
import torch

from sciops.models.orthogonal import orthogonality_defect
from studies.spectral_norms import networks


@pytest.fixture(scope="module")
def data():
    return networks.images_of("digits")


def test_images_lie_in_the_unit_box(data):
    assert data["test x"].shape == (450, 1, 8, 8) and len(data["train x"]) == 1347
    assert float(data["train x"].min()) == 0 and float(data["train x"].max()) == 1
    assert set(data["test y"].tolist()) == set(range(10))


@pytest.mark.parametrize("arm", networks.ARMS)
def test_networks_are_1_lipschitz_and_radii_hold(arm, data):
    model, seconds = networks.trained(arm, data, 0, width=16, depth=3, epochs=1)
    assert seconds > 0
    images, labels = data["test x"][:60], data["test y"][:60]
    radii, bound = networks.certified_radii(model, images, labels)
    assert bound <= 1 + 1e-4
    x = images.double()
    jacobians = torch.func.vmap(torch.func.jacrev(lambda v: model(v[None])[0]))(x).flatten(2)
    assert float(torch.linalg.matrix_norm(jacobians, 2).detach().max()) <= bound * (1 + 1e-9)
    right = model(x).argmax(1) == labels
    assert np.array_equal(radii > 0, right.numpy())
    step = x.clone()  # towards the other class, as far as is certified: none of them changes
    for _ in range(10):
        step.requires_grad_()
        logits = model(step)
        own = logits.gather(1, labels[:, None])[:, 0]
        other = logits.scatter(1, labels[:, None], -torch.inf).amax(1)
        gradient = torch.autograd.grad((other - own).sum(), step)[0]
        move = step.detach() + 0.2 * gradient / gradient.flatten(1).norm(dim=1).clamp_min(1e-12)[:, None, None, None]
        far = (move - x).flatten(1).norm(dim=1)
        within = torch.from_numpy(np.maximum(radii, 0)) * (1 - 1e-9)
        step = x + (move - x) * (within / far.clamp_min(1e-12)).clamp_max(1)[:, None, None, None]
    assert torch.equal(model(step).argmax(1)[right], labels[right])


def test_orthogonal_layers_stay_orthogonal(data):
    model, _ = networks.trained("orthogonal", data, 0, width=16, depth=2, epochs=1)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            assert orthogonality_defect(layer) < 1e-5


def test_pairs_are_sorted():
    layer = networks.MaxMin()
    assert layer(torch.tensor([[1.0, 2.0, 4.0, 3.0]])).tolist() == [[2.0, 1.0, 4.0, 3.0]]
    x = torch.randn(5, 8, dtype=torch.float64)
    assert torch.allclose(layer(x).norm(dim=1), x.norm(dim=1))


def test_the_comparison_of_networks():
    found = networks.compare_networks("digits", 2, width=16, depth=2, epochs=1)
    assert [row["arm"] for row in found["rows"]] == list(networks.ARMS)
    for row in found["rows"]:
        assert len(row["by_seed"]["36/255"]) == 2
        assert row["accuracy"]["36/255"] == pytest.approx(np.mean(row["by_seed"]["36/255"]))
        assert list(row["accuracy"].values()) == sorted(row["accuracy"].values(), reverse=True)
    assert {row["verdict"] for row in found["verdicts"]} == {"too few seeds"}
    accuracy = {row["arm"]: row["accuracy"]["72/255"] for row in found["rows"]}
    gain = next(row["gain"] for row in found["verdicts"] if (row["arm"], row["radius"]) == ("SR", "72/255"))
    assert gain == pytest.approx(accuracy["SR"] - accuracy["orthogonal"])


def test_fashion_is_left_out_where_it_is_missing(monkeypatch, tmp_path, capsys):
    def missing(name, **options):
        raise FileNotFoundError("Fashion-MNIST is not here: install it")

    monkeypatch.setattr(networks, "load_images", missing)
    found = networks.compare_networks("fashion-mnist", 1, width=16, depth=1, epochs=1)
    assert found == {"data": "fashion-mnist", "left_out": "Fashion-MNIST is not here: install it"}
    networks.print_networks([found])
    networks.draw_networks([found], tmp_path / "none.png")
    assert "left out" in capsys.readouterr().out and not list(tmp_path.iterdir())


def test_refusals():
    with pytest.raises(ValueError, match="arm='free': expected one of AOL"):
        networks.network("free", 64, 16, 2)
    with pytest.raises(ValueError, match="width=15: expected an even number of at most the 64 inputs"):
        networks.network("SR", 64, 15, 2)
    assert math.isclose(networks.RADII[1], 36 / 255)
