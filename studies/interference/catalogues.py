"""The same messages in several languages, from the translations of programs that are installed on this machine."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from sciops.files.untrusted import check_regular

FOLDER = Path("/usr/share/locale")
FAMILIES = {
    "Romance": "ca es fr gl it pt pt_BR ro",
    "Germanic": "da de nb nl sv",
    "Slavic": "be bg cs hr mk pl ru sk sl sr sr@latin uk",
    "Turkic": "az kk tr uz uz@cyrillic",
    "Uralic": "et fi hu",
    "Iranian": "fa tg",
    "Semitic": "ar he",
}
"""Family → codes of languages; a language that is not here has a family of its own."""

_LARGEST = 1 << 24  # bytes of a catalogue
_MARKUP = re.compile(r"<[^>]*>|%[-+#0-9.*$]*(?:l|ll|h|z|I64)?[a-zA-Z]|\{[^}]*\}|\\.|&\w+;|[_&](?=\w)")
_SPACE = re.compile(r"\s+")
_SHORTEST = 12  # letters of a message


def family_of(code: str) -> str:
    """The family of a language in `FAMILIES`, else its own code."""
    return next((family for family, codes in FAMILIES.items() if code in codes.split()), code)


def script_of(text: str) -> str:
    """The script of most letters of a text, as the names of Unicode have it: "Latin", "Cyrillic"."""
    counts = Counter(character for character in text if character.isalpha())
    scripts: Counter[str] = Counter()
    for character, count in counts.items():
        scripts[unicodedata.name(character, "unknown").split()[0].title()] += count
    return scripts.most_common(1)[0][0] if scripts else "unknown"


def read_catalogue(path: Path) -> dict[str, str]:
    """Message → translation of a compiled catalogue of gettext (.mo), its first form where there are plurals.

    Raises ValueError, in one line, for a file that is not one, ends early, or is in no encoding that Python knows.
    """
    if check_regular(path).stat().st_size > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST:,} bytes: not read as a catalogue")
    content = path.read_bytes()
    order = {b"\xde\x12\x04\x95": "<", b"\x95\x04\x12\xde": ">"}.get(content[:4])
    if order is None or len(content) < 20:
        raise ValueError(f"{path} is not a compiled catalogue of gettext")
    _, count, originals, translations = np.frombuffer(content, f"{order}u4", 4, 4).tolist()
    if max(originals, translations) + 8 * count > len(content):
        raise ValueError(f"{path} ends before its tables of {count} messages")
    tables = [np.frombuffer(content, f"{order}u4", 2 * count, at).reshape(-1, 2) for at in (originals, translations)]
    pairs = [
        tuple(content[start : start + length] for length, start in (one, two))
        for one, two in zip(*(table.tolist() for table in tables))
    ]
    head = next((text for key, text in pairs if not key), b"").decode("ascii", "replace")
    charset = re.search(r"charset=([\w-]+)", head)
    encoding = charset[1] if charset else "utf-8"
    try:
        return {
            key.split(b"\0")[0].decode(encoding): text.split(b"\0")[0].decode(encoding) for key, text in pairs if key
        }
    except (LookupError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not text in its encoding {encoding!r}: {error}") from None


def cleaned(text: str, script: str) -> str:
    """A message in small letters without markup, digits and, in other scripts, Latin words; "" where little is left."""
    text = _MARKUP.sub("", text).lower()
    if script != "Latin":
        text = re.sub(r"[a-z]+", "", text)
    text = "".join(c if c.isalpha() or unicodedata.category(c) == "Mn" or c in " ,.:;!?'-" else " " for c in text)
    text = _SPACE.sub(" ", text).strip(" ,.:;!?'-")
    return text if sum(map(str.isalpha, text)) >= _SHORTEST else ""


def messages(codes: Sequence[str], folder: Path = FOLDER) -> dict[str, list[str]]:
    """Code → messages, the same ones in the same order for all languages: those that all of them translate.

    Catalogues of names of countries and languages (iso_…) are left out, and so are messages that are not translated,
    have fewer than 12 letters, or repeat another one.

    Raises FileNotFoundError for a language without catalogues.
    """
    absent = [code for code in codes if not (folder / code / "LC_MESSAGES").is_dir()]
    if absent:
        raise FileNotFoundError(f"{folder} has no translations into {', '.join(absent)}: install their language packs")
    domains = set.intersection(*({p.name for p in (folder / c / "LC_MESSAGES").glob("*.mo")} for c in codes))
    found: dict[str, dict[str, str]] = {code: {} for code in codes}
    for domain in sorted(name for name in domains if not name.startswith("iso_")):
        try:
            read = {code: read_catalogue(folder / code / "LC_MESSAGES" / domain) for code in codes}
        except ValueError:  # in an encoding of its own, or damaged
            continue
        for key in sorted(set.intersection(*map(set, read.values()))):
            texts = {code: read[code][key] for code in codes}
            original = key.rpartition("\4")[2]  # after its context
            if all(text != original for text in texts.values()):
                for code, text in texts.items():
                    found[code].setdefault(key, text)
    return _clean_everywhere(found)


def _clean_everywhere(found: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
    scripts = {code: script_of(" ".join(texts.values())) for code, texts in found.items()}
    clean = {code: {k: cleaned(text, scripts[code]) for k, text in texts.items()} for code, texts in found.items()}
    seen: dict[str, set[str]] = {code: set() for code in clean}
    kept: dict[str, list[str]] = {code: [] for code in clean}
    for key in next(iter(clean.values()), {}):
        row = {code: texts[key] for code, texts in clean.items()}
        if all(row.values()) and not any(text in seen[code] for code, text in row.items()):
            for code, text in row.items():
                seen[code].add(text)
                kept[code].append(text)
    return kept


def lines_of(texts: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Name → cleaned lines of texts of one's own, with the same cleaning; the lines need not correspond."""
    found = {}
    for name, text in texts:
        script = script_of(text)
        found[name] = [line for line in (cleaned(one, script) for one in text.splitlines()) if line]
    return found
