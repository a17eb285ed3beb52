"""Pictures inside a page: read with bounds, made smaller where they are large, written as data URIs."""

from __future__ import annotations

import base64
import io
import warnings
from dataclasses import dataclass
from pathlib import Path

from sciops.files.messages import shown
from sciops.files.untrusted import check_regular
from sciops.reports.parts import Figure

KINDS = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif"}
LARGEST_FILE = 32_000_000  # bytes of a picture that is read
LARGEST_AS_IT_IS = 400_000  # bytes of a PNG or JPEG above which a smaller one is embedded
WIDEST = 1600  # pixels of such a smaller one
LARGEST_EMBEDDED = 8_000_000  # bytes of one picture in a page
MOST_PIXELS = 60_000_000


@dataclass(frozen=True)
class Embedded:
    """A picture as a page holds it.

    uri : the data URI
    width, height : pixels
    caption, alt : texts
    bytes : size of the picture before its base64 form
    note : what was done to it, such as a reduction
    """

    uri: str
    width: int
    height: int
    caption: str
    alt: str
    bytes: int
    note: str = ""

    @property
    def wide(self) -> bool:
        """Whether it keeps a legible width on a narrow screen, where its box scrolls."""
        return self.width > 900


def embedded(figure: Figure) -> Embedded:
    """The picture of a figure, to be written into a page.

    PNG and JPEG files of more than 400 kB are reduced to 1600 pixels of width and 256 colours where that is smaller.

    Raises
    ------
    OSError, ValueError
        In one line: the file is missing, no picture, damaged or too large.
    """
    from PIL import Image

    path = check_regular(figure.source)
    if path.stat().st_size > LARGEST_FILE:
        raise ValueError(f"{path} has {path.stat().st_size / 1e6:.0f} MB, at most {LARGEST_FILE / 1e6:.0f} are read")
    content = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a picture that unpacks to very many pixels is a warning of Pillow's
            with Image.open(io.BytesIO(content), formats=list(KINDS)) as image:
                kind, (width, height) = str(image.format), image.size
                said = str(image.info.get("Description") or "")
                if width * height > MOST_PIXELS:
                    raise ValueError(f"{width}×{height} pixels, at most {MOST_PIXELS:,} are shown")
                image.load()  # a file that is cut off is noticed here, not by the browser
                if kind != "GIF" and len(content) > LARGEST_AS_IT_IS:
                    smaller = _reduced(image)
                else:
                    smaller = None
    except Exception as error:  # whatever a damaged file leads to
        text = shown(str(error), 160)
        raise ValueError(f"{path} is not a PNG, JPEG or GIF picture that can be shown ({text})") from None
    note = ""
    if smaller is not None and len(smaller[0]) < len(content):
        note = f"reduced from {width}×{height} pixels"
        content, (width, height) = smaller
        kind = "PNG"
    if len(content) > LARGEST_EMBEDDED:
        raise ValueError(f"{path} has {len(content) / 1e6:.0f} MB, at most {LARGEST_EMBEDDED / 1e6:.0f} are embedded")
    caption = shown(figure.caption or said or in_words(path), 1000)
    uri = f"data:{KINDS[kind]};base64,{base64.b64encode(content).decode()}"
    return Embedded(uri, width, height, caption, shown(figure.alt, 1000) or caption, len(content), note)


def in_words(path: Path) -> str:
    """The name of a file as a caption: "Error against time" of "error_against_time.png"."""
    words = path.stem.replace("_", " ").replace("-", " ").strip() or path.name
    return words[0].upper() + words[1:]


def _reduced(image: object) -> tuple[bytes, tuple[int, int]]:
    """(PNG, size) of the picture in 256 colours and at most `WIDEST` pixels of width."""
    from PIL import Image

    assert isinstance(image, Image.Image)
    flat = Image.new("RGB", image.size, "white")
    rgba = image.convert("RGBA")
    flat.paste(rgba, mask=rgba.getchannel("A"))
    if flat.width > WIDEST:
        flat = flat.resize((WIDEST, max(1, round(flat.height * WIDEST / flat.width))), Image.Resampling.LANCZOS)
    target = io.BytesIO()
    flat.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(target, "PNG", optimize=True)
    return target.getvalue(), flat.size
