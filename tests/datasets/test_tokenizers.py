"""Tokenizers give a text back, learn the pairs a naive count finds, and live in files that anyone may read."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter

import numpy as np
import pytest

from sciops import Budget
from sciops.datasets import encode_documents, load_tokenizer, tokenizer_for
from sciops.datasets.text.tokenizers import BytePairs, Symbols
from sciops.files.budget import OverBudget

pytest.importorskip("tokenizers")
TEXT = "low low low low low lower lower newest newest newest newest newest newest widest widest widest ünïcödé 𝔸\n" * 3
HOSTILE = ["", "a", " <|end|> x", "  two  spaces\t\n\r\n", "ünïcödé 😀 𝔸 \x00\x7f", "\ufffd", "日本語のテキスト"]


@pytest.fixture(scope="module")
def pairs():
    return tokenizer_for(TEXT, 300)


@pytest.mark.parametrize("text", [*HOSTILE, TEXT])
def test_byte_pairs_give_every_text_back(pairs, text):
    tokens = pairs.encode(text)
    assert pairs.decode(tokens) == text
    assert pairs.end not in tokens and (tokens < len(pairs)).all()
    assert pairs.decode([*tokens, pairs.end]) == text


def test_every_pair_was_the_most_frequent_when_it_was_joined():
    words = Counter({" low": 50, " lower": 20, " newest": 61, " widest": 33, " ünïn": 7})
    pairs = tokenizer_for("".join(word * n for word, n in words.items()), 257 + 12)
    left = Counter({tuple(bytes([b]) for b in word.encode()): n for word, n in words.items()})
    for learned in range(257, 257 + 12):
        counts = Counter()
        for word, n in left.items():
            for pair in zip(word, word[1:]):
                counts[pair] += n
        joined = pairs.decode([learned]).encode()
        (pair,) = {p for p, n in counts.items() if b"".join(p) == joined and n == max(counts.values())}
        left = Counter({_merged(word, *pair): n for word, n in left.items()})
    for word, parts in zip(words, left):
        if word.isascii():  # a lone byte of a longer character spells nothing
            assert [pairs.decode([t]).encode() for t in pairs.encode(word)] == list(parts)
        assert len(pairs.encode(word)) == len(parts)


def _merged(word, a, b):
    out, i = [], 0
    while i < len(word):
        step = 2 if word[i : i + 2] == (a, b) else 1
        out.append(b"".join(word[i : i + step]))
        i += step
    return tuple(out)


def test_characters_are_numbers_and_the_rare_ones_are_unknown():
    tokenizer = tokenizer_for("aaabbc\ufffd", 4, "characters")
    assert tokenizer.symbols == "ab\ufffd" and len(tokenizer) == 4
    np.testing.assert_array_equal(tokenizer.encode("abcba😀"), [1, 2, 3, 2, 1, 3])
    assert tokenizer.decode([1, 2, 0, 3]) == "ab\ufffd"
    for beyond in ([1, 4], [-1]):
        with pytest.raises(ValueError, match="expected 0 … 3"):
            tokenizer.decode(beyond)
    whole = tokenizer_for(TEXT, 100, "characters")
    assert whole.decode(whole.encode(TEXT)) == TEXT


@pytest.mark.parametrize("kind", ["bpe", "characters"])
def test_saved_ones_come_back_from_json(kind, tmp_path):
    tokenizer = tokenizer_for(TEXT, 300, kind)
    path = tokenizer.save(tmp_path / "run")
    assert path == tmp_path / "run" / "tokenizer.json" and path.read_bytes().startswith(b"{")
    for again in (load_tokenizer(tmp_path / "run"), load_tokenizer(path)):
        assert len(again) == len(tokenizer) and again.end == tokenizer.end
        for text in (*HOSTILE, TEXT):
            np.testing.assert_array_equal(again.encode(text), tokenizer.encode(text))
    assert tokenizer.save(tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_any_bit_of_saved_characters_may_flip(tmp_path):
    path, random = Symbols("abcdé\ufffd").save(tmp_path / "t.json"), np.random.default_rng(0)
    content, refused = path.read_bytes(), 0
    for at in random.integers(len(content), size=150):
        flipped = bytearray(content)
        flipped[at] ^= 1 << int(random.integers(8))
        path.write_bytes(flipped)
        try:
            assert load_tokenizer(path).symbols == "abcdé\ufffd"
        except ValueError as error:
            refused += "\n" not in str(error)
    assert refused > 140
    path.write_text('{"sciops": "1", "kind": "characters", "symbols": "ab\ufffd"}')  # from before
    assert load_tokenizer(path).symbols == "ab\ufffd"


def of_another_program(pairs, folder):
    """The description of a tokenizer without our digest."""
    described = json.loads(pairs.save(folder / "plain.json").read_text())
    del described["model"]["digest"]
    return described


def test_files_of_other_programs_do_not_cut_or_fill_a_text(pairs, tmp_path):
    described = of_another_program(pairs, tmp_path)
    described["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    described["padding"] = {
        "strategy": {"Fixed": 50},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": pairs.end,
        "pad_type_id": 0,
        "pad_token": "<|end|>",
    }
    (tmp_path / "theirs.json").write_text(json.dumps(described))
    theirs = load_tokenizer(tmp_path / "theirs.json")
    for text in ("low", TEXT):
        np.testing.assert_array_equal(theirs.encode(text), pairs.encode(text))


def test_numbers_that_are_left_out_are_counted(pairs, tmp_path):
    described = of_another_program(pairs, tmp_path)
    vocabulary = described["model"]["vocab"]
    vocabulary["Ġnewest"] = 70_000
    (tmp_path / "gap.json").write_text(json.dumps(described))
    gap = load_tokenizer(tmp_path / "gap.json")
    assert len(gap) == 70_001
    tokens = encode_documents(gap, ["low newest"])
    assert tokens.max() == 70_000 and gap.decode(tokens) == "low newest"


def test_documents_end_and_are_held_in_small_numbers(pairs):
    few = tokenizer_for(TEXT, 100, "characters")
    tokens = encode_documents(few, ["low", "", "er"])
    assert tokens.dtype == np.uint8
    assert tokens.tolist() == [*few.encode("low"), 0, 0, *few.encode("er"), 0]
    assert encode_documents(pairs, [TEXT]).dtype == np.uint16
    assert encode_documents(few, []).size == 0


def test_other_files_and_sizes_are_refused_in_one_line(tmp_path, pairs, monkeypatch):
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "b.json").write_text("cos\nsystem")
    (tmp_path / "c.json").write_text('{"model": {"type": "none"}}')
    for name, message in (("a", "holds no tokenizer"), ("b", "is not JSON"), ("c", "c.json: ")):
        with pytest.raises(ValueError, match=message):
            load_tokenizer(tmp_path / f"{name}.json")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_tokenizer(tmp_path)
    with pytest.raises(ValueError, match="no token '</s>'; pass end"):
        load_tokenizer(pairs.save(tmp_path / "d.json"), end="</s>")
    for text, size, kind, message in (
        ("", 300, "bpe", "no characters"),
        ("a", 256, "bpe", "at least 257"),
        ("a", 2, "characters", "at least 3"),
        ("a", 9, "words", "expected 'bpe' or 'characters'"),
    ):
        with pytest.raises(ValueError, match=message):
            tokenizer_for(text, size, kind)
    with pytest.raises(ValueError, match="different characters"):
        Symbols("aa\ufffd")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r"pip install 'sciops\[text\]'"):
        tokenizer_for("abc", 300)


def test_files_that_the_package_panics_at_are_one_line(tmp_path, pairs, capfd):
    found = of_another_program(pairs, tmp_path)
    unigram = {"type": "Unigram", "unk_id": None, "vocab": [["<|end|>", 0.0]]}
    for change, message in (
        (
            {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
            "not a tokenizer .the library panicked",
        ),
        ({"model": {"type": "BPE", "vocab": {}, "merges": []}, "added_tokens": []}, "has no token"),
        ({"model": {"type": "Unigram", "unk_id": 7, "vocab": [["a", 0.0]]}}, "not a tokenizer"),
        ({"model": unigram}, "the text cannot be encoded"),
        ({"model": [[]] * 2 + [json.loads("[" * 200 + "]" * 200)]}, "is not JSON .nested more than 100 levels"),
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps(found | change))
        with pytest.raises(ValueError, match=message) as caught:
            load_tokenizer(tmp_path).encode("abc")
        assert "\n" not in str(caught.value)
    capfd.readouterr()  # the package prints where it panicked
    (tmp_path / "tokenizer.json").unlink()
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="not a regular file"):
        load_tokenizer(tmp_path)


def test_byte_pairs_have_a_digest_that_other_programs_read_over(tmp_path):
    package = pytest.importorskip("tokenizers")
    made = tokenizer_for("the cat sat on the mat. the dog sat.", 270)
    path = made.save(tmp_path)
    saved = json.loads(path.read_text())
    assert package.Tokenizer.from_file(str(path)).encode("the cat").ids == made.encode("the cat").tolist()
    for change in (
        lambda d: d["model"]["merges"].reverse(),
        lambda d: d["model"]["vocab"].update({"t": 84, "u": 83}),
        lambda d: d["added_tokens"][0].update(special=False),
        lambda d: d.update(normalizer={"type": "Lowercase"}),
    ):
        changed = json.loads(path.read_text())
        change(changed)
        (tmp_path / "b.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match="b.json changed since it was written"):
            load_tokenizer(tmp_path / "b.json")
    (tmp_path / "b.json").write_text(json.dumps(saved, sort_keys=True))  # the same in another order and without space
    assert load_tokenizer(tmp_path / "b.json").encode("the dog").tolist() == made.encode("the dog").tolist()
    del saved["model"]["digest"]  # as the package writes it, and as we did before
    (tmp_path / "b.json").write_text(json.dumps(saved))
    assert len(load_tokenizer(tmp_path / "b.json")) == len(made)


@pytest.mark.parametrize("kind", ["WordLevel", "WordPiece", "Unigram"])
def test_the_digest_is_read_over_in_every_model_of_the_package(kind, tmp_path):
    package = pytest.importorskip("tokenizers")
    held = {"vocab": [("<|end|>", 0.0), ("a", -1.0)], "unk_id": 0} if kind == "Unigram" else None
    held = held or {"vocab": {"<|end|>": 0, "a": 1}, "unk_token": "<|end|>"}
    made = BytePairs(package.Tokenizer(getattr(package.models, kind)(**held)).to_str())
    assert load_tokenizer(made.save(tmp_path)).encode("a").tolist() == made.encode("a").tolist() == [1]


def test_a_vocabulary_is_counted_before_the_package_makes_it(tmp_path):
    pytest.importorskip("tokenizers")
    path = tmp_path / "a.json"
    description = {"model": {"type": "BPE", "vocab": {str(i): i for i in range(10_000)}, "merges": []}}
    path.write_text(json.dumps(description))
    with pytest.raises(OverBudget, match=r"a.json: its vocabulary takes 4\.\d+e\+06 bytes of memory"):
        load_tokenizer(path, budget=Budget(bytes=2e6))
    path.write_text(json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": ["a b"] * 10_000}}))
    with pytest.raises(OverBudget, match=r"a.json: its vocabulary takes 4\.07e\+06 bytes of memory"):
        load_tokenizer(path, budget=Budget(bytes=2e6))
    path.write_text("[" + "[]," * 50_000 + "0]")
    with pytest.raises(OverBudget, match=r"a.json: its JSON takes .* bytes of memory"):
        load_tokenizer(path, budget=Budget(bytes=2e6))
    made = tokenizer_for("abc", 5, "characters")
    with pytest.raises(OverBudget, match=r"its vocabulary takes .* bytes"):
        load_tokenizer(made.save(tmp_path), budget=Budget(bytes=1000))
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(ValueError, match="pipe.json is not a regular file"):
        load_tokenizer(tmp_path / "pipe.json")
