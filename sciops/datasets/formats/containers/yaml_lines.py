"""The few lines of YAML that simulation settings in attributes are made of; nothing in them is ever executed.

Why not PyYAML's `safe_load`: it reads 1e-3 as a text, and deeply nested text ends in a RecursionError.
"""

from __future__ import annotations

from typing import Any

_LONGEST = 1 << 20  # characters of settings: the path of a line takes as long as it is nested


def settings(text: Any) -> dict[str, Any]:
    """ "sim.Du" → 0.001 for nested mappings of numbers, words and lists of them; other YAML is passed over.

    text : the attribute's value; anything but text of at most a megabyte gives an empty dict

    >>> settings("name: rdb\\nsim:\\n  gravity: 1.0\\n  size:\\n  - 4\\n  - 8")
    {'name': 'rdb', 'sim.gravity': 1.0, 'sim.size': [4.0, 8.0]}
    """
    found: dict[str, Any] = {}
    above: list[tuple[int, str]] = []  # indentation and key of the mappings around this line
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    for line in text.splitlines() if isinstance(text, str) and len(text) <= _LONGEST else ():
        content = line.split(" #")[0].strip()
        if not content or content.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip(" "))
        if content.startswith("- "):
            # YAML lets the items of a list stand as deep as its key
            while above and above[-1][0] > indent:
                above.pop()
            if above and isinstance(found.setdefault(path := ".".join(k for _, k in above), []), list):
                found[path].append(_value(content[2:]))
            continue
        key, colon, value = content.partition(":")
        while above and above[-1][0] >= indent:
            above.pop()
        path = ".".join([*(k for _, k in above), key.strip().strip("'\"")])
        if colon and value.strip():
            found[path] = _value(value)
        elif colon:
            above.append((indent, key.strip().strip("'\"")))
    return found


def _value(text: str) -> Any:
    word = text.strip().strip("'\"")
    if word.startswith("[") and word.endswith("]"):
        return [_value(part) for part in word[1:-1].split(",") if part.strip()]
    try:
        return float(word)
    except ValueError:
        return word
