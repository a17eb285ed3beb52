"""Small image files that would take the machine: refused in one line by what their headers say."""

import gzip
import os
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from sciops import Budget
from sciops.datasets.images import ImageFiles, load_images, read_idx, write_idx
from sciops.files.budget import OverBudget, opening_within


def png(path, wide, high, mode=0, depth=8, rows=1):
    """A PNG whose header says wide×high, with the pixels of its first rows."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", wide, high, depth, mode, 0, 0, 0)
    data = zlib.compress(bytes(rows * (1 + wide * depth // 8)))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b""))
    return path


def first(path, **options):
    return ImageFiles([path], size=8, **options)[np.array([0])]


@pytest.mark.parametrize(
    "wide, high, said",
    [
        (1, 3_000_000, "resizing 1×3000000 pixels to 8×24000000 takes 1.55e+09 bytes"),
        (30_000, 30_000, "30000×30000 pixels takes 4.5e+09 bytes"),
        (2**31 - 1, 2**31 - 1, "takes 2.31e+19 bytes"),
    ],
)
def test_a_png_of_a_hundred_bytes_takes_no_memory(wide, high, said, tmp_path):
    path = png(tmp_path / "a.png", wide, high, rows=0)
    with pytest.raises(OverBudget) as caught:
        first(path)
    assert str(path) in str(caught.value) and said in str(caught.value) and "\n" not in str(caught.value)


def test_the_budget_is_that_in_force_when_the_files_were_listed_and_can_be_given(tmp_path):
    path = png(tmp_path / "a.png", 100, 100, rows=100)
    assert first(path).shape == (1, 3, 8, 8)
    with opening_within(Budget(bytes=1000)):
        files = ImageFiles([path], size=8)
    for limited in (files, ImageFiles([path], size=8, budget=Budget(bytes=1000))):
        with pytest.raises(OverBudget, match=r"100×100 pixels takes 5e\+04 bytes of memory, more than the 1000"):
            limited[np.array([0])]
    for part in ("a", "b"):
        (tmp_path / "classes" / part).mkdir(parents=True)
        for i in range(4):
            png(tmp_path / "classes" / part / f"{i}.png", 100, 100, rows=100)
    with pytest.raises(OverBudget):
        load_images(tmp_path / "classes", budget=Budget(bytes=1000))
    assert load_images(tmp_path / "classes", size=8).train.batch([0])["x"].shape == (1, 3, 8, 8)


def test_an_image_beyond_the_bound_of_pillow_is_read_where_the_budget_allows_it(tmp_path, monkeypatch):
    """Whose warning and error belong to the process and say nothing of a budget."""
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    path = png(tmp_path / "a.png", 40, 30, rows=30)
    assert first(path).shape == (1, 3, 8, 8)


def test_a_tiff_whose_entries_all_name_the_same_bytes(tmp_path):
    """65,000 entries of 20 kB in a file of 800 kB: 1.3 GB."""
    count, body = 65_000, bytes(20_000)
    at = 8 + 2 + 12 * count + 4
    entries = b"".join(struct.pack("<HHII", 300 + i % 65_000, 1, len(body), at) for i in range(count))
    path = tmp_path / "a.tif"
    path.write_bytes(b"II*\0" + struct.pack("<IH", 8, count) + entries + bytes(4) + body)
    with pytest.raises(OverBudget, match=r"what it says of its pixels takes .* more than the 1e\+08"):
        first(path, budget=Budget(bytes=1e8))


def test_idx_is_refused_by_the_sum_in_its_header(tmp_path):
    """8.8 MB of gzip took 2.2 GB."""
    head = b"\0\0\x08\x03" + struct.pack(">III", 60_000, 200, 200)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(head + bytes(1000)))
    with pytest.raises(OverBudget, match=r"60000×200×200 uint8 values, takes 2.4e\+09 bytes of memory"):
        read_idx(path)
    path.write_bytes(head + bytes(1000))
    with pytest.raises(ValueError, match="cut short: .* values are 2400000000 bytes, it has 1000"):
        read_idx(path)
    with pytest.raises(ValueError, match="its array has 40 dimensions, at most 32"):
        path.write_bytes(b"\0\0\x08\x28" + 40 * struct.pack(">I", 1) + b"\0")
        read_idx(path)
    with pytest.raises(OverBudget, match="0×4294967295"):  # an axis of nothing hides the others
        path.write_bytes(b"\0\0\x0d\x04" + struct.pack(">4I", 0, 2**32 - 1, 2**32 - 1, 2**32 - 1))
        read_idx(path)


def test_the_files_of_a_folder_share_a_budget(tmp_path):
    for prefix, n in (("train", 60), ("t10k", 20)):
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte.gz", np.zeros((n, 20, 20), np.uint8))
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte", np.arange(n, dtype=np.uint8) % 2)
    assert len(load_images(tmp_path).test) == 20
    with pytest.raises(OverBudget, match=r"t10k-images-idx3-ubyte.gz, 20×20×20 uint8 values, takes"):
        load_images(tmp_path, budget=Budget(bytes=28_000))


def test_wide_numbers_of_another_byte_order_take_no_second_copy(tmp_path):
    values = np.random.default_rng(0).standard_normal((5, 7)).astype(">f8")
    found = read_idx(write_idx(tmp_path / "a", values), budget=Budget(bytes=300))
    assert found.dtype == np.float64 and found.dtype.isnative and found.flags.writeable
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("read", [first, read_idx])
def test_pipes_are_not_opened(read, tmp_path):
    os.mkfifo(tmp_path / "a.png")
    with pytest.raises(ValueError, match="a.png is not a regular file"):
        read(tmp_path / "a.png")


def test_a_jpeg_of_very_many_scans_is_refused(tmp_path):
    """Of 95 bytes each, that take 0.08 s at 8000×8000 pixels."""
    Image.new("L", (1000, 1000), 128).save(tmp_path / "a.jpg", progressive=True)
    whole = (tmp_path / "a.jpg").read_bytes()
    assert first(tmp_path / "a.jpg").shape == (1, 3, 8, 8)
    (tmp_path / "a.jpg").write_bytes(whole[:-2] + whole[whole.rindex(b"\xff\xda") : -2] * 20_000 + whole[-2:])
    with pytest.raises(OverBudget, match=r"decoding its 20006 scans takes 26 seconds of computing, more than the 10"):
        first(tmp_path / "a.jpg")
