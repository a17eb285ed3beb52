"""Image files of every depth: numbers beyond 8 bits are scaled by the range of their format, or refused."""

import struct

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")

from sciops.datasets.images import load_images  # noqa: E402
from sciops.datasets.images.folders import ImageFiles  # noqa: E402

RAMP = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
EIGHT = np.round(RAMP * (255 / 65535)).astype(np.uint8)


def read(path, channels=1):
    return ImageFiles([path], size=8, channels=channels)[np.array([0])][0]


def tiff(path, body, bits, *, kind=1, sample_format=1, order="<"):
    """A TIFF file of one strip of 8×8 grey pixels, written by hand."""
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    tags = [(256, 4, 8), (257, 4, 8), (258, 3, bits), (259, 3, 1), (262, 3, kind), (273, 4, 0), (277, 3, 1)]
    tags += [(278, 4, 8), (279, 4, len(body)), (339, 3, sample_format)]
    start = 8 + 2 + 12 * len(tags) + 4
    rows = b""
    for tag, code, value in tags:
        value = start if tag == 273 else value
        rows += struct.pack(order + "HHI", tag, code, 1) + struct.pack(
            order + ("HH" if code == 3 else "I"), *([value, 0] if code == 3 else [value])
        )
    path.write_bytes(head + struct.pack(order + "H", len(tags)) + rows + bytes(4) + body)
    return path


@pytest.mark.parametrize("ending", ["png", "tif", "pgm"])
def test_sixteen_bits_of_grey(tmp_path, ending):
    path = tmp_path / f"ramp.{ending}"
    Image.fromarray(RAMP).save(path)
    assert np.array_equal(read(path)[0], EIGHT)
    assert np.array_equal(read(path, 3), np.stack([EIGHT] * 3))  # as a person with the default channels meets it


@pytest.mark.parametrize("order", ["<", ">"])
def test_tiff_byte_orders_white_at_zero_and_twelve_bits(tmp_path, order):
    body = RAMP.astype(order + "u2").tobytes()
    assert np.array_equal(read(tiff(tmp_path / "a.tif", body, 16, order=order))[0], EIGHT)
    if order == "<":
        assert np.array_equal(read(tiff(tmp_path / "b.tif", body, 16, kind=0))[0], 255 - EIGHT)
        values = np.linspace(0, 4095, 64).round().astype(int)
        packed = "".join(f"{v:012b}" for v in values)
        body = bytes(int(packed[i : i + 8], 2) for i in range(0, len(packed), 8))
        found = read(tiff(tmp_path / "c.tif", body, 12))[0]
        assert np.array_equal(found.ravel(), np.round(values * (255 / 4095)))


def test_portable_maps_of_any_largest_value(tmp_path):
    for most in (15, 255, 1000, 4095, 65535):
        values = np.linspace(0, most, 64).round().astype(int)
        for name, body in ((b"P5", values), (b"P6", values.repeat(3))):
            path = tmp_path / f"{name.decode()}_{most}.ppm"
            path.write_bytes(b"%s 8 8 %d\n" % (name, most) + body.astype("u1" if most < 256 else ">u2").tobytes())
            # one level: two roundings for grey, and colours are brought to 8 bits by the decoder
            assert np.abs(read(path)[0].ravel() - values * (255 / most)).max() <= 1


@pytest.mark.parametrize(
    ("dtype", "bits", "sample_format", "words"),
    [("f4", 32, 3, "floating-point numbers"), ("i4", 32, 2, "signed or 32-bit"), ("i2", 16, 2, "signed or 32-bit")],
)
def test_numbers_without_a_range_are_refused(tmp_path, dtype, bits, sample_format, words):
    path = tiff(tmp_path / "a.tif", RAMP.astype("<" + dtype).tobytes(), bits, sample_format=sample_format)
    with pytest.raises(ValueError, match=f"a.tif: .*its pixels are {words}.*save them with 8 or 16 bits") as caught:
        read(path)
    assert "\n" not in str(caught.value)


def test_other_modes(tmp_path):
    """One bit, palettes with transparency, grey with alpha, CMYK, and colours of 16 bits."""
    black_white = Image.fromarray(EIGHT).convert("1", dither=Image.Dither.NONE)
    black_white.save(tmp_path / "one.png")
    assert np.array_equal(read(tmp_path / "one.png")[0], np.where(EIGHT < 128, 0, 255))
    palette = Image.fromarray(EIGHT // 16 * 16).convert("P")
    palette.save(tmp_path / "palette.png", transparency=3)
    assert np.array_equal(read(tmp_path / "palette.png")[0], EIGHT // 16 * 16)
    Image.merge("LA", [Image.fromarray(EIGHT), Image.fromarray(EIGHT // 2)]).save(tmp_path / "alpha.png")
    assert np.array_equal(read(tmp_path / "alpha.png")[0], EIGHT)
    zero = Image.fromarray(np.zeros_like(EIGHT))
    Image.merge("CMYK", [zero, zero, zero, Image.fromarray(255 - EIGHT)]).save(tmp_path / "cmyk.tif")
    assert np.array_equal(read(tmp_path / "cmyk.tif", 3), np.stack([EIGHT] * 3))


def test_a_folder_of_sixteen_bit_images_is_not_white(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for k in range(4):
            Image.fromarray(RAMP if name == "a" else RAMP[::-1].copy()).save(tmp_path / name / f"{k}.png")
    data = load_images(tmp_path, size=8, channels=1, validation=2, test=2, standardize=False)
    x = data.train.batch([0])["x"][0, 0]
    np.testing.assert_allclose(x if data.train.labels[0] == 0 else x.flip(0), RAMP / 65535, atol=0.5 / 255 + 1e-6)
