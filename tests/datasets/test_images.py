"""Images from files: what was written is read, what is damaged is named, splits keep the classes' shares."""

from __future__ import annotations

import gzip
import pickle
import struct

import numpy as np
import pytest
import torch
from PIL import Image

from data_gen import fashion_mnist
from sciops.datasets.images import ImageDataset, ImageFiles, load_images, read_cifar, read_digits, read_idx, write_idx
from sciops.datasets.images.dataset import statistics
from sciops.training import TrainConfig, fit

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "float32", "float64"])
@pytest.mark.parametrize("name", ["a.idx", "a.idx.gz"])
def test_idx_round_trip(tmp_path, name, dtype):
    values = (100 * RANDOM.standard_normal((5, 3, 4))).astype(dtype)
    found = read_idx(write_idx(tmp_path / name, values), dtype=dtype, ndim=3)
    assert found.dtype == np.dtype(dtype) and found.flags.writeable
    np.testing.assert_array_equal(found, values)


def test_idx_by_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"\0\0\x0b\x02" + struct.pack(">II", 2, 3) + struct.pack(">6h", 1, -2, 3, 4, 5, 600))
    np.testing.assert_array_equal(read_idx(tmp_path / "a"), [[1, -2, 3], [4, 5, 600]])


def _gzip(change):
    return lambda whole: change(gzip.compress(whole))


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda b: b"", "is not an IDX file: it begins with nothing"),
        (lambda b: b"\1" + b[1:], "is not an IDX file: it begins with 01 00 08 03"),
        (lambda b: b[:2] + b"\x0a" + b[3:], "is not an IDX file: it begins with 00 00 0a 03"),
        (lambda b: b[:3] + b"\0" + b[4:], "is not an IDX file"),
        (lambda b: b[:9], "cut short: it ends within its 3 sizes"),
        (lambda b: b[:-1], "cut short: 4×3×2 uint8 values are 24 bytes, it has 23"),
        (lambda b: b + b"\0", "continues after its 24 bytes"),
        (lambda b: b[:4] + struct.pack(">I", 5) + b[8:], "cut short: 5×3×2 uint8 values are 30 bytes, it has 24"),
        (
            lambda b: b[:4] + 3 * b"\xff\xff\xff\xff" + b[16:],
            "cut short: 4294967295×4294967295×4294967295 .* it has 24",
        ),
        (lambda b: b[:4] + struct.pack(">I", 2**28) + b[8:], "cut short: 268435456×3×2 .* it has 24"),
        (lambda b: b[:3] + b"\1" + b[4:8] + b[16:20], "array of 1 axes, expected 3"),
        (lambda b: b[:2] + b"\x09" + b[3:], "holds int8 values, expected uint8"),
        (_gzip(lambda z: z[:-1]), "is damaged: Compressed file ended"),
        (_gzip(lambda z: z[:20]), "is damaged: Compressed file ended"),
        (_gzip(lambda z: z[:-6] + bytes([z[-6] ^ 1]) + z[-5:]), "is damaged: CRC check failed"),
        (_gzip(lambda z: z[:10] + b"\xff\xff" + z[12:]), "is damaged: "),
        (_gzip(lambda z: z[:2] + b"\0" + z[3:]), "is damaged: Unknown compression"),
        (lambda b: gzip.compress(b[:-3]), "cut short"),
        (lambda b: gzip.compress(b + b"ab"), "continues after"),
    ],
)
def test_every_damage_of_idx_is_one_line(tmp_path, damage, message):
    whole = write_idx(tmp_path / "whole", RANDOM.integers(0, 256, (4, 3, 2), np.uint8)).read_bytes()
    (tmp_path / "damaged").write_bytes(damage(whole))
    with pytest.raises(ValueError, match=message) as caught:
        read_idx(tmp_path / "damaged", dtype="uint8", ndim=3)
    assert "\n" not in str(caught.value) and "damaged" in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file; expected an IDX file"):
        read_idx(tmp_path / "none")
    with pytest.raises(ValueError, match="dtype complex128: IDX holds uint8, int8"):
        write_idx(tmp_path / "none", np.ones(3, complex))
    with pytest.raises(FileNotFoundError, match="expected 'digits', 'fashion-mnist' or a folder"):
        load_images(tmp_path / "none")


def mnist_like(folder, train: int = 60, test: int = 20, classes: int = 4):
    folder.mkdir(exist_ok=True)
    for prefix, n in (("train", train), ("t10k", test)):
        images = RANDOM.integers(0, 256, (n, 6, 5), np.uint8)
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", (np.arange(n) % classes).astype(np.uint8))
    return folder


def test_a_folder_of_idx_files(tmp_path):
    folder = mnist_like(tmp_path / "mine")
    data = load_images(folder, train=40, validation=12, standardize=False)
    assert (len(data.train), len(data.validation), len(data.test)) == (40, 12, 20)
    np.testing.assert_array_equal(np.bincount(data.train.labels), [10] * 4)
    whole = read_idx(folder / "t10k-images-idx3-ubyte.gz")
    x = data.test.batch(slice(None))["x"]
    np.testing.assert_array_equal((255 * x).round().numpy().astype(np.uint8)[:, 0], whole)
    assert data.test.grid.shape == (6, 5) and data.test.grid.spacing == pytest.approx((0.2, 0.2))
    write_idx(folder / "t10k-labels-idx1-ubyte", np.zeros(19, np.uint8))
    with pytest.raises(ValueError, match="holds 20 images, t10k-labels-idx1-ubyte 19 labels"):
        load_images(folder)
    (folder / "t10k-images-idx3-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match="t10k-images-idx3-ubyte.gz: no such file"):
        load_images(folder)


def test_fashion_mnist_is_found_or_the_command_is_named(tmp_path, monkeypatch, capsys):
    from sciops.datasets.images import loading

    monkeypatch.setattr(loading, "FASHION_FOLDER", tmp_path / "usual")
    monkeypatch.delenv("SCIOPS_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="usual: apt-get install dataset-fashion-mnist, or pass the folder"):
        load_images("fashion-mnist")
    with pytest.raises(FileNotFoundError, match="apt-get install dataset-fashion-mnist"):
        fashion_mnist.run(fashion_mnist.FashionMnistConfig())
    monkeypatch.setenv("SCIOPS_DATA", str(tmp_path))
    mnist_like(tmp_path / "fashion-mnist")
    assert load_images("fashion-mnist").train.classes[9] == "Ankle boot"
    with pytest.raises(ValueError, match="train holds 60 images of 6×5, 0 to 15 a class; Fashion-MNIST has 60000"):
        fashion_mnist.run(fashion_mnist.FashionMnistConfig())
    assert "fashion-mnist" in capsys.readouterr().out


def test_the_real_fashion_mnist_where_it_is_installed(capsys):
    try:
        folder = fashion_mnist.run(fashion_mnist.PRESETS["default"])
    except FileNotFoundError:
        pytest.skip("apt-get install dataset-fashion-mnist")
    assert "train: 60000 images" in capsys.readouterr().out
    data = load_images(folder, train=500, validation=100, test=50)
    np.testing.assert_array_equal(np.bincount(data.train.labels), [50] * 10)
    # mean and standard deviation of all 60 000, as published with many recipes: 0.2860, 0.3530
    mean, std = statistics(read_idx(folder / "train-images-idx3-ubyte.gz")[:, None], 255)
    assert mean[0] == pytest.approx(0.2860, abs=5e-5) and std[0] == pytest.approx(0.3530, abs=5e-5)


def cifar_like(folder, kind: int):
    """Records written byte by byte, as the format's description says."""
    folder.mkdir(exist_ok=True)
    names = (
        [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"] if kind == 10 else ["train.bin", "test.bin"]
    )
    written = {}
    for name in names:
        records = []
        for k in range(6 if kind == 10 else 200):
            planes = RANDOM.integers(0, 256, (3, 32, 32), np.uint8)
            label = k % kind
            head = bytes([label]) if kind == 10 else bytes([label // 5, label])
            records.append((label, planes))
            with open(folder / name, "ab") as file:
                file.write(head + planes[0].tobytes() + planes[1].tobytes() + planes[2].tobytes())
        written[name] = records
    return folder, written


@pytest.mark.parametrize("kind", [10, 100])
def test_cifar_binary(tmp_path, kind):
    folder, written = cifar_like(tmp_path / "cifar", kind)
    parts = read_cifar(folder)
    first = written["data_batch_1.bin" if kind == 10 else "train.bin"]
    train = [record for name, records in written.items() if not name.startswith("test") for record in records]
    assert len(parts["train"][0]) == len(train) and first[0] is train[0]
    for (images, labels), records in ((parts["train"], train), (parts["test"], list(written.values())[-1])):
        np.testing.assert_array_equal(labels, [label for label, _ in records])
        np.testing.assert_array_equal(images, [planes for _, planes in records])
    data = load_images(folder, validation=0)
    assert data.train.classes == tuple(map(str, range(kind))) and data.validation is None
    names = [f"thing {i}" for i in range(kind)]
    (folder / ("batches.meta.txt" if kind == 10 else "fine_label_names.txt")).write_text("\n".join(names) + "\n\n")
    assert load_images(folder).train.classes == tuple(names)


def test_damaged_cifar_is_one_line(tmp_path):
    folder, _ = cifar_like(tmp_path / "cifar", 10)
    whole = (folder / "data_batch_2.bin").read_bytes()
    for content, message in (
        (whole[:-1], "data_batch_2.bin has 18437 bytes: expected a multiple of 3073"),
        (b"", "has 0 bytes"),
        (whole[:3073] + b"\x0a" + whole[3074:], "record 1 has label 10, expected 0 … 9"),
    ):
        (folder / "data_batch_2.bin").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            load_images(folder)
    (folder / "data_batch_2.bin").unlink()
    with pytest.raises(FileNotFoundError, match="data_batch_2.bin: missing"):
        load_images(folder)
    pickled = tmp_path / "python"
    pickled.mkdir()
    (pickled / "data_batch_1").write_bytes(pickle.dumps({b"data": 1}))
    with pytest.raises(ValueError, match="python version, which is a pickle; get the binary version"):
        load_images(pickled)


def pictures(folder, count: int = 12, suffix: str = ".png"):
    """Colours tell the class: red, green or blue."""
    for number, name in enumerate(("blue", "green", "red")):
        (folder / name / "nested").mkdir(parents=True)
        for k in range(count):
            pixels = RANDOM.integers(0, 40, (20 + k, 30 - k, 3), np.uint8)
            pixels[..., 2 - number] = 200
            where = folder / name / "nested" if k % 2 else folder / name
            Image.fromarray(pixels).save(where / f"{k}{suffix}")
        (folder / name / "notes.txt").write_text("passed over")
        (folder / name / ".hidden.png").write_text("passed over")
    return folder


def test_a_folder_of_images(tmp_path):
    data = load_images(pictures(tmp_path / "all"), size=16, test=9, validation=6, standardize=False)
    assert (len(data.train), len(data.validation), len(data.test)) == (21, 6, 9)
    assert data.train.classes == ("blue", "green", "red") and data.train.lazy
    batch = data.test.batch(slice(None))
    assert batch["x"].shape == (9, 3, 16, 16)
    assert torch.equal(2 - batch["x"].mean((2, 3)).argmax(1), batch["y"].argmax(1))
    paths = [set(part.pixels.paths) for part in (data.train, data.validation, data.test)]
    assert len(set.union(*paths)) == 36, "the parts share no file"
    grey = load_images(tmp_path / "all", size=8, channels=1)
    assert grey.train.batch([0])["x"].shape == (1, 1, 8, 8)


def test_folders_named_train_and_test_are_those_parts_and_are_trained_on_from_disk(tmp_path):
    pictures(tmp_path / "train")
    pictures(tmp_path / "val", count=2)
    pictures(tmp_path / "test", count=3, suffix=".jpg")
    data = load_images(tmp_path, size=4)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [36, 6, 9]
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3))
    config = TrainConfig(objective="cross_entropy", epochs=10, learning_rate=0.02, progress=False)
    assert fit(model, data, config).best == 0
    (tmp_path / "test" / "violet").mkdir()
    with pytest.raises(ValueError, match="has a class 'violet' that the training images do not have"):
        load_images(tmp_path, size=4)


def test_images_are_resized_cropped_and_not_turned(tmp_path):
    wide = np.zeros((8, 24, 3), np.uint8)
    wide[:, 8:16] = 255
    wide[:4, 8:16, 0] = 0
    image = Image.fromarray(wide)
    image.save(tmp_path / "plain.png")
    exif = Image.Exif()
    exif[0x0112] = 3  # "turn me upside down"
    image.save(tmp_path / "turned.png", exif=exif)
    for name in ("plain.png", "turned.png"):
        found = ImageFiles([tmp_path / name], size=8)[np.array([0])][0]
        np.testing.assert_array_equal(found, wide[:, 8:16].transpose(2, 0, 1))
    Image.fromarray(np.full((50, 31), 77, np.uint8)).save(tmp_path / "flat.png")
    assert (ImageFiles([tmp_path / "flat.png"], size=13, channels=1)[np.array([0])] == 77).all()


@pytest.mark.parametrize("kind", ["empty", "text", "cut", "svg"])
def test_a_file_that_is_no_image_is_named_in_one_line(tmp_path, kind):
    folder = pictures(tmp_path / "all", count=2)
    bad = folder / "red" / "0.png"
    whole = bad.read_bytes()
    bad.write_bytes(
        {"empty": b"", "text": b"hello\n\x1b[2J", "cut": whole[: len(whole) // 2], "svg": b"<svg/>"}.get(kind, whole)
    )
    with pytest.raises(ValueError, match="0.png: not an image that can be read") as caught:
        load_images(folder, size=8, validation=0, test=0)
    assert "\n" not in str(caught.value) and "\x1b" not in str(caught.value)


def test_folders_that_hold_no_classes(tmp_path):
    with pytest.raises(ValueError, match="holds 0 folders; expected one folder of images a class"):
        load_images(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match="a holds no images"):
        load_images(tmp_path)


def test_digits_are_standardised_by_the_training_images_alone():
    images, labels = read_digits()
    assert images.shape == (1797, 1, 8, 8) and images.max() == 16 and len(np.unique(labels)) == 10
    data = load_images("digits", train=700, test=360)
    pixels = data.train.batch(slice(None))["x"].double()
    assert pixels.mean().abs() < 1e-6 and abs(pixels.std(correction=0) - 1) < 1e-6
    raw = load_images("digits", train=700, test=360, standardize=False)
    x, z = (part.test.batch(slice(None))["x"].double() for part in (raw, data))
    assert x.min() == 0 and x.max() == 1
    torch.testing.assert_close(z, (x - data.train.mean[0]) / data.train.std[0], rtol=0, atol=1e-6)
    assert data.train.mean == data.test.mean
    torch.testing.assert_close(data.test.batch([3, 1])["x"][1], data.test[1]["x"])
    np.testing.assert_array_equal(data.test.batch(slice(None))["y"].argmax(1), data.test.labels)


def test_splits_are_disjoint_stratified_and_seeded():
    def rows(part):
        return {image.tobytes() for image in part.pixels}

    data, same, other = (load_images("digits", test=300, seed=seed) for seed in (0, 0, 1))
    parts = [rows(part) for part in (data.train, data.validation, data.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 1797
    whole = np.bincount(read_digits()[1])
    for part in (data.train, data.validation, data.test):
        share = len(part) / 1797
        assert (np.abs(np.bincount(part.labels) - share * whole) < 1.5).all()
    assert rows(same.test) == rows(data.test) != rows(other.test)
    fewer = load_images("digits", train=100, validation=50, test=300)
    assert rows(fewer.test) == rows(data.test) and len(fewer.train) == 100 and len(fewer.validation) == 50
    again = load_images("digits", train=500, validation=50, test=300)
    assert rows(fewer.validation) == rows(again.validation)
    for counts, message in (
        ({"train": 1500, "test": 360}, "train=1500: there are 1257 images to take from"),
        ({"test": 2000}, "test=2000: there are 1797 images"),
        ({"train": 0}, "no images are left to train on"),
        ({"train": -1}, "train=-1: there are"),
    ):
        with pytest.raises(ValueError, match=message):
            load_images("digits", **counts)


def test_resizing_keeps_planes_and_means():
    ramp = (8 * np.arange(12)[:, None] + 3 * np.arange(12)).astype(np.uint8)[None, None]
    data = ImageDataset(ramp, [0], classes="ab", size=24)
    x = 255 * data.batch([0])["x"][0, 0].double()
    cell = (np.arange(24) + 0.5) / 2 - 0.5
    expected = 8 * cell[:, None] + 3 * cell
    # bilinear interpolation is exact on planes away from the edge
    np.testing.assert_allclose(x[1:-1, 1:-1].numpy(), expected[1:-1, 1:-1], atol=1e-4)
    noise = RANDOM.integers(0, 256, (3, 1, 32, 32), np.uint8)
    small = ImageDataset(noise, [0, 1, 0], classes="ab", size=8).batch([0, 1, 2])["x"]
    assert 255 * small.mean((1, 2, 3)).numpy() == pytest.approx(noise.mean((1, 2, 3)), rel=0.02)
    assert small.std() < 0.35 * noise.std() / 255, "shrinking averages; it does not pick"
    assert data.grid.shape == (24, 24)


def test_statistics_are_exact():
    pixels = RANDOM.integers(0, 256, (500, 2, 9, 7), np.uint8)
    pixels[:, 1] = 31
    mean, std = statistics(pixels, 255)
    values = pixels.astype(np.float64) / 255
    assert mean[0] == pytest.approx(values[:, 0].mean(), rel=1e-14)
    assert std == (pytest.approx(values[:, 0].std(), rel=1e-12), 1.0)


@pytest.mark.parametrize(
    "pixels, labels, options, message",
    [
        (np.zeros((2, 1, 4, 4)), [0, 1], {}, r"pixels are float64 of shape \(2, 1, 4, 4\); expected uint8"),
        (np.zeros((2, 4, 4), np.uint8), [0, 1], {}, r"shape \(2, 4, 4\)"),
        (np.zeros((2, 1, 4, 4), np.uint8), [0], {}, "expected 2 whole numbers"),
        (np.zeros((2, 1, 4, 4), np.uint8), [0.0, 1.0], {}, "labels float64"),
        (np.zeros((2, 1, 4, 4), np.uint8), [0, 2], {}, "a label is 2: expected 0 … 1"),
        (np.zeros((2, 1, 4, 4), np.uint8), [0, 1], {"size": 0}, "size=0"),
        (np.zeros((2, 1, 4, 4), np.uint8), [0, 1], {"mean": (0.1, 0.2)}, "of 2 channels for images of 1"),
    ],
)
def test_arrays_that_do_not_fit(pixels, labels, options, message):
    with pytest.raises(ValueError, match=message):
        ImageDataset(pixels, labels, classes="ab", **options)
